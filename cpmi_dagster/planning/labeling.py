"""What labeling a chunk of trajectories by every method will take: the costs a run would measure, from a plan's counts.

    chunk 003/5, 64 trajectories
    hard_negatives    Cost(wall_seconds=1.2, forward_tokens=31_000, generated_tokens=3_100)    generated: a guess
    answer_logprobs   Cost(wall_seconds=2.9, forward_tokens=310_000, generated_tokens=0)
    policy_rollouts   Cost(wall_seconds=38.0, forward_tokens=510_000, generated_tokens=380_000) generated: a guess

Trajectories are taken in the order and in the portions of a run: what they share is read once within a portion.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import polars as pl

from cpmi_dagster.contracts.cost import Cost, in_proportion
from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.generation.monte_carlo import TRAJECTORIES_PER_CALL
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning.durations import Work
from cpmi_dagster.planning.hardware import Hardware
from cpmi_dagster.planning.shapes import PlannedModel
from cpmi_dagster.planning.tokens import (
    PREFIX_TOKENS,
    Samples,
    negatives_work,
    rollouts_work,
    scoring_work,
)
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.rewards.costs import TARGET_TOKENS
from cpmi_dagster.rewards.demand import Steps

Role = Literal["labeler", "rollouts", "prover"]
ROLES: tuple[Role, ...] = get_args(Role)
Part = Literal["hard_negatives", "answer_logprobs", "policy_rollouts", "prover_rollouts"]
ROLE_OF: dict[Part, Role] = {
    "hard_negatives": "labeler",
    "answer_logprobs": "labeler",
    "policy_rollouts": "rollouts",
    "prover_rollouts": "prover",
}
Figure = Literal["forward", "generated"]
Guess = tuple[Part, Figure]


@dataclass(frozen=True)
class Chunk:
    """Trajectories that a run labels together, and the labels that it has made already.

    Attributes:
        shard: partition they are in.
        trajectories: columns trajectory_id, question, steps, gold_answer, in the order of the run.
        made: rows of the tables `labels.hard_negatives`, `.policy_rollouts` and `.prover_rollouts` that are made.
        sampled_tokens: tokens generated for the negatives, where they are made.
    """

    shard: str
    trajectories: pl.DataFrame
    made: Mapping[Part, pl.DataFrame] = field(default_factory=dict)
    sampled_tokens: int | None = None


@dataclass(frozen=True)
class ChunkCosts:
    """What labeling a chunk, or several of a shard, takes.

    Attributes:
        shard: partition key.
        trajectories: how many.
        costs: by stage; seconds of one card.
        rollouts: by role, columns trajectory_id, prefix_length, generated_tokens.
        targets: tokens of the scored answers, columns of `costs.TARGET_TOKENS`.
        guesses: estimates, which a run may not confirm.
    """

    shard: str
    trajectories: int
    costs: Mapping[str, Cost]
    rollouts: Mapping[str, pl.DataFrame]
    targets: pl.DataFrame
    guesses: frozenset[Guess]

    def __add__(self, other: "ChunkCosts") -> "ChunkCosts":
        """The costs of two chunks of a shard."""
        return ChunkCosts(
            self.shard,
            self.trajectories + other.trajectories,
            {part: cost + other.costs[part] for part, cost in self.costs.items()},
            {role: pl.concat([frame, other.rollouts[role]]) for role, frame in self.rollouts.items()},
            pl.concat([self.targets, other.targets]),
            self.guesses | other.guesses,
        )


def chunk_costs(chunk: Chunk, models: Mapping[str, PlannedModel], settings: Settings, hardware: Hardware) -> ChunkCosts:
    """Count the tokens of what a profile asks for in a chunk stage by stage, and estimate its seconds.

    Args:
        models: by role, those that are needed.
    """
    demand = settings.demand
    policy, policy_rollouts = _rollouts_work(chunk, "rollouts", models, settings, demand.policy_steps)
    prover, prover_rollouts = _rollouts_work(chunk, "prover", models, settings, demand.prover_steps)
    scoring, targets = _scoring_work(chunk, models["labeler"], settings, hardware)
    work: dict[Part, Work] = {
        "hard_negatives": _negatives_work(chunk, models["labeler"], settings) if demand.negatives else Work(),
        "answer_logprobs": scoring,
        "policy_rollouts": policy,
        "prover_rollouts": prover,
    }
    batch = settings.rollouts.batch_sequences
    return ChunkCosts(
        shard=chunk.shard,
        trajectories=chunk.trajectories.height,
        costs={
            part: done.cost(models[ROLE_OF[part]].shape, hardware, batch) if done != Work() else Cost.zero()
            for part, done in work.items()
        },
        rollouts={"rollouts": policy_rollouts, "prover": prover_rollouts},
        targets=targets,
        guesses=_guesses(chunk, settings),
    )


def _negatives_work(chunk: Chunk, labeler: PlannedModel, settings: Settings) -> Work:
    negatives = settings.negatives
    samples = Samples(negatives.samples, negatives.sampling, settings.rollouts.batch_sequences)
    portions = list(chunk.trajectories.iter_slices(settings.scoring.chunk_trajectories))
    measured: list[int | None] = [None] * len(portions)
    if chunk.sampled_tokens is not None:
        measured[:] = in_proportion(chunk.sampled_tokens, [portion.height for portion in portions])
    works = (negatives_work(own, labeler, samples, tokens) for own, tokens in zip(portions, measured, strict=True))
    return sum(works, Work())


def _scoring_work(
    chunk: Chunk, labeler: PlannedModel, settings: Settings, hardware: Hardware
) -> tuple[Work, pl.DataFrame]:
    demand = settings.demand
    total, targets = Work(), [pl.DataFrame(schema=TARGET_TOKENS)]
    scoring = settings.scoring.model_copy(update={"conditionings": demand.conditionings})
    if not demand.conditionings:
        return total, targets[0]
    for portion in chunk.trajectories.iter_slices(settings.scoring.chunk_trajectories):
        if not demand.negatives:
            negatives = HardNegatives.create_empty()
        elif "hard_negatives" in chunk.made:
            negatives = chunk.made["hard_negatives"].join(portion, on="trajectory_id", how="semi")
        else:
            comparison = settings.answers.comparison
            found = hard_negatives(portion, None, settings.negatives, settings.seed, comparison=comparison)
            negatives = found.negatives
        work, tokens = scoring_work(
            portion, negatives, labeler, scoring, hardware.card.device, contrasted=demand.negatives > 0
        )
        total += work
        targets.append(tokens)
    return total, pl.concat(targets)


def _rollouts_work(
    chunk: Chunk, role: Role, models: Mapping[str, PlannedModel], settings: Settings, steps: Steps
) -> tuple[Work, pl.DataFrame]:
    rollouts = settings.rollouts
    if steps == 0:
        return Work(), pl.DataFrame(schema=PREFIX_TOKENS)
    is_policy = role == "rollouts"
    count = rollouts.policy_count if is_policy else rollouts.prover_count
    samples = Samples(count, rollouts.sampling, rollouts.batch_sequences)
    measured = None
    if (made := chunk.made.get("policy_rollouts" if is_policy else "prover_rollouts")) is not None:
        sums = made.group_by("trajectory_id", "prefix_length").agg(pl.col("generated_tokens").sum())
        measured = {(name, length): tokens for name, length, tokens in sums.iter_rows()}
    total, frames = Work(), [pl.DataFrame(schema=PREFIX_TOKENS)]
    for portion in chunk.trajectories.iter_slices(rollouts.chunk_trajectories):
        for call in portion.iter_slices(TRAJECTORIES_PER_CALL):
            work, frame = rollouts_work(call, models[role], samples, int(is_policy), steps, measured)
            total += work
            frames.append(frame)
    return total, pl.concat(frames)


def _guesses(chunk: Chunk, settings: Settings) -> frozenset[Guess]:
    """What a run may find to be different: sampled text, and token trees with sampled negatives."""
    rollouts: tuple[Part, ...] = ("policy_rollouts", "prover_rollouts")
    guesses: set[Guess] = {(part, "generated") for part in rollouts if part not in chunk.made}
    if "hard_negatives" not in chunk.made and settings.negatives.samples:
        guesses |= {("hard_negatives", "generated"), ("answer_logprobs", "forward")}
    return frozenset(guesses)
