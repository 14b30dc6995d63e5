"""What Dagster shows of files that a run has made: rows, cost, a preview, and what their keys are the hash of.

fact          name                    value
code version                          2
setting       scoring.templates       4
model         labeler                 miniature:labeler@9107f777503e, float32, 580a12c35a43
input         labels/hard_negatives   e3958c50
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES, Table
from cpmi_dagster.files.text import cut, in_markdown
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record

# metadata keys to which Dagster's UI gives a place
ROW_COUNT, PARTITION_ROW_COUNT = "dagster/row_count", "dagster/partition_row_count"
PREVIEW_ROWS = 5
PREVIEW_CHARACTERS = 80
FACT_CHARACTERS = 400
WORDS = {
    "code_version": "code version",
    "settings": "setting",
    "models": "model",
    "sources": "source",
    "inputs": "input",
    "costs": "cost",
}
"""Names of kinds of facts, if a record calls them otherwise."""
BY_PATH = ("settings", "recipe")
"""Kinds of facts that have a row for each setting in them."""
HASH = re.compile("[0-9a-f]{64}")
HASH_CHARACTERS = 8
COLUMNS = ("fact", "name", "value")


def facts_of(stage: Stage, records: Sequence[Record], rows: pl.DataFrame, lake: Lake) -> dict[str, Any]:
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
        ROW_COUNT: sum(record.rows for record in _all_files(lake, table.key)),
        **_costs(keys),
        "made": dg.MetadataValue.timestamp(max(datetime.fromisoformat(record.written_at) for record in records)),
        "made from": dg.MetadataValue.md(preview(facts_table(keys), None, FACT_CHARACTERS)),
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


def _all_files(lake: Lake, key: str) -> list[Record]:
    """The records of a table's files, of all partitions."""
    names = lake.partitions(key) if TABLES[key].partitioning else [None]
    return [record for name in names if (record := lake.record(key, name))]


def _costs(records: Sequence[Record]) -> dict[str, float]:
    """The seconds and tokens of files, without zeros; Dagster plots each."""
    total = sum((Cost.from_dict(record.cost) for record in records), Cost.zero())
    return {name: rounded for name, value in total.to_dict().items() if (rounded := round(value, 2))}


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


def facts_table(records: Sequence[Record]) -> pl.DataFrame:
    """A row for each fact behind some files, with all its values if the files differ in it."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        for kind, name, value in _facts(record):
            values.setdefault((kind, name), {})[value] = None
    kinds = list(dict.fromkeys(kind for kind, _ in values))
    ordered = sorted(values.items(), key=lambda item: kinds.index(item[0][0]))
    rows = [(kind, name, ", ".join(distinct)) for (kind, name), distinct in ordered]
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String()), orient="row")


def _facts(record: Record) -> Iterator[tuple[str, str, str]]:
    """The kind, name and value of each fact behind a file, without its columns, which the schema shows."""
    for kind, facts in record.facts.items():
        if kind == "columns":
            continue
        named = {"": facts} if not isinstance(facts, Mapping) else facts
        for name, value in _by_path(named) if kind in BY_PATH else named.items():
            yield WORDS.get(kind, kind), name, _in_words(value)


def _by_path(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted path, without those that are null."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _by_path(value, f"{path}{name}.")
        elif value is not None:
            yield f"{path}{name}", value


def _in_words(value: Any) -> str:
    """A value of JSON as text, its hashes shortened: `split train, files 56e7d0a8`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_in_words(each)}" for name, each in value.items() if each not in (None, {}))
    if isinstance(value, list):
        return ("; " if any(isinstance(each, Mapping) for each in value) else ", ").join(map(_in_words, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return value[:HASH_CHARACTERS] if isinstance(value, str) and HASH.fullmatch(value) else str(value)
