"""The phases of `cpmi run` in their order, and a job of Dagster for each.

ingest  label_shards  build_dataset  sample_candidates  train_and_evaluate  build_reports
"""

from typing import Any, Literal

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.profiles.partitions import needed_assets
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.general_checks import IS_CURRENT
from cpmi_dagster.resources.dag.stage import asset_key

INGEST, LABEL, DATASET, CANDIDATES, TRAIN, REPORT = (
    "ingest", "label_shards", "build_dataset", "sample_candidates", "train_and_evaluate", "build_reports",
)  # fmt: skip
JUDGE_FILES = "check_currency"
PROFILE_TAG = "cpmi/profile"
WITHOUT_GPU = {"container_config": {"resources": {"limits": {"nvidia.com/gpu": "0"}}}}
"""On Kubernetes, against the limit that the launcher gives to every run."""
PURPOSES = {
    INGEST: "Read the sources, match trajectories with gold answers, choose those to label, read the benchmarks.",
    LABEL: "Label shards: hard negatives and log-probabilities (CPMI) first, then rollouts, rewards and costs.",
    DATASET: "Compute soft labels over all shards and assemble the data set; refuses while rewards are stale.",
    CANDIDATES: "Sample the policy's solutions of the question sets, for best-of-N, and judge by files and models of "
    "others.",
    TRAIN: "Train the reward model of a recipe and score the benchmarks with it.",
    REPORT: "Measure every figure, and write the HTML report.",
}


def _tables(*groups: str, partitioning: Literal["any"] | Partitioning | None = "any") -> list[str]:
    return [
        key for key, table in TABLES.items() if table.group in groups and partitioning in ("any", table.partitioning)
    ]


PHASES: dict[str, list[str]] = {
    INGEST: _tables("sources", "alignment", "selection"),
    LABEL: _tables("labels"),
    DATASET: _tables("dataset"),
    CANDIDATES: [*_tables("benchmarks", partitioning="benchmark"), *_tables("benchmarks", partitioning=None)],
    TRAIN: _tables("models", "benchmarks", partitioning="recipe"),
    REPORT: _tables("reports"),
}


def phases(settings: Settings) -> dict[str, list[str]]:
    """The assets of each phase that a profile asks for; a phase of none is left out."""
    needed = needed_assets(settings)
    chosen = {phase: [key for key in tables if key in needed] for phase, tables in PHASES.items()}
    return {phase: tables for phase, tables in chosen.items() if tables}


def label_tables(settings: Settings) -> list[str]:
    """The tables of labels that a profile asks for."""
    return phases(settings)[LABEL]


def define_jobs(settings: Settings) -> dict[str, Any]:
    """The jobs by name; their runs have the profile's name as a tag."""
    tags = {PROFILE_TAG: settings.profile}
    made = {
        name: dg.define_asset_job(
            name, dg.AssetSelection.assets(*map(asset_key, tables)), description=PURPOSES[name], tags=tags
        )
        for name, tables in phases(settings).items()
    }
    checks = [dg.AssetCheckKey(asset_key(key), IS_CURRENT) for key in needed_assets(settings)]
    purpose = "Evaluate `is_current` of every asset: is what is there what the profile would make now?"
    tags |= {"dagster/priority": "1", "dagster-k8s/config": WITHOUT_GPU}
    chosen = dg.AssetSelection.checks(*checks)
    return made | {JUDGE_FILES: dg.define_asset_job(JUDGE_FILES, chosen, description=purpose, tags=tags)}
