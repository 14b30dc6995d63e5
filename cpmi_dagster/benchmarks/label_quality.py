"""How well labels rank true correct steps above wrong ones, where the truth is known.

Every reward type gets the ROC-AUC of its raw rewards against the true step labels, with a bootstrap interval over
questions. The source's own labels are included as `math_shepherd`, + as 1 and - as 0, over the steps that have them:

    trajectory  step  correct   reward_type     reward
    t000000007  0     yes       mc              0.875
    t000000007  1     no        mc              0.000
    t000000007  0     yes       math_shepherd   1

Figures over part of the steps (without last ones, by position, within solutions) take rows of the same frame.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.fields import first_row
from cpmi_dagster.benchmarks.metrics import bootstrap_auc
from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS, Difference, Resampled, bootstrap, bootstrap_mean, share
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.rewards.registry import CORPUS_LABELS
from cpmi_dagster.trajectories.step_truth import with_truth

STEP = ["trajectory_id", "step_index"]
DETAILS: dict[str, pl.DataType] = {"kind": pl.String(), "operations_left": pl.Int64()}
"""What a truth may say of a step besides whether it is right."""
FEWEST_OF_EACH = FEWEST_UNITS
"""Right steps or solutions, and wrong ones, below which an AUC is no evidence, whatever questions they are of."""
IS_LAST = pl.col("step_index") == pl.col("step_count") - 1
PLACES: dict[str, pl.Expr] = {
    "first": pl.col("step_index") == 0,
    "middle": (pl.col("step_index") > 0) & ~IS_LAST,
    "last": IS_LAST & (pl.col("step_index") > 0),
}
"""Positions of a step; the only step of a trajectory is its first."""


class WithinSolutions(NamedTuple):
    """How a reward type ranks the steps of one solution, over the solutions that hold a wrong step.

    Attributes:
        pairs: the share of pairs of a right and a wrong step of one solution that are ranked so, ties half; None where
            there is no pair.
        found: how often the lowest label of all steps is on the first wrong one; of equal labels the earliest counts,
            as a step is flagged before those behind it. None where every solution has a step before its first wrong one
            that nobody has judged; such solutions are left out.
        blind: how often a blind pick of a step is, over the same solutions.
    """

    pairs: Resampled | None
    found: Resampled | None
    blind: Resampled | None


def labelled_steps(step_rewards: pl.DataFrame, trajectories: pl.DataFrame, step_truth: pl.DataFrame) -> pl.DataFrame:
    """Every reward of every step whose truth is known.

    Args:
        step_rewards: `StepRewards` columns.
        trajectories: `Trajectories` columns.
        step_truth: `StepTruth` columns; trajectories without truth are left out.

    Returns:
        reward_type, trajectory_id, step_index, question_id, step_count, correct (null where the truth says nothing),
        reward, and of `DETAILS` what the truth has; reward types as they come, each sorted by step. A reward type may
        lack whole trajectories.

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
) -> dict[str, Difference]:
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
    differences: dict[str, Difference] = {}
    for name in names.filter(names != baseline):
        common = common_steps(steps, name, baseline)
        has_all = common.height == steps["reward_type"].is_in([name, baseline]).sum()
        pair = figures if has_all else measure(common)
        if name in pair and baseline in pair:
            differences[name] = pair[name].minus(pair[baseline])
    return differences


def within_solutions(steps: pl.DataFrame, samples: int, seed: int) -> dict[str, WithinSolutions]:
    """How labels rank the steps of one solution, where what differs between solutions says nothing.

    Args:
        steps: rows of `labelled_steps`; solutions without a wrong step are left out.

    Returns:
        By reward type.
    """
    figures = {}
    for (name,), own in steps.group_by("reward_type", maintain_order=True):
        questions, sums, is_known = [], [], []
        for _, solution in own.group_by("trajectory_id", maintain_order=True):
            if not solution["correct"].all():
                rewards = solution["reward"].to_numpy()
                right, wrong = (solution["correct"].eq(known).fill_null(False).to_numpy() for known in (True, False))
                apart = rewards[right][:, None] - rewards[wrong][None, :]
                ranked_right = (apart > 0).sum() + (apart == 0).sum() / 2
                first_wrong = wrong.argmax()
                questions.append(solution["question_id"][0])
                sums.append([ranked_right, apart.size, rewards.argmin() == first_wrong, 1 / len(rewards)])
                is_known.append(right[:first_wrong].all())
        if sums:
            table, known, asked = np.array(sums, dtype=np.float64), np.array(is_known), np.array(questions)
            with np.errstate(invalid="ignore"):
                pairs = bootstrap(table[:, :2], share, samples, seed, asked) if table[:, 1].any() else None
            found, blind = (
                bootstrap_mean(table[known, column], samples, seed, asked[known]) if known.any() else None
                for column in (2, 3)
            )
            figures[str(name)] = WithinSolutions(pairs, found, blind)
    return figures


def true_steps(trajectories: pl.DataFrame, step_truth: pl.DataFrame) -> pl.DataFrame:
    """Steps of trajectories with truth: trajectory_id, step_index, step_count, question_id, correct, math_shepherd.

    And of `DETAILS` what the truth has. `correct` is null where the truth leaves a step out, as people do after the
    first error; `math_shepherd` where the source has no labels.

    Raises:
        SourceError: a trajectory has more or fewer true labels than steps.
    """
    details = [name for name in DETAILS if name in step_truth.columns]
    both = with_truth(trajectories, step_truth.select("row_number", "correct", *details))
    unlabelled = pl.lit(None, dtype=pl.Boolean).repeat_by(pl.col("correct").list.len())
    steps = both.select(
        "trajectory_id",
        "question_id",
        "correct",
        pl.col("shepherd_labels").fill_null(unlabelled).alias(CORPUS_LABELS),
        pl.int_ranges(pl.col("correct").list.len()).alias("step_index"),
        pl.col("correct").list.len().cast(pl.Int64).alias("step_count"),
        *(
            pl.col(name).fill_null(pl.lit(None, DETAILS[name]).repeat_by(pl.col("correct").list.len()))
            for name in details
        ),
    )
    return steps.explode("correct", CORPUS_LABELS, "step_index", *details, empty_as_null=False)
