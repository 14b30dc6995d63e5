"""How well labels rank true correct steps above wrong ones, where the truth is known.

Every reward type gets the ROC-AUC of its raw rewards against the true step labels, with a bootstrap interval over
questions, and its paired difference to Monte-Carlo labels. The source's own labels are included as `math_shepherd`,
with + as 1 and - as 0, over the steps that have them:

    trajectory  step  correct   mc      cpmi    math_shepherd
    t000000007  0     yes       0.875   0.41    1
    t000000007  1     no        0.000   -1.20   1
"""

from dataclasses import asdict

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.fields import first_row
from cpmi_dagster.benchmarks.metrics import bootstrap_auc
from cpmi_dagster.benchmarks.resampling import Resampled
from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.rewards.registry import CORPUS_LABELS

STEP = ["trajectory_id", "step_index"]


def label_quality(
    step_rewards: pl.DataFrame, trajectories: pl.DataFrame, step_truth: pl.DataFrame, samples: int, seed: int
) -> pl.DataFrame:
    """ROC-AUC of every reward type, and of the source's labels where it has some, against the truth.

    Args:
        step_rewards: `StepRewards` columns.
        trajectories: `Trajectories` columns.
        step_truth: `StepTruth` columns; trajectories without truth are left out.

    Returns:
        reward_type, auc, low, high, n (steps); no rows where no labelled trajectory has truth.

    Raises:
        BenchmarkError: a reward type does not cover the steps that the others do, or truth and steps differ in number.
    """
    aucs = _resampled_aucs(step_rewards, trajectories, step_truth, samples, seed)
    rows = [{"reward_type": name} | asdict(auc.estimate()) for name, auc in aucs.items()]
    schema = {"reward_type": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema).rename({"value": "auc"})


def label_quality_differences(
    step_rewards: pl.DataFrame,
    trajectories: pl.DataFrame,
    step_truth: pl.DataFrame,
    samples: int,
    seed: int,
    baseline: str = "mc",
) -> pl.DataFrame:
    """AUC of every other type minus the baseline's, over the same resampled questions of trajectories that both label.

    Returns:
        reward_type, baseline, difference, low, high, p_value, n (steps).

    Raises:
        BenchmarkError: as `label_quality`, or there are no rewards of the baseline.
    """
    aucs = _resampled_aucs(step_rewards, trajectories, step_truth, samples, seed)
    if aucs and baseline not in aucs:
        raise BenchmarkError(f"there are no rewards of type `{baseline}` to compare with; add it to `rewards.types`")
    rows = []
    for name in aucs:
        pair = aucs
        if aucs[name].n != aucs[baseline].n:
            both = _labelled_by(name, step_rewards, _labelled_by(baseline, step_rewards, trajectories))
            own = step_rewards.filter(pl.col("reward_type").is_in([name, baseline]))
            pair = _resampled_aucs(own, both, step_truth, samples, seed)
        if name != baseline:
            rows.append({"reward_type": name, "baseline": baseline} | asdict(pair[name].minus(pair[baseline])))
    figures = dict.fromkeys(("value", "low", "high", "p_value"), pl.Float64)
    schema = {"reward_type": pl.String, "baseline": pl.String, **figures, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema).rename({"value": "difference"})


def true_steps(trajectories: pl.DataFrame, step_truth: pl.DataFrame) -> pl.DataFrame:
    """One row per step with known truth: trajectory_id, step_index, question_id, correct, math_shepherd (or null).

    Steps whose truth is null, such as those after the first error that people have marked, are left out.

    Raises:
        BenchmarkError: a trajectory has more or fewer true labels than steps.
    """
    both = trajectories.join(step_truth.select("row_number", "correct"), on="row_number")
    if row := first_row(both.filter(pl.col("correct").list.len() != pl.col("steps").list.len())):
        raise BenchmarkError(
            f"trajectory {row['trajectory_id']} has {len(row['steps'])} steps, but the truth of source row "
            f"{row['row_number']} has {len(row['correct'])}; correct the truth's source"
        )
    unlabelled = pl.lit(None, dtype=pl.Boolean).repeat_by(pl.col("correct").list.len())
    return (
        both.select(
            "trajectory_id",
            "question_id",
            "correct",
            pl.col("shepherd_labels").fill_null(unlabelled).alias(CORPUS_LABELS),
            pl.int_ranges(pl.col("correct").list.len()).alias("step_index"),
        )
        .explode("correct", CORPUS_LABELS, "step_index", empty_as_null=False)
        .drop_nulls("correct")
    )


def _labelled_by(name: str, step_rewards: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of trajectories that a reward type labels: rollouts may be those of a sample alone."""
    if name == CORPUS_LABELS:
        return frame.filter(pl.col("shepherd_labels").is_not_null())
    return frame.join(step_rewards.filter(reward_type=name), on="trajectory_id", how="semi", maintain_order="left")


def _resampled_aucs(
    step_rewards: pl.DataFrame, trajectories: pl.DataFrame, step_truth: pl.DataFrame, samples: int, seed: int
) -> dict[str, Resampled]:
    labelled = trajectories.join(step_rewards.select("trajectory_id").unique(), on="trajectory_id", how="semi")
    steps = true_steps(labelled, step_truth).sort(STEP)
    if steps.is_empty():
        return {}
    types = step_rewards["reward_type"].unique(maintain_order=True)
    labelled_by = {name: _labelled_by(name, step_rewards, steps) for name in types if name != CORPUS_LABELS}
    rewards = {name: (_rewards_of(name, step_rewards, over), over) for name, over in labelled_by.items()}
    if (own := steps.drop_nulls(CORPUS_LABELS)).height:
        rewards[CORPUS_LABELS] = (own[CORPUS_LABELS].cast(pl.Float64).to_numpy(), own)
    return {
        name: bootstrap_auc(values, over["correct"].to_numpy(), over["question_id"].to_numpy(), samples, seed)
        for name, (values, over) in rewards.items()
    }


def _rewards_of(reward_type: str, step_rewards: pl.DataFrame, steps: pl.DataFrame) -> np.ndarray:
    """[steps] rewards of one type, in the order of `steps`."""
    own = step_rewards.filter(reward_type=reward_type)
    joined = steps.join(own.select(*STEP, "reward"), on=STEP, how="left", maintain_order="left")
    is_missing = ~pl.col("reward").is_finite().fill_null(False)
    if step := first_row(joined.filter(is_missing | pl.struct(STEP).is_duplicated())):
        raise BenchmarkError(
            f"step {step['step_index']} of trajectory {step['trajectory_id']} does not have exactly one finite reward "
            f"of type `{reward_type}`; compute the rewards of its shard again"
        )
    return joined["reward"].to_numpy()
