"""How well labels rank true correct steps above wrong ones, where the truth is known.

Every reward type gets the ROC-AUC of its raw rewards against the true step labels, with a bootstrap interval over
questions. The source's own labels are included as `math_shepherd`, + as 1 and - as 0, over the steps that have them:

    trajectory  step  correct   reward_type     reward
    t000000007  0     yes       mc              0.875
    t000000007  1     no        mc              0.000
    t000000007  0     yes       math_shepherd   1

Figures over part of the steps (without last ones, by position) take rows of the same frame.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.fields import first_row
from cpmi_dagster.benchmarks.metrics import bootstrap_auc
from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS, Estimate, Resampled, bootstrap_mean
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.rewards.registry import CORPUS_LABELS
from cpmi_dagster.trajectories.step_truth import with_truth

STEP = ["trajectory_id", "step_index"]
FEWEST_OF_EACH = FEWEST_UNITS
"""Right steps or solutions, and wrong ones, below which an AUC is no evidence, whatever questions they are of."""
IS_LAST = pl.col("step_index") == pl.col("step_count") - 1
PLACES: dict[str, pl.Expr] = {
    "first": pl.col("step_index") == 0,
    "middle": (pl.col("step_index") > 0) & ~IS_LAST,
    "last": IS_LAST & (pl.col("step_index") > 0),
}
"""Positions of a step; the only step of a trajectory is its first."""


class FirstWrongSteps(NamedTuple):
    """Whether labels find the first wrong step, over the solutions that hold one.

    Attributes:
        found: how often the lowest label of all steps is on the first wrong one; of equal labels the earliest counts,
            as a step is flagged before those behind it. Solutions with a step before the first wrong one that nobody
            has judged are left out.
        blind: how often a blind pick of a step is, over the same solutions.
    """

    found: Resampled
    blind: Resampled


def labelled_steps(step_rewards: pl.DataFrame, trajectories: pl.DataFrame, step_truth: pl.DataFrame) -> pl.DataFrame:
    """Every reward of every step whose truth is known.

    Args:
        step_rewards: `StepRewards` columns.
        trajectories: `Trajectories` columns.
        step_truth: `StepTruth` columns; trajectories without truth are left out.

    Returns:
        reward_type, trajectory_id, step_index, question_id, step_count, correct (null where the truth says nothing),
        reward; reward types as they come, each sorted by step. A reward type may lack whole trajectories.

    Raises:
        BenchmarkError: a reward type has some steps of a trajectory but not all, or a reward that is not finite.
        SourceError: truth and steps differ in number.
    """
    labelled = trajectories.join(step_rewards.select("trajectory_id").unique(), on="trajectory_id", how="semi")
    steps = true_steps(labelled, step_truth).sort(STEP)
    types = [name for name in step_rewards["reward_type"].unique(maintain_order=True) if name != CORPUS_LABELS]
    parts = []
    for name in types:
        own = step_rewards.filter(reward_type=name)
        mine = steps.join(own.select("trajectory_id").unique(), on="trajectory_id", how="semi", maintain_order="left")
        joined = mine.join(own.select(*STEP, "reward"), on=STEP, how="left", maintain_order="left")
        is_missing = ~pl.col("reward").is_finite().fill_null(False)
        if step := first_row(joined.filter(is_missing | pl.struct(STEP).is_duplicated())):
            raise BenchmarkError(
                f"step {step['step_index']} of trajectory {step['trajectory_id']} does not have exactly one finite "
                f"reward of type `{name}`; compute the rewards of its shard again"
            )
        parts.append(joined.drop(CORPUS_LABELS).select(pl.lit(name).alias("reward_type"), pl.all()))
    corpus = steps.drop_nulls(CORPUS_LABELS).rename({CORPUS_LABELS: "reward"})
    parts.append(corpus.select(pl.lit(CORPUS_LABELS).alias("reward_type"), pl.all()).cast({"reward": pl.Float64}))
    return pl.concat(parts, how="diagonal")


def label_aucs(steps: pl.DataFrame, samples: int, seed: int) -> dict[str, Resampled]:
    """ROC-AUC of every reward type over some steps, resampled over questions.

    Args:
        steps: rows of `labelled_steps`.

    Returns:
        By reward type; those for which all steps are right, or all wrong, are left out.
    """
    aucs = {}
    for (name,), own in steps.drop_nulls("correct").group_by("reward_type", maintain_order=True):
        if own["correct"].n_unique() > 1:
            reward, correct, question = (own[column].to_numpy() for column in ("reward", "correct", "question_id"))
            aucs[str(name)] = bootstrap_auc(reward, correct, question, samples, seed)
    return aucs


def common_steps(steps: pl.DataFrame, one: str, other: str) -> pl.DataFrame:
    """The rows of two reward types over the steps that both have."""
    both = steps.filter(pl.col("reward_type").is_in([one, other]))
    return both.filter(pl.len().over(STEP) == 2)


def paired_differences(
    steps: pl.DataFrame,
    figures: Mapping[str, Resampled],
    baseline: str,
    measure: Callable[[pl.DataFrame], Mapping[str, Resampled]],
) -> dict[str, Estimate]:
    """A figure of every other reward type minus the baseline's, over the same resampled questions.

    Args:
        steps: rows of `labelled_steps`.
        figures: `measure` of them, by reward type.
        measure: figures of some rows; where two types label other steps, it is taken again over those that both have.

    Returns:
        By reward type; without those that have no such figure beside the baseline.

    Raises:
        BenchmarkError: there are no rewards of the baseline.
    """
    names = steps["reward_type"].unique(maintain_order=True)
    if names.len() and baseline not in names:
        raise BenchmarkError(f"there are no rewards of type `{baseline}` to compare with; add it to `rewards.types`")
    differences: dict[str, Estimate] = {}
    for name in names.filter(names != baseline):
        common = common_steps(steps, name, baseline)
        has_all = common.height == steps["reward_type"].is_in([name, baseline]).sum()
        pair = figures if has_all else measure(common)
        if name in pair and baseline in pair:
            differences[name] = pair[name].minus(pair[baseline])
    return differences


def first_wrong_steps(steps: pl.DataFrame, samples: int, seed: int) -> dict[str, FirstWrongSteps]:
    """How often the lowest label of a solution is on its first wrong step: differences between solutions play no part.

    Args:
        steps: rows of `labelled_steps`; solutions without a wrong step are left out.

    Returns:
        By reward type; without those that label no solution whose first wrong step is known.
    """
    wrong, not_right = (pl.col("correct").fill_null(other).cast(pl.Int8) for other in (True, False))
    solutions = steps.group_by("reward_type", "trajectory_id", "question_id", maintain_order=True).agg(
        found=pl.col("reward").arg_min() == wrong.arg_min(),
        blind=1 / pl.len(),
        # the first step that is known to be wrong is the first one not known to be right
        is_known=(wrong.min() == 0) & (wrong.arg_min() == not_right.arg_min()),
    )
    return {
        str(name): FirstWrongSteps(
            *(bootstrap_mean(own[column], samples, seed, own["question_id"]) for column in ("found", "blind"))
        )
        for (name,), own in solutions.filter("is_known").group_by("reward_type", maintain_order=True)
    }


def true_steps(trajectories: pl.DataFrame, step_truth: pl.DataFrame) -> pl.DataFrame:
    """Steps of trajectories with truth: trajectory_id, step_index, step_count, question_id, correct, math_shepherd.

    `correct` is null where the truth leaves a step out, as people do after the first error; `math_shepherd` where the
    source has no labels.

    Raises:
        SourceError: a trajectory has more or fewer true labels than steps.
    """
    both = with_truth(trajectories, step_truth.select("row_number", "correct"))
    unlabelled = pl.lit(None, dtype=pl.Boolean).repeat_by(pl.col("correct").list.len())
    steps = both.select(
        "trajectory_id",
        "question_id",
        "correct",
        pl.col("shepherd_labels").fill_null(unlabelled).alias(CORPUS_LABELS),
        pl.int_ranges(pl.col("correct").list.len()).alias("step_index"),
        pl.col("correct").list.len().cast(pl.Int64).alias("step_count"),
    )
    return steps.explode("correct", CORPUS_LABELS, "step_index", empty_as_null=False)
