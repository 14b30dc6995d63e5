"""A stage in the Dagster UI: specs, column schemas and lineage, row counts, previews, links to the code."""

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
# metadata keys to which Dagster's UI gives a place
COLUMN_SCHEMA, COLUMN_LINEAGE, ROW_COUNT = "dagster/column_schema", "dagster/column_lineage", "dagster/row_count"
CODE_REFERENCES = "dagster/code_references"
INPUTS = "tables"
"""The resource by which assets of the user's project read tables."""
PREVIEW_ROWS = 5
PREVIEW_CHARACTERS = 80
HASH_CHARACTERS = 8


# a run that was skipped is no reason to run what follows
ON_CHANGED_ROWS = dg.AutomationCondition.eager().replace(
    "any_deps_updated", dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
)


def asset_spec(stage: Declaration, key: str, settings: Settings) -> dg.AssetSpec:
    """The spec of a table's asset; its code version includes a hash of the settings that its rows depend on.

    Dagster shows an asset as stale if its code version, or the data version of an input, differs from that of the last
    materialization.
    """
    fresh_within_days = settings.orchestration.fresh_within_days
    table = TABLES[key]
    days = fresh_within_days if table.group == "dataset" else None
    spec = dg.AssetSpec(
        asset_key(key, stage.prefix),
        deps=[
            *(_dep(stage, name) for name in stage.inputs),
            # a shard may have rows from every partition of the project's asset
            *(dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) for key in stage.upstream),
        ],
        description="\n\n".join(dict.fromkeys([table.meaning, inspect.getdoc(stage.body) or ""])),
        group_name=table.group,
        code_version=f"{stage.code_version}-{hash_of(_settings_of(stage, settings))[:HASH_CHARACTERS]}",
        owners=OWNERS,
        kinds=set(stage.kinds),
        metadata={
            COLUMN_SCHEMA: column_schema(stage, table),
            COLUMN_LINEAGE: column_lineage(stage, table),
            **_code_reference(stage),
        },
        # in the user's project, automation is theirs
        automation_condition=ON_CHANGED_ROWS if stage.eager and not stage.prefix else None,
        freshness_policy=dg.FreshnessPolicy.time_window(timedelta(days=days)) if days is not None else None,
    )
    return spec.with_io_manager_key(prefixed(INPUTS, stage.prefix)) if stage.prefix else spec


def _dep(stage: Declaration, key: str) -> dg.AssetDep:
    """The dependency on an input; all partitions of one that is partitioned otherwise."""
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
    """The input columns of each column: those of the same name, and those the stage names."""
    deps = {
        column: [dg.TableColumnDep(asset_key(key, stage.prefix), name) for key, name in sources]
        for column, sources in stage.column_sources(table.key).items()
    }
    return dg.TableColumnLineage(deps)


def _settings_of(stage: Declaration, settings: Settings) -> list[Any]:
    """The settings that a stage's rows depend on; no file is read."""
    if not stage.asked(settings):
        return []
    models = [settings.models.of(role) for role in stage.models] + list(stage.named_models(settings).values())
    recipes = [recipe_facts(recipe, settings) for recipe in settings.recipes] if stage.partitioning == "recipe" else []
    named = [model and model.model_dump(mode="json") for model in models]
    return [settings.seed, setting_values(stage.settings, settings), named, recipes, _sources(stage, settings)]


def _sources(stage: Declaration, settings: Settings) -> list[Any]:
    """The sources of a stage; none if a file is missing, which is an error of the run, not of the graph."""
    try:
        return [source.model_dump(mode="json") for source in stage.sources(settings).values()]
    except CpmiError:
        return []


def facts_of(stage: Declaration, records: Sequence[Record], rows: pl.DataFrame) -> dict[str, Any]:
    """Metadata of a run's files: one, or those of all shards that are made at once."""
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
    """The first rows as a Markdown table; all if `rows` is None."""
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
