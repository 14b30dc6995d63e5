"""Step rewards of every type of a profile, and their distribution.

trajectory  step  reward_type  reward
t000000007  0     cpmi          0.31
t000000007  0     mc            0.75
t000000007  1     cpmi         -0.42

| reward type | steps | mean | 5 % | median | 95 % | from smallest to largest |
|---|---|---|---|---|---|---|
| cpmi | 838 | 0.031 | -0.21 | 0.02 | 0.35 | ▁▂▅█▃▁▁▁ |
"""

from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from cpmi_dagster.contracts.tables import StepRewards
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.files.text import counted, in_markdown
from cpmi_dagster.rewards.registry import reward_type
from cpmi_dagster.rewards.reward_type import LabelInputs

LACKING = {
    "final_answer": "in which no final answer is found",
    "truth": "that have no labels",
    "corpus_labels": "that have no labels",
}
"""Why trajectories have no rewards of a type, by input of the type."""
BARS = "▁▂▃▄▅▆▇█"
BINS = 16
HEAD = "| reward type | steps | mean | 5 % | median | 95 % | from smallest to largest |\n|---|---|---|---|---|---|---|"


def step_rewards(inputs: LabelInputs, types: Iterable[str]) -> pl.DataFrame:
    """Rewards of every type; trajectories that could not be scored have none based on CPMI.

    Args:
        types: names of reward types.

    Returns:
        Columns of `labels.step_rewards`, sorted by their key.

    Raises:
        SettingsError: a reward type does not exist.
        ScoringError: rollouts of a prefix or scores of a context are missing.
    """
    names = list(types)
    alone = _rewards_of(inputs, [name for name in names if not reward_type(name).reads_labels])
    together = _rewards_of(replace(inputs, labels=alone), [name for name in names if reward_type(name).reads_labels])
    return pl.concat([alone, together]).sort(StepRewards.primary_key())


def _rewards_of(inputs: LabelInputs, names: Iterable[str]) -> pl.DataFrame:
    by_type = [inputs.rewards(reward_type(name)).with_columns(reward_type=pl.lit(name)) for name in names]
    labelled = pl.concat(by_type, how="vertical_relaxed") if by_type else StepRewards.create_empty()
    missing = labelled.filter(pl.col("reward").is_null()).sort(StepRewards.primary_key())
    for trajectory_id, step, name in missing.select(StepRewards.primary_key()).head(1).iter_rows():
        raise ScoringError(
            f"trajectory `{trajectory_id}` lacks rollouts that `{name}` of step_index {step} needs; compute them again"
        )
    return StepRewards.cast(labelled.select(StepRewards.column_names()))


def notes_on_unlabelled(rewards: pl.DataFrame, inputs: LabelInputs, types: Iterable[str]) -> list[str]:
    """A sentence for each reward type that some trajectories lack, or have with less known, as an input is missing.

    Args:
        rewards: columns of `labels.step_rewards`.
        inputs: that they were computed from.
        types: names of reward types.
    """
    notes, trajectories = [], inputs.trajectories.height
    for name in types:
        if reward_type(name).reads_labels and (count := trajectories - len(inputs.outcomes)):
            named = counted(count, "trajectory", "trajectories")
            notes.append(
                f"`{name}` of {named} does not know whether the final answer is right: it or the gold answer is missing"
            )
        for lacking in (LACKING[given] for given in reward_type(name).demand.inputs if given in LACKING):
            if count := trajectories - rewards.filter(reward_type=name)["trajectory_id"].n_unique():
                notes.append(f"`{name}` has no rewards for {counted(count, 'trajectory', 'trajectories')} {lacking}")
    return notes


def reward_summary(rewards: pl.DataFrame) -> str:
    """Mean, quantiles and a histogram of each reward type, as a Markdown table.

    Args:
        rewards: `reward_type`, `reward` in the type's own unit.
    """
    rows = []
    for (name,), part in sorted(rewards.drop_nulls("reward").partition_by("reward_type", as_dict=True).items()):
        values = part["reward"]
        numbers = (values.mean(), *(values.quantile(share) for share in (0.05, 0.5, 0.95)))
        figures = " | ".join(f"{number:.3g}" for number in numbers)
        rows.append(f"| {in_markdown(name)} | {values.len():,} | {figures} | {histogram(values)} |")
    return "\n".join([HEAD, *rows])


def histogram(values: pl.Series) -> str:
    """Bars of equal width from the smallest value to the largest; equal values are one bar."""
    if values.n_unique() == 1:
        return BARS[-1]
    counts = values.hist(bin_count=BINS, include_category=False)["count"].to_list()
    heights = [count / max(counts) * (len(BARS) - 1) for count in counts]
    # a dot for an empty bin, since Markdown joins spaces
    return "".join(BARS[round(height)] if height else "·" for height in heights)
