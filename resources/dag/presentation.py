"""What Dagster shows of a stage: specs, column schemas and lineage, row counts, previews, links to the code."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.tables import TABLES, Table, column_meanings, columns_of
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.files.text import cut, in_markdown
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.asset_keys import asset_key, prefixed
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.states import recipe_facts, setting_values
from cpmi_dagster.resources.lake.records import Record, hash_of

OWNERS = ["team:cpmi"]
# keys that Dagster's UI shows in their own places
COLUMN_SCHEMA, COLUMN_LINEAGE, ROW_COUNT = "dagster/column_schema", "dagster/column_lineage", "dagster/row_count"
CODE_REFERENCES = "dagster/code_references"
INPUTS = "tables"
"""The resource that hands tables to assets of somebody's project."""
PREVIEW_ROWS = 5
PREVIEW_CHARACTERS = 80
HASH_CHARACTERS = 8


# a stage that was run and found unchanged is no reason to run what follows
ON_CHANGED_ROWS = dg.AutomationCondition.eager().replace(
    "any_deps_updated", dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
)


def asset_spec(stage: Declaration, key: str, settings: Settings) -> dg.AssetSpec:
    """The Dagster asset of one of a stage's tables; its code version changes with the settings that its rows depend on.

    Dagster shows an asset as stale when this differs from that of its last materialization, or when the data version of
    an input does.
    """
    fresh_within_days = settings.orchestration.fresh_within_days
    table = TABLES[key]
    days = fresh_within_days if table.group == "dataset" else None
    spec = dg.AssetSpec(
        asset_key(key, stage.prefix),
        deps=[
            *(_dep(stage, name) for name in stage.inputs),
            # however the project's asset is partitioned, each shard may have rows of all of it
            *(dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) for key in stage.upstream),
        ],
        description="\n\n".join(dict.fromkeys([table.meaning, inspect.getdoc(stage.body) or ""])),
        group_name=table.group,
        code_version=f"{stage.code_version}-{hash_of(_own_settings(stage, settings))[:HASH_CHARACTERS]}",
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


def _dep(stage: Declaration, key: str) -> dg.AssetDep:
    """An input; one that is partitioned otherwise is read whole."""
    is_whole = stage.partitioning and TABLES[key].partitioning not in (None, stage.partitioning)
    return dg.AssetDep(asset_key(key, stage.prefix), partition_mapping=dg.AllPartitionMapping() if is_whole else None)


def column_schema(stage: Declaration, table: Table) -> dg.TableSchema:
    """Columns, types, meanings and keys of a table."""
    meanings = column_meanings(table)
    keys = set(table.schema.primary_key())
    may_be_null = {name for name, column in table.schema.columns().items() if column.nullable}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name,
                type=str(dtype),
                description=meanings[name],
                constraints=dg.TableColumnConstraints(nullable=name in may_be_null, unique={name} == keys),
            )
            for name, dtype in columns_of(table).items()
        ]
    )


def column_lineage(stage: Declaration, table: Table) -> dg.TableColumnLineage:
    """Which input columns each column is made from: those of the same name, and those the stage names."""
    sources = stage.column_sources(table.key)
    deps = {
        column: [dg.TableColumnDep(asset_key(key, stage.prefix), name) for key, name in found]
        for column, found in sources.items()
    }
    return dg.TableColumnLineage(deps)


def _own_settings(stage: Declaration, settings: Settings) -> list[Any]:
    """What the profile says of a stage's rows, without looking at any file."""
    if not stage.asked(settings):
        return []
    models = [settings.models.of(role) for role in stage.models] + list(stage.named_models(settings).values())
    recipes = [recipe_facts(recipe, settings) for recipe in settings.recipes] if stage.partitioning == "recipe" else []
    named = [model and model.model_dump(mode="json") for model in models]
    return [settings.seed, setting_values(stage.settings, settings), named, recipes, _sources(stage, settings)]


def _sources(stage: Declaration, settings: Settings) -> list[Any]:
    """Where a stage reads from; a file that is not there is an error of the run, and the graph is shown without it."""
    try:
        return [source.model_dump(mode="json") for source in stage.sources(settings).values()]
    except CpmiError:
        return []


def facts_of(stage: Declaration, records: Sequence[Record], rows: pl.DataFrame) -> dict[str, Any]:
    """Metadata of what a run has made or found: of one file, or of all shards of a table that are made at once."""
    record = records[0]
    shown = {
        ROW_COUNT: sum(each.rows for each in records),
        COLUMN_LINEAGE: column_lineage(stage, TABLES[record.table]),
        "key": record.key,
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
