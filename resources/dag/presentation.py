"""What Dagster shows of a stage: specs, column schemas and lineage, row counts, previews, links to the code."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.tables import TABLES, Table, column_meanings, columns_of
from cpmi_dagster.files.text import cut, in_markdown
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.materializations import asset_key, prefixed
from cpmi_dagster.resources.lake.records import FileRecord
from cpmi_dagster.resources.workers.chunks import StageOutput

OWNERS = ["team:cpmi"]
# keys that Dagster's UI shows in their own places
COLUMN_SCHEMA, COLUMN_LINEAGE, ROW_COUNT = "dagster/column_schema", "dagster/column_lineage", "dagster/row_count"
CODE_REFERENCES = "dagster/code_references"
INPUTS = "tables"
"""The resource that hands tables to assets of somebody's project."""
PREVIEW_ROWS, SHOWN_ORIGINS = 5, 3
PREVIEW_CHARACTERS = 80


# a stage that was run and found unchanged is no reason to run what follows
ON_CHANGED_ROWS = dg.AutomationCondition.eager().replace(
    "any_deps_updated", dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
)


def asset_spec(stage: Declaration, key: str, code_version: str, fresh_within_days: float | None = None) -> dg.AssetSpec:
    """The Dagster asset of one of a stage's tables, under the version of its code and settings (see `spec_version`).

    Args:
        fresh_within_days: age beyond which Dagster shows the data set as overdue; None is never.
    """
    table = TABLES[key]
    days = fresh_within_days if table.group == "dataset" else None
    spec = dg.AssetSpec(
        asset_key(key, stage.prefix),
        deps=[
            *(asset_key(name, stage.prefix) for name in stage.inputs),
            # however the project's asset is partitioned, each shard may have rows of all of it
            *(dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) for key in stage.upstream),
        ],
        description="\n\n".join(dict.fromkeys([table.meaning, inspect.getdoc(stage.body) or ""])),
        group_name=table.group,
        code_version=code_version,
        owners=OWNERS,
        kinds=set(stage.kinds),
        metadata={
            COLUMN_SCHEMA: column_schema(stage, table),
            COLUMN_LINEAGE: column_lineage(stage, table),
            **_code_reference(stage),
        },
        # in somebody's project, nothing happens by itself that they did not ask for
        automation_condition=ON_CHANGED_ROWS if stage.eager and not stage.prefix else None,
        freshness_policy=dg.FreshnessPolicy.time_window(timedelta(days=days)) if days is not None else None,
    )
    return spec.with_io_manager_key(prefixed(INPUTS, stage.prefix)) if stage.prefix else spec


def column_schema(stage: Declaration, table: Table) -> dg.TableSchema:
    """Columns, types, meanings, origins and keys of a table."""
    meanings, sources = column_meanings(table), stage.column_sources(table.key)
    keys = set(table.schema.primary_key())
    may_be_null = {name for name, column in table.schema.columns().items() if column.nullable}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name,
                type=str(dtype),
                description=_with_origins(meanings[name], sources.get(name, [])),
                constraints=dg.TableColumnConstraints(nullable=name in may_be_null, unique={name} == keys),
            )
            for name, dtype in columns_of(table).items()
        ]
    )


def _with_origins(meaning: str, sources: Sequence[tuple[str, str]]) -> str:
    """What a column holds, and where it comes from: the UI shows no column lineage of its own."""
    origins = [f"{key}.{name}" for key, name in sources]
    more = [f"{len(origins) - SHOWN_ORIGINS} more"] if len(origins) > SHOWN_ORIGINS else []
    named = " and ".join([", ".join(origins[:SHOWN_ORIGINS]), *more])
    return f"{meaning} (from {named})" if origins else meaning


def column_lineage(stage: Declaration, table: Table) -> dg.TableColumnLineage:
    """Which input columns each column is made from: those of the same name, and those the stage names."""
    sources = stage.column_sources(table.key)
    deps = {
        column: [dg.TableColumnDep(asset_key(key, stage.prefix), name) for key, name in found]
        for column, found in sources.items()
    }
    return dg.TableColumnLineage(deps)


def written(stage: Declaration, record: FileRecord, made: StageOutput, seconds: float) -> dict[str, Any]:
    """Metadata of rows that were just made."""
    return {**_facts(stage, record, made.frame(record.table)), "seconds": round(seconds, 2), **made.metadata}


def skipped(stage: Declaration, record: FileRecord, rows: pl.DataFrame) -> dict[str, Any]:
    """Metadata of rows that were already there, made by the same inputs, settings, models and code."""
    return {**_facts(stage, record, rows), "skipped": "unchanged"}


def _facts(stage: Declaration, record: FileRecord, rows: pl.DataFrame) -> dict[str, Any]:
    shown = {
        ROW_COUNT: record.rows,
        COLUMN_LINEAGE: column_lineage(stage, TABLES[record.table]),
        "fingerprint": record.fingerprint,
        "made": record.written_at,
        "preview": dg.MetadataValue.md(preview(rows)),
    }
    if record.model:
        shown["model"] = record.model
    if record.notes:
        shown["notes"] = dg.MetadataValue.md("\n".join(f"- {in_markdown(note)}" for note in record.notes))
    if any(record.cost.values()):
        shown["cost"] = dict(record.cost)
    return shown


def preview(frame: pl.DataFrame, rows: int | None = PREVIEW_ROWS) -> str:
    """The first rows as a Markdown table; all where `rows` is None."""
    head = frame if rows is None else frame.head(rows)
    lines = ["| " + " | ".join(map(in_markdown, head.columns)) + " |", "|" + "---|" * head.width]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in head.iter_rows()]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return in_markdown(cut(text, PREVIEW_CHARACTERS))


def _code_reference(stage: Declaration) -> Mapping[str, Any]:
    file = inspect.getsourcefile(stage.body)
    if file is None:
        return {}
    line = inspect.getsourcelines(stage.body)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        reference = dg.LocalFileCodeReference(file_path=file, line_number=line)
        return {CODE_REFERENCES: dg.CodeReferencesMetadataValue(code_references=[reference])}
