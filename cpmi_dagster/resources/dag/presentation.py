"""A stage in Dagster's UI: its assets, their tables' contracts, links to the code, and what a run has made.

labels/answer_logprobs    primary key: trajectory_id, template, context, step_index, answer_rank; template ≥ 0; …

context        enum<string>   part of the primary key   kind of text before the target: question, prefix, step, all_but
logprob_sum    float64                                  log-probability of the target `The answer is: {a}`, nats; from
                                                        alignment.trajectories (question, steps, gold_answer), …
"""

import inspect
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES, Table, column_meanings, columns_of
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.files.text import cut, in_markdown
from cpmi_dagster.resources.dag.facts import (
    HASH_CHARACTERS,
    columns_hashed,
    facts_in_words,
    recipe_facts,
    setting_values,
)
from cpmi_dagster.resources.dag.home_resources import INPUTS
from cpmi_dagster.resources.dag.stage import Stage, asset_key, direct_inputs, prefixed
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.lake.database import FILE_NAME
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record, hash_of

OWNERS = ["team:cpmi"]
STORED_AS = ("duckdb", "parquet")
"""Kinds of every asset beside those that its stage names."""
# metadata keys to which Dagster's UI gives a place
COLUMN_SCHEMA, COLUMN_LINEAGE = "dagster/column_schema", "dagster/column_lineage"
TABLE_NAME, CODE_REFERENCES = "dagster/table_name", "dagster/code_references"
ROW_COUNT, PARTITION_ROW_COUNT = "dagster/row_count", "dagster/partition_row_count"
NAMED_COLUMN = re.compile(r"\w+\.\w+\.\w+")
"""A column as descriptions name it: `labels.hard_negatives.rank`."""
PREVIEW_ROWS = 5
PREVIEW_CHARACTERS, FACT_CHARACTERS = 80, 400


def asset_spec(stage: Stage, key: str, home: Home) -> dg.AssetSpec:
    """The spec of a table's asset.

    Of its inputs Dagster shows those that no other input is made from (`direct_inputs`).
    """
    settings, table = home.settings, TABLES[key]
    days = settings.orchestration.fresh_within_days if table.group == "dataset" else None
    spec = dg.AssetSpec(
        asset_key(key, stage.prefix),
        deps=[
            *(_dep(stage, name, home) for name in direct_inputs(stage, home.stages)),
            # a shard may have rows from every partition of the project's asset
            *(dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) for key in stage.upstream),
        ],
        description=asset_description(stage, key),
        group_name=table.group,
        code_version=code_version(stage, home),
        owners=OWNERS,
        kinds={*stage.kinds, *STORED_AS},
        metadata={
            **table_metadata(stage, table, home.lake.home),
            COLUMN_LINEAGE: column_lineage(stage, table),
            **_code_reference(stage),
        },
        freshness_policy=dg.FreshnessPolicy.time_window(timedelta(days=days)) if days is not None else None,
    )
    return spec.with_io_manager_key(prefixed(INPUTS, stage.prefix)) if stage.prefix else spec


def _dep(stage: Stage, key: str, home: Home) -> dg.AssetDep:
    """The dependency on an input; all partitions of one that is partitioned otherwise."""
    theirs = home.stages[key].run_partitioning
    is_whole = stage.run_partitioning and theirs not in (None, stage.run_partitioning)
    return dg.AssetDep(asset_key(key, stage.prefix), partition_mapping=dg.AllPartitionMapping() if is_whole else None)


def code_version(stage: Stage, home: Home) -> str:
    """The hash of what the rows follow from, here and upstream, as far as it is known without reading rows.

    Dagster shows an asset as unsynced if this, or the data version of an input, differs from that of the last
    materialization. `States` knows more: the weights in a model's folder, and commits of the hub.
    """
    known = home.cache.setdefault("code versions", {})
    if stage.table not in known:
        upstream = [code_version(home.stages[key], home) for key in direct_inputs(stage, home.stages)]
        facts = [stage.code_version, columns_hashed(stage), _settings_of(stage, home), upstream]
        known[stage.table] = f"{stage.code_version}-{hash_of(facts)[:HASH_CHARACTERS]}"
    return known[stage.table]


def _settings_of(stage: Stage, home: Home) -> list[Any]:
    """The settings, models and sources that a stage's rows depend on; of sources on this disk, the files' hashes."""
    settings = home.settings
    models = [settings.models.of(role) for role in stage.models] + list(stage.named_models(settings).values())
    recipes = [recipe_facts(recipe, settings) for recipe in settings.recipes] if stage.partitioning == "recipe" else []
    named = [model and model.model_dump(mode="json") for model in models]
    return [settings.seed, setting_values(stage.settings, settings), named, recipes, _sources(stage, home)]


def _sources(stage: Stage, home: Home) -> list[Any]:
    """The sources of a stage; none if a file is missing, which is an error of the run, not of the graph.

    None also if an asset of the user's project writes them, since that may be in the same run.
    """
    if stage.upstream:
        return []
    try:
        sources = stage.sources(home.settings)
        return [
            source.model_dump(mode="json") if source.hub else home.sources.version(source)
            for source in sources.values()
        ]
    except (CpmiError, OSError):
        return []


def asset_description(stage: Stage, key: str) -> str:
    """What a table is; of the stage's main table also how it is made."""
    how = inspect.getdoc(stage.body) if key == stage.table else None
    return "\n\n".join(dict.fromkeys([TABLES[key].meaning, *([how] if how else [])]))


def table_metadata(stage: Stage, table: Table, home: Path) -> dict[str, Any]:
    """What is known of a table before it is made: name, columns, database, a query."""
    return {
        TABLE_NAME: table.relation,
        COLUMN_SCHEMA: column_schema(stage, table),
        "database": dg.MetadataValue.path(home.absolute() / FILE_NAME),
        "sql": query_of(table),
    }


def column_schema(stage: Stage, table: Table) -> dg.TableSchema:
    """The columns of a table, and the rules that its rows keep."""
    meanings = column_meanings(table)
    columns = [
        dg.TableColumn(name, type_name(dtype), _describe(stage, name, dtype, meanings[name]), _constraints(table, name))
        for name, dtype in columns_of(table).items()
    ]
    return dg.TableSchema(columns, dg.TableConstraints(list(_rules(table))))


def type_name(dtype: Any) -> str:
    """The name of a polars type: `int64`, `list<string>`, `enum<string>`."""
    if isinstance(dtype, pl.List):
        return f"list<{type_name(dtype.inner)}>"
    if isinstance(dtype, pl.Enum):
        return "enum<string>"  # beside a name with `num` but without `str`, the UI shows the sign of numbers
    return "struct" if isinstance(dtype, pl.Struct) else str(dtype).lower()


def _describe(stage: Stage, name: str, dtype: Any, meaning: str) -> str:
    """The meaning of a column, with the fields of a struct, and the columns it is made from."""
    inner = dtype.inner if isinstance(dtype, pl.List) else dtype
    fields = inner.fields if isinstance(inner, pl.Struct) else []
    named = ", ".join(f"{field.name} {type_name(field.dtype)}" for field in fields)
    sources = _columns_behind(stage, name, set(NAMED_COLUMN.findall(meaning)))
    return "; ".join([meaning, *([f"fields {named}"] if named else []), *([f"from {sources}"] if sources else [])])


def _columns_behind(stage: Stage, column: str, known: set[str]) -> str:
    """The columns that the stage names as those a column is made from, but for the known ones.

    A column of the same name in an input is not always its source: the steps of a candidate are the policy's, those
    of a problem are to be judged.
    """
    names: dict[str, list[str]] = {}
    for source in stage.lineage.get(column, ()):
        key, _, name = source.rpartition(".")
        if f"{TABLES[key].relation}.{name}" not in known:
            names.setdefault(TABLES[key].relation, []).append(name)
    return ", ".join(
        f"{relation}.{columns[0]}" if len(columns) == 1 else f"{relation} ({', '.join(columns)})"
        for relation, columns in names.items()
    )


def _constraints(table: Table, name: str) -> dg.TableColumnConstraints:
    keys, column = table.schema.primary_key(), table.schema.columns().get(name)
    role = "primary key" if [name] == keys else "part of the primary key"
    return dg.TableColumnConstraints(
        nullable=column is not None and column.nullable,
        unique=[name] == keys,
        other=[role] if name in keys else [],
    )


def _rules(table: Table) -> Iterator[str]:
    """The primary key of a table, and the limits of its columns."""
    if keys := table.schema.primary_key():
        yield f"primary key: {', '.join(keys)}"
    for name, column in table.schema.columns().items():
        least, most, shortest = (getattr(column, rule, None) for rule in ("min", "max", "min_length"))
        if least is not None or most is not None:
            yield " ≤ ".join(str(part) for part in (least, name, most) if part is not None)
        if shortest is not None:
            yield f"{shortest} ≤ length of {name}"


def column_lineage(stage: Stage, table: Table) -> dg.TableColumnLineage:
    """The input columns of each column: those of the same name, and those the stage names."""
    deps = {
        column: [dg.TableColumnDep(asset_key(key, stage.prefix), name) for key, name in sources]
        for column, sources in stage.column_sources(table.key).items()
    }
    return dg.TableColumnLineage(deps)


def _code_reference(stage: Stage) -> Mapping[str, Any]:
    file = inspect.getsourcefile(stage.body)
    if file is None:
        return {}
    line = inspect.getsourcelines(stage.body)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        reference = dg.LocalFileCodeReference(file_path=file, line_number=line)
        return {CODE_REFERENCES: dg.CodeReferencesMetadataValue(code_references=[reference])}


def run_metadata(stage: Stage, records: Sequence[Record], rows: pl.DataFrame, lake: Lake) -> dict[str, Any]:
    """Metadata of a run's files.

    Args:
        records: of the partition that the run made, or of all partitions of the table.
        rows: the first ones.
    """
    table = TABLES[records[0].table]
    keys = list({record.key: record for record in records}.values())  # files of one key were made at once
    paths = [lake.path(record.table, record.partition).absolute() for record in records]
    models = dict.fromkeys(record.model for record in keys if record.model)
    notes = dict.fromkeys(note for record in keys for note in record.notes)
    shown = {
        **({PARTITION_ROW_COUNT: sum(record.rows for record in records)} if stage.run_partitioning else {}),
        ROW_COUNT: sum(record.rows for record in lake.records(table.key)),
        **_costs(keys),
        "made": dg.MetadataValue.timestamp(max(datetime.fromisoformat(record.written_at) for record in records)),
        "made from": dg.MetadataValue.md(preview(facts_in_words(keys), None, FACT_CHARACTERS)),
        "path": dg.MetadataValue.path(paths[0] if len(paths) == 1 else paths[0].parent),
        "sql": query_of(table),
        "preview": dg.MetadataValue.md(preview(rows)),
    }
    if len(keys) == 1:
        shown["key"] = keys[0].key
    if models:
        shown["model"] = ", ".join(models)
    if notes:
        shown["notes"] = dg.MetadataValue.md("\n".join(f"- {in_markdown(note)}" for note in notes))
    return shown


def _costs(records: Sequence[Record]) -> dict[str, float]:
    """The seconds and tokens of files, without zeros; Dagster plots each."""
    total = sum((Cost(**record.cost) for record in records), Cost())
    return {name: rounded for name, value in asdict(total).items() if (rounded := round(value, 2))}


def preview(frame: pl.DataFrame, rows: int | None = PREVIEW_ROWS, characters: int = PREVIEW_CHARACTERS) -> str:
    """The first rows as a Markdown table; all if `rows` is None; longer cells are cut."""
    head = frame if rows is None else frame.head(rows)
    lines = ["| " + " | ".join(map(in_markdown, head.columns)) + " |", "|" + "---|" * head.width]
    lines += ["| " + " | ".join(_cell(value, characters) for value in row) + " |" for row in head.iter_rows()]
    return "\n".join(lines)


def _cell(value: Any, characters: int) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return in_markdown(cut(text, characters))


def query_of(table: Table) -> str:
    """A query that shows rows of a table."""
    return f"select * from {table.relation} limit 10"
