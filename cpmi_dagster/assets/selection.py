"""Selects the trajectories that are labelled, over all shards at once, since its ratios are of the whole."""

import polars as pl

from cpmi_dagster.contracts.keys import REJECTED_ROWS, SELECTED, TRAJECTORIES
from cpmi_dagster.errors import SourceError
from cpmi_dagster.resources.dag.stage import StageOutput, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.selection import select_trajectories


@stage(
    SELECTED,
    code_version="2",
    at_once=True,
    inputs=[TRAJECTORIES, REJECTED_ROWS],
    settings=["selection", "shards"],
    lineage={
        "shard": ["alignment/trajectories.question_id"],
        "composition": ["alignment/trajectories.shepherd_labels"],
    },
)
def selected_trajectories(run: StageRun) -> StageOutput:
    """Keeps the profile's ratios, in the paper GSM8K : MATH = 1 : 1 and mixed : pure = 7 : 3 (appendix B)."""
    settings = run.settings
    trajectories = run.read(TRAJECTORIES)
    if trajectories.is_empty():
        raise SourceError(_why_none(run.read(REJECTED_ROWS)))
    result = select_trajectories(trajectories, settings.selection, settings.seed, settings.shards)
    return StageOutput(result.selected, notes=result.shortfalls)


def _why_none(rejected: pl.DataFrame) -> str:
    [(reason, count)] = rejected["reason"].value_counts(sort=True).head(1).iter_rows()
    return (
        f"no row of the trajectory source can be labelled: {count:,} of {rejected.height:,} are rejected with the "
        f"reason: {reason} (`alignment.rejected_rows` has all)"
    )


STAGES = (selected_trajectories,)
