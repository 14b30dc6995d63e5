"""How well labels rank truly right steps above wrong ones.

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

from cpmi_dagster.benchmarks.metrics import bootstrap_auc
from cpmi_dagster.benchmarks.readers import first_row
from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS, Estimate, Resampled, bootstrap_mean
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.rewards.controls import CORPUS_LABELS
from cpmi_dagster.rewards.reward_type import STEP
from cpmi_dagster.trajectories.step_truth import with_truth

FEWEST_OF_EACH = FEWEST_UNITS
"""Right steps or solutions, and wrong ones, below which an AUC is no evidence, whatever questions they are of."""
FEWEST_FOR_AN_ANSWER = 20
"""Judged solutions from which an interval is believed, however many others there are."""
FEWEST_SOLUTIONS = 50
"""Judged solutions that are asked for at first: they make the interval narrow enough for most labels."""
TENTHS = 10
IS_LAST = pl.col("step_index") == pl.col("step_count") - 1
PLACES: dict[str, pl.Expr] = {
    "first": pl.col("step_index") == 0,
    "middle": (pl.col("step_index") > 0) & ~IS_LAST,
    "last": IS_LAST & (pl.col("step_index") > 0),
}
"""Positions of a step; the only step of a trajectory is its first."""


class FirstWrongSteps(NamedTuple):
    """Shares of the solutions with a wrong step, two Resampled of equal size.

    Attributes:
        found: those whose lowest label is on the first wrong step; of equal labels the earliest counts, as a step is
            flagged before those behind it. Solutions with an unjudged step before the first wrong one are left out.
        blind: the same for a blind pick of a step.
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
        reward_type, trajectory_id, step_index, question_id, step_count, correct (null if the truth says nothing),
        reward; reward types as they come, each sorted by step. A reward type may lack whole trajectories.

    Raises:
        BenchmarkError: a reward type has some steps of a trajectory but not all, or a reward that is not finite.
        SourceError: truth and steps differ in number.
    """
    labelled = trajectories.join(step_rewards, on="trajectory_id", how="semi")
    steps = true_steps(labelled, step_truth).sort(STEP)
    types = [name for name in step_rewards["reward_type"].unique(maintain_order=True) if name != CORPUS_LABELS]
    parts = []
    for name in types:
        rewards = step_rewards.filter(reward_type=name).select(*STEP, "reward")
        rewarded = steps.drop(CORPUS_LABELS).join(rewards, on="trajectory_id", how="semi", maintain_order="left")
        rows = rewarded.join(rewards, on=STEP, how="left", maintain_order="left")
        is_missing = ~pl.col("reward").is_finite().fill_null(False)
        if step := first_row(rows.filter(is_missing | pl.struct(STEP).is_duplicated())):
            raise BenchmarkError(
                f"step_index {step['step_index']} of trajectory {step['trajectory_id']} does not have exactly one "
                f"finite reward of type `{name}`; compute the rewards of its shard again"
            )
        parts.append(rows.select(pl.lit(name).alias("reward_type"), pl.all()))
    corpus = steps.drop_nulls(CORPUS_LABELS).rename({CORPUS_LABELS: "reward"}).cast({"reward": pl.Float64})
    return pl.concat([*parts, corpus.select(pl.lit(CORPUS_LABELS).alias("reward_type"), pl.all())], how="diagonal")


def label_aucs(steps: pl.DataFrame, samples: int, seed: int) -> dict[str, Resampled]:
    """ROC-AUC of every reward type over some steps, resampled over questions.

    Args:
        steps: rows of `labelled_steps`.

    Returns:
        By reward type; those for which all steps are right, or all wrong, are left out.
    """
    by_type = steps.drop_nulls("correct").group_by("reward_type", maintain_order=True)
    return {
        str(name): bootstrap_auc(rows["reward"], rows["correct"], rows["question_id"], samples, seed)
        for (name,), rows in by_type
        if rows["correct"].n_unique() > 1
    }


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
        measure: figures of some rows; if two types label different steps, it is taken again over those that both have.

    Returns:
        By reward type; without those that have no such figure beside the baseline.

    Raises:
        BenchmarkError: there are no rewards of the baseline.
    """
    names = steps["reward_type"].unique(maintain_order=True).to_list() if steps.height else []
    if names and baseline not in names:
        raise BenchmarkError(f"there are no rewards of type `{baseline}` to compare with; add it to `rewards.types`")
    pairs = {name: paired_figures(steps, figures, name, baseline, measure) for name in names if name != baseline}
    return {name: pair[0].minus(pair[1]) for name, pair in pairs.items() if pair}


def paired_figures(
    steps: pl.DataFrame,
    figures: Mapping[str, Resampled],
    one: str,
    other: str,
    measure: Callable[[pl.DataFrame], Mapping[str, Resampled]],
) -> tuple[Resampled, Resampled] | None:
    """A figure of two reward types over the steps that both have, arguments as of `paired_differences`.

    Returns:
        None if one of them has no such figure.
    """
    common = common_steps(steps, one, other) if one != other else steps.filter(reward_type=one)
    has_all = common.height == steps["reward_type"].is_in([one, other]).sum()
    pair = figures if has_all else measure(common)
    return (pair[one], pair[other]) if one in pair and other in pair else None


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
            *(bootstrap_mean(rows[column], samples, seed, rows["question_id"]) for column in ("found", "blind"))
        )
        for (name,), rows in solutions.filter("is_known").group_by("reward_type", maintain_order=True)
    }


def first_errors_found(steps: pl.DataFrame, samples: int, seed: int) -> dict[str, Resampled]:
    """How often the lowest label of a solution with an error is on its first wrong step, by reward type."""
    return {name: figure.found for name, figure in first_wrong_steps(steps, samples, seed).items()}


def with_truth_so_far(steps: pl.DataFrame) -> pl.DataFrame:
    """Rows whose `correct` says whether no step is wrong up to and including this one.

    Args:
        steps: rows of `labelled_steps`; those behind an unjudged step are left out, unless one before it is wrong.
    """
    of_solution = ["reward_type", "trajectory_id"]
    is_wrong, is_open = (
        judged.cast(pl.Int8).cum_max().over(of_solution, order_by="step_index") == 1
        for judged in (pl.col("correct").eq_missing(False), pl.col("correct").is_null())
    )
    so_far = pl.when(is_wrong).then(False).when(is_open).then(None).otherwise(True)
    return steps.with_columns(correct=so_far).drop_nulls("correct")


def calibration_points(steps: pl.DataFrame) -> pl.DataFrame:
    """Means of reward and `correct` of steps by tenths of the reward, with the numbers of steps (n) and of solutions.

    Args:
        steps: rows of `with_truth_so_far` of one reward type, a probability.
    """
    tenth = (pl.col("reward") * TENTHS).floor().clip(0, TENTHS - 1)
    by_tenth = steps.group_by(tenth=tenth).agg(
        pl.col("reward", "correct").mean(), n=pl.len(), solutions=pl.col("trajectory_id").n_unique()
    )
    return by_tenth.sort("tenth")


def true_steps(trajectories: pl.DataFrame, step_truth: pl.DataFrame) -> pl.DataFrame:
    """Steps of trajectories with truth: trajectory_id, step_index, step_count, question_id, correct, math_shepherd.

    `correct` is null if the truth leaves a step out, as people do after the first error; `math_shepherd` if the
    source has no labels.

    Raises:
        SourceError: a trajectory has more or fewer true labels than steps.
    """
    both = with_truth(trajectories, step_truth.select("row_number", "correct"))
    count = pl.col("correct").list.len()
    steps = both.select(
        "trajectory_id",
        "question_id",
        "correct",
        pl.col("shepherd_labels").fill_null(pl.lit(None, pl.Boolean).repeat_by(count)).alias(CORPUS_LABELS),
        step_index=pl.int_ranges(count),
        step_count=count.cast(pl.Int64),
    )
    return steps.explode("correct", CORPUS_LABELS, "step_index", empty_as_null=False)
