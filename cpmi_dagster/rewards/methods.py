"""The paper's methods: MC, PAV, CPMI and their merges.

trajectory  step  mc    pav    cpmi   cpmi_merge1
t000000007  0     0.75  1.00   0.31   0.75          MC at the first step,
t000000007  1     0.25  0.00  -0.42  -0.42          CPMI after it
"""

import polars as pl

from cpmi_dagster.contracts.contexts import Conditioning
from cpmi_dagster.contracts.keys import POLICY_ROLLOUTS, PROVER_ROLLOUTS
from cpmi_dagster.files.text import counted
from cpmi_dagster.rewards.reward_type import (
    DEFAULT,
    EVERY,
    PROBABILITY,
    STEP,
    Demand,
    LabelInputs,
    Merge,
    RewardType,
    Scale,
)
from cpmi_dagster.scoring.conditionings import check_scored, shift

SCORES = Demand((DEFAULT,), EVERY)
"""Gold answer and hard negatives under the profile's conditioning."""


def success_rates(rollouts: pl.DataFrame, hard: bool = False) -> pl.DataFrame:
    """Share of a prefix's rollouts with the gold answer (Eq. 1), or whether any has it.

    Args:
        rollouts: trajectory_id, prefix_length, correct.
        hard: Math-Shepherd's hard estimate, 1 if any rollout is right.

    Returns:
        trajectory_id, step_index (last step of the prefix, -1 for the question alone), reward in [0, 1].
    """
    correct = pl.col("correct")
    return rollouts.group_by("trajectory_id", step_index=pl.col("prefix_length") - 1).agg(
        reward=correct.any().cast(pl.Float64) if hard else correct.mean()
    )


def mc(inputs: LabelInputs) -> pl.DataFrame:
    """The share of the rollout model's completions of a prefix that reach the gold answer: MC (Eq. 1)."""
    return success_rates(inputs.policy_rollouts)


def mc_hard(inputs: LabelInputs) -> pl.DataFrame:
    """1 if any completion by the rollout model reaches the gold answer, else 0: Math-Shepherd's hard estimate."""
    return success_rates(inputs.policy_rollouts, hard=True)


def pav(inputs: LabelInputs) -> pl.DataFrame:
    """MC by the rollout model plus alpha times how much the step changes the prover's MC: PAV (Eq. 2)."""
    prover = success_rates(inputs.prover_rollouts)
    before = prover.with_columns(pl.col("step_index") + 1)
    # if another type asks the rollout model for later prefixes, the prover has no rollouts of these
    joined = inputs.rewards(MC).join(prover, on=STEP, how="left", suffix="_prover")
    joined = joined.join(before, on=STEP, how="left", suffix="_before")
    advantage = pl.col("reward_prover") - pl.col("reward_before")
    return joined.select(*STEP, reward=pl.col("reward") + inputs.alpha * advantage)


def cpmi(inputs: LabelInputs) -> pl.DataFrame:
    """The gold answer's shift minus the wrong answers' mean shift, averaged over templates: CPMI (Eq. 4)."""
    return conditioned(inputs, inputs.conditioning)


def conditioned(inputs: LabelInputs, conditioning: Conditioning) -> pl.DataFrame:
    """CPMI under a conditioning by name."""
    compared = check_scored(inputs.compared(conditioning), ["gold", "mean"])
    return template_mean(compared, shift("gold") - shift("mean"))


def template_mean(scores: pl.DataFrame, term: pl.Expr) -> pl.DataFrame:
    """Mean of a term over the K templates (Eq. 4).

    Args:
        scores: trajectory_id, step_index, template and the columns of the term.
        term: in nats per token.
    """
    return scores.sort(*STEP, "template").group_by(STEP, maintain_order=True).agg(reward=term.mean())


def merge(first: pl.DataFrame, rest: pl.DataFrame, steps: int) -> pl.DataFrame:
    """`first` at the first `steps` steps, `rest` after them (CPMI_Merge, section 4.3 and appendix D.2).

    Args:
        first: trajectory_id, step_index, reward; trajectories that it lacks are left out.
        rest: the same columns, every step.

    Returns:
        The same columns; the reward is null if `first` lacks the step.
    """
    both = rest.join(first, on="trajectory_id", how="semi", maintain_order="left")
    joined = both.join(first, on=STEP, how="left", suffix="_first", maintain_order="left")
    reward = pl.when(pl.col("step_index") < steps).then("reward_first").otherwise("reward")
    return joined.select(*STEP, reward=reward)


def merge_types(
    name: str, label: str, first: RewardType, rest: RewardType, steps: int, in_main_tables: bool = False
) -> RewardType:
    """The reward type that is `first` at the first `steps` steps and `rest` after them."""

    def compute(inputs: LabelInputs) -> pl.DataFrame:
        return merge(inputs.rewards(first), inputs.rewards(rest), steps)

    compute.__doc__ = f"{first.label} for {counted(steps, 'step')}, then {rest.label} (section 4.3)."
    policy_steps, prover_steps = (steps * first.demand.needs[key] for key in (POLICY_ROLLOUTS, PROVER_ROLLOUTS))
    demand = rest.demand | Demand(policy_steps=policy_steps, prover_steps=prover_steps)
    return RewardType(name, label, compute, demand, rest.scale, Merge(first.name, steps), rest.kind, in_main_tables)


MC = RewardType("mc", "MC", mc, Demand(policy_steps=EVERY), PROBABILITY, in_main_tables=True)
PAV = RewardType(
    "pav",
    "PAV",
    pav,
    Demand(policy_steps=EVERY, prover_steps=EVERY),
    # equal to MC if the step changes nothing for the prover
    Scale("a probability plus a difference", PROBABILITY.right_from),
    in_main_tables=True,
)
CPMI = RewardType("cpmi", "CPMI", cpmi, SCORES, in_main_tables=True)
METHODS = (
    MC,
    RewardType("mc_hard", "MC (hard)", mc_hard, Demand(policy_steps=EVERY), PROBABILITY),
    PAV,
    CPMI,
    merge_types("cpmi_merge1", "CPMI_Merge", MC, CPMI, 1, in_main_tables=True),
    merge_types("cpmi_merge2", "CPMI_Merge2", MC, CPMI, 2),
    merge_types("cpmi_merge3", "CPMI_Merge3", MC, CPMI, 3),
    *(merge_types(f"pav_merge{steps}", f"PAV_Merge{steps}", PAV, CPMI, steps) for steps in (1, 2, 3)),
)
