"""What labeling costs: measured stage by stage, added up per method, compared by RelEff (Eq. 8).

hard_negatives    Cost(wall_seconds=2.0, forward_tokens=9_000, generated_tokens=600)
answer_logprobs   Cost(wall_seconds=6.0, forward_tokens=81_000, generated_tokens=0)
policy_rollouts   Cost(wall_seconds=40.0, forward_tokens=70_000, generated_tokens=50_000)   9_000 for prefix 1

method        wall_seconds  generated_tokens
mc            40.0          50_000
cpmi          8.0           600
cpmi_merge1   15.2          9_600             CPMI, and 9/50 of the rollouts
"""

from collections.abc import Mapping, Sequence

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import LabelingCosts
from cpmi_dagster.rewards.registry import reward_type


def labeling_costs(
    shard: str,
    trajectories: int,
    costs: Mapping[str, Cost],
    policy_rollouts: pl.DataFrame,
    prover_rollouts: pl.DataFrame,
    models: Mapping[str, str],
    methods: Sequence[str],
) -> pl.DataFrame:
    """What labeling a shard by each method takes; a merge pays only for the rollouts it uses.

    Args:
        costs: of the assets hard_negatives, answer_logprobs, policy_rollouts and prover_rollouts, as measured.
        policy_rollouts: columns prefix_length, generated_tokens.
        prover_rollouts: likewise.
        models: names of `labeler`, `policy` and `prover`.
        methods: reward types, e.g. mc, pav, cpmi, cpmi_merge1.

    Returns:
        Columns of `labels.labeling_costs`, one row per method. Of the rollouts of the first k steps the generated
        tokens are exact; seconds and forward tokens are in proportion to them.
    """
    rollouts = {"policy": policy_rollouts, "prover": prover_rollouts}
    rows = []
    for method in methods:
        needs = reward_type(method).needs
        parts = {"labeler": costs["hard_negatives"] + costs["answer_logprobs"]} if needs.scores else {}
        for role, steps in (("policy", needs.policy_steps), ("prover", needs.prover_steps)):
            if steps != 0:
                parts[role] = cost_of_first_steps(costs[f"{role}_rollouts"], rollouts[role], steps)
        total = sum(parts.values(), Cost.zero())
        names = " + ".join(dict.fromkeys(models[role] for role in parts))
        rows.append({"shard": shard, "method": method, "model": names, "trajectories": trajectories, **total.to_dict()})
    return LabelingCosts.cast(pl.DataFrame(rows, schema=LabelingCosts.column_names()))


def cost_of_first_steps(cost: Cost, rollouts: pl.DataFrame, steps: int | None) -> Cost:
    """The part of the rollouts' cost that falls on the prefixes of at most `steps` steps; all of it when None.

    Args:
        cost: of all rollouts.
        rollouts: columns prefix_length, generated_tokens.
        steps: longest prefix that is needed.
    """
    if steps is None:
        return cost
    tokens = int(rollouts.filter(pl.col("prefix_length") <= steps)["generated_tokens"].sum())
    share = tokens / max(int(rollouts["generated_tokens"].sum()), 1)
    return Cost(cost.wall_seconds * share, round(cost.forward_tokens * share), tokens)


def relative_efficiency(quality: float, cost: float, base_quality: float, base_cost: float) -> float:
    """RelEff(m | b) = (Q_m / C_m) / (Q_b / C_b) (Eq. 8); above 1, m buys its quality more cheaply than b."""
    return (quality / cost) / (base_quality / base_cost)
