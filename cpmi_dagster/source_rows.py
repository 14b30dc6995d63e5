"""Raw rows of a trajectory source, numbered and dealt to shards before anything is judged.

{"input": "Ann has 3 hats … ки", "label": "Ann has 3 hats … +", "task": "GSM8K"}    line 17 of the source
-> row_number 17, shard "002" by the hash of its question
"""

import polars as pl

from cpmi_dagster.alignment import question_id, shard_key
from cpmi_dagster.errors import SourceError
from cpmi_dagster.math_shepherd import question_of
from cpmi_dagster.tables import MathShepherd

REQUIRED = ("input", "task")


def number_rows(raw: pl.DataFrame) -> pl.DataFrame:
    """The source's rows with the columns of sources.math_shepherd.

    Args:
        raw: columns input, label and task; a source with a `value` list may lack labels.

    Raises:
        SourceError: a column is missing, or a row has no text in it.
    """
    missing = [name for name in REQUIRED if name not in raw.columns]
    if missing or not {"label", "value"} & set(raw.columns):
        wanted = ", ".join((*REQUIRED, "label"))
        raise SourceError(f"the trajectory source has columns {', '.join(raw.columns)}; it needs {wanted}")
    numbered = (
        raw.drop("row_number", strict=False)
        .with_row_index("row_number")
        .with_columns(pl.col("row_number").cast(pl.Int64))
    )
    empty = numbered.filter(pl.any_horizontal(pl.col(name).is_null() for name in REQUIRED))
    if empty.height:
        raise SourceError(f"row {empty['row_number'][0]} of the trajectory source lacks its input or task; mend it")
    optional = {"label": pl.lit("", pl.String), "value": pl.lit(None, pl.List(pl.String))}
    absent = [default.alias(name) for name, default in optional.items() if name not in numbered.columns]
    return numbered.with_columns(absent).with_columns(pl.col("label").fill_null("")).select(MathShepherd.column_names())


def rows_by_shard(rows: pl.DataFrame, shards: int) -> dict[str, pl.DataFrame]:
    """Rows of sources.math_shepherd by partition key; every shard is there, empty ones too.

    Args:
        rows: columns of sources.math_shepherd.
        shards: how many shards the questions are dealt to.
    """
    keys = [shard_key(question_id(question_of(text)), shards) for text in rows["input"]]
    dealt = rows.with_columns(shard=pl.Series(keys, dtype=pl.String))
    return {f"{shard:03d}": dealt.filter(shard=f"{shard:03d}").drop("shard") for shard in range(shards)}
