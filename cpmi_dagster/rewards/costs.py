"""Labeling costs: measured by stage, divided among methods by what each uses, compared by RelEff (Eq. 8).

hard_negatives    Cost(wall_seconds=2.0, forward_tokens=9_000, generated_tokens=600)
answer_logprobs   Cost(wall_seconds=6.0, forward_tokens=81_000, generated_tokens=0)       a third of it under `marginal`
control_logprobs  Cost(wall_seconds=1.0, forward_tokens=9_000, generated_tokens=0)
policy_rollouts   Cost(wall_seconds=40.0, forward_tokens=70_000, generated_tokens=50_000)   9_000 for prefix 1

method        wall_seconds  generated_tokens
mc            40.0          50_000
cpmi          4.0           600                   the negatives, and a third of the scores
cpmi_merge1   11.2          9_600                 CPMI, and 9/50 of the rollouts
step_surprisal  1.0         0

What a stage took is divided by tokens: generated ones for rollouts, those of scored answers for scores. Completions of
a prefix that trajectories share were sampled once, and count once for every method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import polars as pl

from cpmi_dagster.contracts.contexts import QUESTION, Conditioning, contexts_of
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import CONTROL_LOGPROBS
from cpmi_dagster.contracts.tables import AnswerLogprobs, LabelingCosts
from cpmi_dagster.generation.monte_carlo import prefixes_of
from cpmi_dagster.rewards.registry import demand_of, reward_type
from cpmi_dagster.rewards.reward_type import Steps
from cpmi_dagster.rewards.settings import Rewards

SAMPLED = {"rollouts": "policy_rollouts", "prover": "prover_rollouts"}
"""The asset of each role's rollouts."""
CONTEXT_KEY = ["trajectory_id", "context", "step_index"]
TARGET_TOKENS = AnswerLogprobs.create_empty().select(CONTEXT_KEY).schema | {"gold": pl.Int64(), "negative": pl.Int64()}


@dataclass(frozen=True)
class Measured:
    """What was computed for a shard, by all methods together.

    Attributes:
        costs: costs of the assets hard_negatives, answer_logprobs, control_logprobs, policy_rollouts, prover_rollouts.
        rollouts: all rollouts by role, as `sampled_rollouts` gives them.
        targets: tokens of the scored answers, columns of `TARGET_TOKENS`, one row per context.
    """

    costs: Mapping[str, Cost]
    rollouts: Mapping[str, pl.DataFrame]
    targets: pl.DataFrame


def sampled_rollouts(rollouts: pl.DataFrame, trajectories: pl.DataFrame) -> pl.DataFrame:
    """The rollouts that were sampled: trajectories with an equal prefix share its rollouts.

    Args:
        rollouts: rows of `labels.policy_rollouts`.
        trajectories: columns of `prefixes_of`.

    Returns:
        prefix_length, generated_tokens: of each rollout of a distinct prefix.
    """
    sampled = trajectories.join(rollouts, on="trajectory_id", how="semi", maintain_order="left")
    prompts = [(prefix.trajectory_id, len(prefix.steps), prefix.prompt) for prefix in prefixes_of(sampled, 0)]
    key = ["trajectory_id", "prefix_length"]
    by_prefix = pl.DataFrame(prompts, {**rollouts.select(key).schema, "prompt": pl.String}, orient="row")
    return (
        rollouts.join(by_prefix, on=key, how="left", maintain_order="left")
        .unique(["prompt", "rollout"], keep="first", maintain_order=True)
        .select("prefix_length", "generated_tokens")
    )


def target_tokens(logprobs: pl.DataFrame) -> pl.DataFrame:
    """Tokens of gold answers and of hard negatives under every context, summed over templates.

    Args:
        logprobs: columns of `labels.answer_logprobs`.

    Returns:
        Columns of `TARGET_TOKENS`.
    """
    is_gold, tokens = pl.col("answer_rank") == 0, pl.col("token_count")
    sums = logprobs.group_by(CONTEXT_KEY).agg(gold=tokens.filter(is_gold).sum(), negative=tokens.filter(~is_gold).sum())
    return sums.cast(TARGET_TOKENS)  # pyright: ignore[reportArgumentType]


def labeling_costs(
    shard: str,
    trajectories: int,
    measured: Measured,
    rewards: Rewards,
    negatives: int,
    models: Mapping[str, str],
    completed: int | None = None,
    read: int | None = None,
) -> pl.DataFrame:
    """The cost of labeling a shard by each method, which pays for what it uses.

    Args:
        shard: partition key.
        trajectories: number of labelled trajectories.
        rewards: reward types, and the conditioning of those that name none.
        negatives: M.
        models: names of `labeler`, `rollouts` and `prover`.
        completed: number of trajectories with rollouts, which methods with rollouts label; all if None.
        read: number of trajectories whose steps are scored, which need no gold answer; all if None.

    Returns:
        Columns of `labels.labeling_costs`, one row per method.
    """
    rows = []
    for method in rewards.methods:
        demand, costs, labelled = demand_of([method], rewards.default_conditioning, negatives), {}, trajectories
        for role, longest in (("rollouts", demand.policy_steps), ("prover", demand.prover_steps)):
            if longest != 0:
                costs[role] = _cost_of_rollouts(measured.costs[SAMPLED[role]], measured.rollouts[role], longest)
                labelled = trajectories if completed is None else completed
        if demand.conditionings:
            contrasted = reward_type(method).demand.negatives
            share = _scored_share(demand.conditionings, contrasted, negatives, measured.targets)
            sampled = measured.costs["hard_negatives"] if demand.negatives else Cost()
            scored = sampled + measured.costs["answer_logprobs"].times(share)
            costs = {"labeler": scored.times(labelled / max(trajectories, 1)), **costs}
        if demand.needs[CONTROL_LOGPROBS]:
            costs["labeler"] = costs.get("labeler", Cost()) + measured.costs["control_logprobs"]
            labelled = trajectories if read is None else read
        total = sum(costs.values(), Cost())
        names = " + ".join(dict.fromkeys(models[role] for role in costs))
        rows.append({"shard": shard, "method": method, "model": names, "trajectories": labelled, **asdict(total)})
    return LabelingCosts.cast(pl.DataFrame(rows, schema=LabelingCosts.column_names()))


def _cost_of_rollouts(cost: Cost, rollouts: pl.DataFrame, longest: Steps) -> Cost:
    """The cost of rollouts from prefixes of at most `longest` steps, None for all."""
    used = rollouts if longest is None else rollouts.filter(pl.col("prefix_length") <= longest)
    tokens, everything = (int(rows["generated_tokens"].sum()) for rows in (used, rollouts))
    return cost.times(tokens / max(everything, 1))


def _scored_share(
    conditionings: Sequence[Conditioning], contrasted: int | None, negatives: int, targets: pl.DataFrame
) -> float:
    """Share of the scored answers' tokens used by a method that contrasts with `contrasted` of M negatives.

    All hard negatives count under the question alone, by which they are ordered; elsewhere, `contrasted` of them do.
    """
    sizes = targets.group_by("trajectory_id").agg(size=pl.col("step_index").max() + 1)
    needed = [(size, *context) for size in sizes["size"].unique() for context in contexts_of(conditionings, size)]
    schema = {"size": pl.Int64(), "context": TARGET_TOKENS["context"], "step_index": pl.Int64()}
    contexts = sizes.join(pl.DataFrame(needed, schema=schema, orient="row"), on="size").drop("size")
    used = targets.join(contexts, on=CONTEXT_KEY, how="semi")
    share = 1.0 if contrasted is None else min(1.0, contrasted / negatives)
    weight = pl.when(pl.col("context") == QUESTION.kind).then(float(contrasted != 0)).otherwise(share)
    tokens = float(used.select((pl.col("gold") + weight * pl.col("negative")).sum()).item())
    return tokens / max(int(targets["gold"].sum()) + int(targets["negative"].sum()), 1)


def relative_efficiency(quality: float, cost: float, base_quality: float, base_cost: float) -> float:
    """RelEff(m | b) = (Q_m / C_m) / (Q_b / C_b) (Eq. 8); above 1, m buys its quality more cheaply than b."""
    return (quality / cost) / (base_quality / base_cost)
