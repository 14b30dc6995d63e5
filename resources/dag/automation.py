"""The jobs, in the order of `cpmi run`, and two sensors that make what follows labels, off by default."""

from typing import Any, Literal

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.asset_keys import asset_key

INGEST, LABEL, DATASET, CANDIDATES, TRAIN, REPORT = (
    "ingest", "label_shards", "build_dataset", "sample_candidates", "train_and_evaluate", "build_reports",
)  # fmt: skip
PROFILE_TAG, SHARDS_TAG = "cpmi/profile", "cpmi/shards"
PARTITION_TAG = "dagster/partition"
FIRST_TAG, LAST_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
PURPOSES = {
    INGEST: "Read the sources, match trajectories with gold answers, choose those to label, read the benchmarks.",
    LABEL: "Label shards: hard negatives and log-probabilities (CPMI) first, then rollouts, rewards and costs.",
    DATASET: "Compute soft labels over all shards and assemble the data set; refuses while rewards are stale.",
    CANDIDATES: "Sample the policy's solutions of a question set, for best-of-N.",
    TRAIN: "Train the reward model of a recipe and judge it on the benchmarks.",
    REPORT: "Build every table and figure, and the HTML report.",
}


def _tables(*groups: str, partitioning: Literal["any"] | Partitioning | None = "any") -> list[str]:
    return [
        key for key, table in TABLES.items() if table.group in groups and partitioning in ("any", table.partitioning)
    ]


LABEL_TABLES = _tables("labels")
PHASES: dict[str, list[str]] = {
    INGEST: [*_tables("sources", "alignment", "selection"), *_tables("benchmarks", partitioning=None)],
    LABEL: LABEL_TABLES,
    DATASET: _tables("dataset"),
    CANDIDATES: _tables("benchmarks", partitioning="benchmark"),
    TRAIN: _tables("models", "benchmarks", partitioning="recipe"),
    REPORT: _tables("reports"),
}


def _assets(tables: list[str]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*map(asset_key, tables))


def jobs(settings: Settings) -> dict[str, Any]:
    """The jobs by name; their runs have the profile's name as a tag."""
    tags = {PROFILE_TAG: settings.profile}
    return {
        name: dg.define_asset_job(name, _assets(tables), description=PURPOSES[name], tags=tags)
        for name, tables in PHASES.items()
    }


FOLLOW_LABELS = dg.AutomationConditionSensorDefinition(
    "follow_labels",
    target=_assets(_tables("dataset")),
    description="Rebuilds the data set when labels change. Trains nothing.",
)
FOLLOW_DATASET = dg.AutomationConditionSensorDefinition(
    "follow_dataset",
    target=_assets([*_tables("models", "benchmarks", "reports")]),
    description="Trains and judges every recipe, and rebuilds the reports, whenever the data set changes: "
    "hours on GPUs.",
)
AUTOMATION = (FOLLOW_LABELS, FOLLOW_DATASET)


def shards_of(run: dg.DagsterRun, settings: Settings) -> list[str]:
    """The shards of a run, by its partition tags."""
    first, last = (run.tags.get(tag, run.tags.get(PARTITION_TAG, "")) for tag in (FIRST_TAG, LAST_TAG))
    return [shard for shard in settings.shard_keys if first <= shard <= last]
