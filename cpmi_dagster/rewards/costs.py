"""What labeling costs: measured by stage, shared out among methods by what each uses, compared by RelEff (Eq. 8).

hard_negatives    Cost(wall_seconds=2.0, forward_tokens=9_000, generated_tokens=600)
answer_logprobs   Cost(wall_seconds=6.0, forward_tokens=81_000, generated_tokens=0)       a third of it under `marginal`
policy_rollouts   Cost(wall_seconds=40.0, forward_tokens=70_000, generated_tokens=50_000)   9_000 for prefix 1

method        wall_seconds  generated_tokens
mc            40.0          50_000
cpmi          4.0           600                   the negatives, and a third of the scores
cpmi_merge1   11.2          9_600                 CPMI, and 9/50 of the rollouts

Seconds and forward tokens of a stage are shared out by tokens: of rollouts by generated ones, of scores by those of the
answers that are scored. Generated tokens are counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from cpmi_dagster.contracts.contexts import QUESTION, Conditioning, contexts_of
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import AnswerLogprobs, LabelingCosts
from cpmi_dagster.rewards.demand import Demand, Steps, demand_of
from cpmi_dagster.rewards.registry import reward_type

CONTEXT_KEY = AnswerLogprobs.create_empty().select("trajectory_id", "context", "step_index").schema
SAMPLED = {"rollouts": "policy_rollouts", "prover": "prover_rollouts"}
"""The asset that each role's rollouts are in."""
TARGET_TOKENS = {**CONTEXT_KEY, "gold": pl.Int64(), "negative": pl.Int64()}


@dataclass(frozen=True)
class Measured:
    """What was computed of a shard, whatever asked for it.

    Attributes:
        costs: of the assets hard_negatives, answer_logprobs, policy_rollouts and prover_rollouts.
        rollouts: by role, all that were drawn: columns prefix_length, rollout, generated_tokens.
        targets: tokens of the answers that were scored, columns of `TARGET_TOKENS`, one row a context.
    """

    costs: Mapping[str, Cost]
    rollouts: Mapping[str, pl.DataFrame]
    targets: pl.DataFrame


@dataclass(frozen=True)
class CostBasis:
    """What of a profile decides how costs are shared out among methods.

    Attributes:
        default_conditioning: of the reward types that name none.
        negatives: M.
        rollouts: completions of a prefix, by role.
    """

    default_conditioning: Conditioning
    negatives: int
    rollouts: Mapping[str, int]


def target_tokens(logprobs: pl.DataFrame) -> pl.DataFrame:
    """Tokens of gold answers and of hard negatives under every context, all templates together.

    Args:
        logprobs: columns of `labels.answer_logprobs`.

    Returns:
        Columns of `TARGET_TOKENS`.
    """
    is_gold, tokens = pl.col("answer_rank") == 0, pl.col("token_count")
    sums = logprobs.group_by("trajectory_id", "context", "step_index").agg(
        gold=tokens.filter(is_gold).sum(), negative=tokens.filter(~is_gold).sum()
    )
    return sums.cast(TARGET_TOKENS)  # pyright: ignore[reportArgumentType]


def tokens_of(targets: pl.DataFrame) -> int:
    """Tokens of all answers that were scored."""
    return int(targets["gold"].sum()) + int(targets["negative"].sum())


def labeling_costs(
    shard: str,
    trajectories: int,
    measured: Measured,
    basis: CostBasis,
    models: Mapping[str, str],
    methods: Sequence[str],
    completed: int | None = None,
) -> pl.DataFrame:
    """What labeling a shard by each method takes: each pays for what it uses.

    Args:
        shard: partition key.
        trajectories: how many were labelled.
        models: names of `labeler`, `rollouts` and `prover`.
        methods: reward types, e.g. mc, pav, cpmi, cpmi_merge1.
        completed: how many of the trajectories have rollouts; all when None. Methods that take rollouts label these.

    Returns:
        Columns of `labels.labeling_costs`, one row per method.
    """
    rows = []
    for method in methods:
        demand = demand_of([method], basis.default_conditioning, basis.negatives)
        parts = costs_of(demand, measured, basis, reward_type(method).needs.negatives)
        labelled = trajectories
        if completed is not None and (demand.policy_steps, demand.prover_steps) != (0, 0):
            labelled = completed
            if "labeler" in parts:
                parts["labeler"] = parts["labeler"].times(completed / max(trajectories, 1))
        total = sum(parts.values(), Cost.zero())
        names = " + ".join(dict.fromkeys(models[role] for role in parts))
        rows.append({"shard": shard, "method": method, "model": names, "trajectories": labelled, **total.to_dict()})
    return LabelingCosts.cast(pl.DataFrame(rows, schema=LabelingCosts.column_names()))


def costs_of(demand: Demand, measured: Measured, basis: CostBasis, negatives: int | None = None) -> dict[str, Cost]:
    """What a demand costs, by the role of the model that is used.

    Args:
        negatives: how many of the hard negatives each step is contrasted with; all when None.
    """
    parts: dict[str, Cost] = {}
    if demand.conditionings:
        scores = measured.costs["answer_logprobs"].times(_scored_share(demand, measured.targets, negatives, basis))
        sampled = measured.costs["hard_negatives"] if demand.negatives else Cost.zero()
        parts["labeler"] = sampled + scores
    for role, steps in (("rollouts", demand.policy_steps), ("prover", demand.prover_steps)):
        if steps != 0:
            cost, rollouts = measured.costs[SAMPLED[role]], measured.rollouts[role]
            parts[role] = cost_of_rollouts(cost, rollouts, steps, basis.rollouts[role])
    return parts


def cost_of_rollouts(cost: Cost, rollouts: pl.DataFrame, steps: Steps, count: int) -> Cost:
    """The part of the rollouts' cost that falls on the first `count` of the prefixes of at most `steps` steps.

    Args:
        cost: of all rollouts.
        rollouts: columns prefix_length, rollout, generated_tokens.
        steps: longest prefix that is used; None is all.
        count: completions that are used of each.
    """
    used = pl.col("rollout") < count
    if steps is not None:
        used &= pl.col("prefix_length") <= steps
    tokens = int(rollouts.filter(used)["generated_tokens"].sum())
    everything = int(rollouts["generated_tokens"].sum())
    if steps is None and tokens == everything:
        return cost
    part = cost.times(tokens / max(everything, 1))
    return replace(part, generated_tokens=tokens)


def _scored_share(demand: Demand, targets: pl.DataFrame, negatives: int | None, basis: CostBasis) -> float:
    """Share of the scored answers' tokens that a demand uses.

    The question alone is scored with all hard negatives, which that orders; then so many of them count as are used.
    """
    sizes = targets.group_by("trajectory_id").agg(size=pl.col("step_index").max() + 1)
    needed = [
        (size, *context) for size in sizes["size"].unique() for context in contexts_of(demand.conditionings, size)
    ]
    schema = {"size": pl.Int64(), "context": TARGET_TOKENS["context"], "step_index": pl.Int64()}
    contexts = sizes.join(pl.DataFrame(needed, schema=schema, orient="row"), on="size").drop("size")
    used = targets.join(contexts, on=["trajectory_id", "context", "step_index"], how="semi")
    scored = float(demand.negatives > 0)
    share = scored if negatives is None else min(scored, negatives / basis.negatives)
    weight = pl.when(pl.col("context") == QUESTION.kind).then(scored).otherwise(share)
    tokens = float(used.select((pl.col("gold") + weight * pl.col("negative")).sum()).item())
    return tokens / max(tokens_of(targets), 1)


def relative_efficiency(quality: float, cost: float, base_quality: float, base_cost: float) -> float:
    """RelEff(m | b) = (Q_m / C_m) / (Q_b / C_b) (Eq. 8); above 1, m buys its quality more cheaply than b."""
    return (quality / cost) / (base_quality / base_cost)
