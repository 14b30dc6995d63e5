"""What labeling a chunk of trajectories by every method will take: the costs a run would measure, from a plan's counts.

    chunk 003/5, 64 trajectories
    hard_negatives    Cost(wall_seconds=1.2, forward_tokens=31_000, generated_tokens=3_100)    generated: a guess
    answer_logprobs   Cost(wall_seconds=2.9, forward_tokens=310_000, generated_tokens=0)
    policy_rollouts   Cost(wall_seconds=38.0, forward_tokens=510_000, generated_tokens=380_000) generated: a guess

Trajectories are taken in the order and in the portions of a run: what they share is read once within a portion.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.generation.monte_carlo import TRAJECTORIES_PER_CALL
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning.durations import Work
from cpmi_dagster.planning.hardware import Hardware
from cpmi_dagster.planning.shapes import PlannedModel
from cpmi_dagster.planning.tokens import (
    PREFIX_TOKENS,
    PrefixTokens,
    Samples,
    negatives_work,
    rollouts_work,
    scoring_work,
)
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.rewards.registry import Needs

Role = Literal["labeler", "policy", "prover"]
ROLES: tuple[Role, ...] = get_args(Role)
Part = Literal["hard_negatives", "answer_logprobs", "policy_rollouts", "prover_rollouts"]
ALL_PARTS: tuple[Part, ...] = get_args(Part)
Figure = Literal["forward", "generated"]
Guess = tuple[Part, Figure]


@dataclass(frozen=True)
class Chunk:
    """Trajectories that a run labels together, and the labels that it has made already; None where it has not.

    Attributes:
        shard: partition they are in.
        trajectories: columns trajectory_id, question, steps, gold_answer, in the order of the run.
        negatives: rows of `labels.hard_negatives`.
        sampled_tokens: tokens generated for the negatives.
        policy_rollouts: rows of that table.
        prover_rollouts: likewise.
    """

    shard: str
    trajectories: pl.DataFrame
    negatives: pl.DataFrame | None = None
    sampled_tokens: int | None = None
    policy_rollouts: pl.DataFrame | None = None
    prover_rollouts: pl.DataFrame | None = None


@dataclass(frozen=True)
class ChunkCosts:
    """What labeling a chunk, or several of a shard, takes.

    Attributes:
        shard: partition key.
        trajectories: how many.
        costs: by stage; seconds of one card.
        rollouts: by role, columns trajectory_id, prefix_length, generated_tokens.
        guesses: estimates, which a run may not confirm.
    """

    shard: str
    trajectories: int
    costs: Mapping[str, Cost]
    rollouts: Mapping[str, pl.DataFrame]
    guesses: frozenset[Guess]

    def __add__(self, other: "ChunkCosts") -> "ChunkCosts":
        """The costs of two chunks of a shard."""
        return ChunkCosts(
            self.shard,
            self.trajectories + other.trajectories,
            {part: cost + other.costs[part] for part, cost in self.costs.items()},
            {role: pl.concat([frame, other.rollouts[role]]) for role, frame in self.rollouts.items()},
            self.guesses | other.guesses,
        )

    @property
    def total(self) -> Cost:
        """Everything a run labels with."""
        return sum(self.costs.values(), Cost.zero())


def parts_of(needs: Needs) -> list[Part]:
    """The stages that a method needs."""
    needed = (needs.scores, needs.scores, needs.policy_steps != 0, needs.prover_steps != 0)
    return [part for part, is_needed in zip(ALL_PARTS, needed, strict=True) if is_needed]


def chunk_costs(chunk: Chunk, models: Mapping[str, PlannedModel], settings: Settings, hardware: Hardware) -> ChunkCosts:
    """Count a chunk's tokens stage by stage, and estimate its seconds.

    Args:
        chunk: the trajectories.
        models: by role.
        settings: the profile.
        hardware: what it runs on.
    """
    policy, policy_rollouts = _rollouts_work(chunk, "policy", models["policy"], settings)
    prover, prover_rollouts = _rollouts_work(chunk, "prover", models["prover"], settings)
    work: dict[Part, Work] = {
        "hard_negatives": _negatives_work(chunk, models["labeler"], settings),
        "answer_logprobs": _scoring_work(chunk, models["labeler"], settings, hardware),
        "policy_rollouts": policy,
        "prover_rollouts": prover,
    }
    batch = settings.rollouts.batch_sequences
    return ChunkCosts(
        shard=chunk.shard,
        trajectories=chunk.trajectories.height,
        costs={part: done.cost(models[_role(part)].shape, hardware, batch) for part, done in work.items()},
        rollouts={"policy": policy_rollouts, "prover": prover_rollouts},
        guesses=_guesses(chunk, settings),
    )


def _negatives_work(chunk: Chunk, labeler: PlannedModel, settings: Settings) -> Work:
    negatives = settings.negatives
    samples = Samples(negatives.samples, negatives.sampling, settings.rollouts.batch_sequences)
    total, done = Work(), 0
    for portion in chunk.trajectories.iter_slices(settings.scoring.chunk_trajectories):
        measured = share_of(chunk.sampled_tokens, done, done + portion.height, chunk.trajectories.height)
        total += negatives_work(portion, labeler, samples, measured)
        done += portion.height
    return total


def _scoring_work(chunk: Chunk, labeler: PlannedModel, settings: Settings, hardware: Hardware) -> Work:
    total = Work()
    for portion in chunk.trajectories.iter_slices(settings.scoring.chunk_trajectories):
        if chunk.negatives is None:
            negatives = hard_negatives(portion, None, settings.negatives, settings.seed).negatives
        else:
            negatives = chunk.negatives.join(portion, on="trajectory_id", how="semi")
        total += scoring_work(portion, negatives, labeler, settings.scoring, hardware.card.device)
    return total


def _rollouts_work(chunk: Chunk, role: Role, model: PlannedModel, settings: Settings) -> tuple[Work, pl.DataFrame]:
    rollouts = settings.rollouts
    is_policy = role == "policy"
    count = rollouts.policy_count if is_policy else rollouts.prover_count
    samples = Samples(count, rollouts.sampling, rollouts.batch_sequences)
    made = chunk.policy_rollouts if is_policy else chunk.prover_rollouts
    measured = None if made is None else _by_prefix(made)
    total, frames = Work(), [pl.DataFrame(schema=PREFIX_TOKENS)]
    for portion in chunk.trajectories.iter_slices(rollouts.chunk_trajectories):
        for call in portion.iter_slices(TRAJECTORIES_PER_CALL):
            work, frame = rollouts_work(call, model, samples, not is_policy, measured)
            total += work
            frames.append(frame)
    return total, pl.concat(frames)


def _by_prefix(rollouts: pl.DataFrame) -> PrefixTokens:
    sums = rollouts.group_by("trajectory_id", "prefix_length").agg(pl.col("generated_tokens").sum())
    return {(name, length): tokens for name, length, tokens in sums.iter_rows()}


def share_of(total: int | None, first: int, last: int, size: int) -> int | None:
    """The part of a total that belongs to items `first` to `last` of `size`; the parts add up to it."""
    return None if total is None else total * last // size - total * first // size


def _role(part: Part) -> Role:
    return "policy" if part == "policy_rollouts" else "prover" if part == "prover_rollouts" else "labeler"


def _guesses(chunk: Chunk, settings: Settings) -> frozenset[Guess]:
    """What a run may find to be different: sampled text, and token trees with sampled negatives."""
    guesses: set[Guess] = set()
    if chunk.negatives is None and settings.negatives.samples:
        guesses |= {("hard_negatives", "generated"), ("answer_logprobs", "forward")}
    if chunk.policy_rollouts is None:
        guesses.add(("policy_rollouts", "generated"))
    if chunk.prover_rollouts is None:
        guesses.add(("prover_rollouts", "generated"))
    return frozenset(guesses)
