"""The labelled data set: soft labels, trajectories with their labels, statistics."""

import polars as pl

from cpmi_dagster.contracts.keys import (
    CPMI_80K,
    NEGATIVES,
    SELECTED,
    SOFT_LABELS,
    STATISTICS,
    STEP_REWARDS,
    TRAJECTORIES,
)
from cpmi_dagster.resources.dag.stage import StageOutput, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.rewards.dataset import labelled_trajectories
from cpmi_dagster.rewards.soft_labels import soft_labels as normalise
from cpmi_dagster.selection import dataset_statistics as count_statistics


@stage(
    SOFT_LABELS,
    inputs=[STEP_REWARDS],
    settings=["soft_labels", "sources.probability_labels"],
    lineage={"soft_label": ["labels/step_rewards.reward"]},
)
def soft_labels(run: StageRun) -> StageOutput:
    """A robust z-score, then a sigmoid; labels that are probabilities stay as they are (Eq. 7)."""
    probabilities = run.settings.sources.probability_labels
    return StageOutput(normalise(run.read(STEP_REWARDS), run.settings.soft_labels, probabilities))


@stage(
    CPMI_80K,
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED, NEGATIVES, STEP_REWARDS, SOFT_LABELS],
    lineage={
        "hard_negatives": ["labels/hard_negatives.answer"],
        "rewards": ["labels/step_rewards.reward"],
        "soft_labels": ["dataset/soft_labels.soft_label"],
    },
)
def cpmi_80k(run: StageRun) -> StageOutput:
    """Joins each selected trajectory with its negatives, rewards and soft labels (CPMI-80k)."""
    trajectories = run.read(TRAJECTORIES).join(run.read(SELECTED), on="trajectory_id", how="semi")
    negatives, rewards = run.read(NEGATIVES), run.read(STEP_REWARDS)
    rows = labelled_trajectories(trajectories, negatives, rewards, run.read(SOFT_LABELS))
    return StageOutput(rows.filter(pl.col("hard_negatives").list.len() > 0), model=run.models.identity("labeler"))


@stage(
    STATISTICS,
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED],
    settings=["selection"],
)
def dataset_statistics(run: StageRun) -> StageOutput:
    """Counts trajectories, steps and shares."""
    return StageOutput(count_statistics(run.read(SELECTED), run.read(TRAJECTORIES), run.settings.selection))


STAGES = (soft_labels, cpmi_80k, dataset_statistics)
