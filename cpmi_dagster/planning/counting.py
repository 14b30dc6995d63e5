"""The tokens that labeling some trajectories takes, counted without weights by the functions that a run uses.

`hard_negatives` and `prefix_rollouts` are given an engine that counts in the place of a model:

question of 120 tokens, steps of 30, 30, 20 tokens, the last of them states the answer; T = 8 completions

    prefix_length   prompt tokens   read   generated tokens (estimate)
    1               150               1    8 x 50      the steps that remain; the rest was read with the longer prompt
    2               180               1    8 x 20
    3               200             200    8 x 1       the end of the text

Prompts and token trees are tokenised, and shared beginnings read once, as in a run. Only the length of text that has
not been sampled yet is an estimate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import polars as pl

from cpmi_dagster.answers.comparison import Comparison
from cpmi_dagster.contracts.cost import Cost, in_proportion
from cpmi_dagster.contracts.tables import HardNegatives
from cpmi_dagster.generation.engine import NO_ROOM, Generation, Stop
from cpmi_dagster.generation.monte_carlo import ROLLOUT_COLUMNS, TRAJECTORIES_PER_CALL, Portion, prefix_rollouts
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.shared_beginnings import shared_beginnings
from cpmi_dagster.models.tokens import TokenIds, piece_ids, prompt_ids
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning.hardware import Hardware
from cpmi_dagster.planning.shapes import PlannedModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.rewards.costs import SAMPLED, TARGET_TOKENS, Measured, tokens_of
from cpmi_dagster.rewards.demand import Steps
from cpmi_dagster.scoring.planned import forward_tokens
from cpmi_dagster.trajectories.templates import render_negative_prompt, render_step

Role = Literal["labeler", "rollouts", "prover"]
ROLES: tuple[Role, ...] = get_args(Role)
UNGRADED = Comparison("ungraded", lambda gold, answer: False)
"""A plan does not ask whether a completion is right."""


class Made(NamedTuple):
    """What a run has sampled already for some trajectories.

    Attributes:
        tables: rows of `hard_negatives`, `policy_rollouts` and `prover_rollouts`, by that name, where they are made.
        negative_tokens: tokens generated for the hard negatives.
    """

    tables: Mapping[str, pl.DataFrame] = {}
    negative_tokens: int = 0


NOTHING_MADE = Made()


@dataclass
class CountingEngine:
    """A `RolloutEngine` that counts what an engine of a model reads and generates; its texts are empty.

    Attributes:
        batch_sequences: continuations sampled at the same time.
        expected: tokens of all continuations of each prompt together; at least one each, and within the limit.
        seconds: estimate for what was asked so far.
    """

    model: PlannedModel
    hardware: Hardware
    batch_sequences: int
    expected: Sequence[int]
    seconds: float = field(default=0, init=False)

    @property
    def identity(self) -> str:
        """The model's name."""
        return self.model.name

    def prepare(self) -> None:
        """Nothing is loaded."""

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, samples: int, seed: int, stop: Stop = "answer", first: int = 0
    ) -> list[list[Generation]]:
        """Empty continuations with the tokens that they are expected to have; see `RolloutEngine.generate`."""
        shape = self.model.shape
        ids = prompt_ids(self.model.tokenizer, prompts)
        room = shape.context_length - sampling.max_new_tokens
        sizes = [len(tokens) if len(tokens) <= room else 0 for tokens in ids]
        read = self._read_once(ids, sizes, samples) if self.model.shares_prompts else sizes
        generations, generated, attended = [], 0, 0
        for size, wanted, prompt_tokens in zip(sizes, self.expected, read, strict=True):
            tokens = min(max(wanted, samples), samples * sampling.max_new_tokens) if size else 0
            group = [Generation("", length, False, prompt_tokens) for length in in_proportion(tokens, [1] * samples)]
            generations.append(group if size else [NO_ROOM] * samples)
            generated += tokens
            # the n-th token of a continuation attends to the prompt and n more
            attended += tokens * (size + (tokens // samples + 1) / 2)
        batch = min(self.batch_sequences, samples * len(prompts))
        self.seconds += self.hardware.seconds(shape, sum(read), len(prompts), generated, attended, batch)
        return generations

    def cost(self, counted: Cost) -> Cost:
        """The tokens of a call, with the estimated seconds in the place of those that counting took."""
        return Cost(self.seconds, counted.forward_tokens, counted.generated_tokens)

    def _read_once(self, ids: Sequence[TokenIds], sizes: Sequence[int], samples: int) -> list[int]:
        """Tokens read of each prompt, as `TransformersEngine` takes beginnings from prompts that it has read."""
        # samples beyond a batch read the same prompt again
        rounds = range(0, samples, self.batch_sequences)
        starts = [number for number, size in enumerate(sizes) if size for _ in rounds]
        starts.sort(key=lambda number: -sizes[number])
        read = [0] * len(sizes)
        most_kept = self.batch_sequences * max(sizes, default=0)
        beginnings = shared_beginnings([ids[number] for number in starts], most_kept)
        for number, beginning in zip(starts, beginnings, strict=True):
            read[number] += sizes[number] - (beginning.length if beginning else 0)
        return read


@dataclass(frozen=True)
class LabelCounter:
    """Counts what a profile asks for.

    Attributes:
        models: by role, those that the profile's demand needs.
    """

    settings: Settings
    models: Mapping[str, PlannedModel]
    hardware: Hardware

    def count(self, trajectories: pl.DataFrame, made: Made = NOTHING_MADE) -> Measured:
        """What every labeling stage takes for some trajectories: tokens, and an estimate of one card's seconds.

        Args:
            trajectories: columns trajectory_id, question, steps, gold_answer; whole chunks of a run, in its order.
        """
        settings, demand = self.settings, self.settings.demand
        sampled, scored, targets = Cost.zero(), Cost.zero(), [pl.DataFrame(schema=TARGET_TOKENS)]
        for portion in trajectories.iter_slices(settings.scoring.chunk_trajectories):
            negatives = HardNegatives.create_empty()
            if demand.negatives:
                cost, heuristic = self._negatives(portion)
                sampled += cost
                negatives = made.tables.get("hard_negatives", heuristic)
            if demand.conditionings:
                cost, answers = self._scores(portion, negatives.join(portion, on="trajectory_id", how="semi"))
                scored += cost
                targets.append(answers)
        if "hard_negatives" in made.tables:
            tokens = sampled.forward_tokens - sampled.generated_tokens + made.negative_tokens
            sampled = replace(sampled, forward_tokens=tokens, generated_tokens=made.negative_tokens)
        costs, rollouts = {"hard_negatives": sampled, "answer_logprobs": scored}, {}
        steps_of: dict[Role, Steps] = {"rollouts": demand.policy_steps, "prover": demand.prover_steps}
        for role, steps in steps_of.items():
            spent, frames, table = Cost.zero(), [pl.DataFrame(schema=ROLLOUT_COLUMNS)], made.tables.get(SAMPLED[role])
            for portion in trajectories.iter_slices(settings.rollouts.chunk_trajectories) if steps != 0 else ():
                for call in portion.iter_slices(TRAJECTORIES_PER_CALL):
                    cost, frame = self._rollouts(call, role, steps, table)
                    spent += cost
                    frames.append(frame)
            costs[SAMPLED[role]], rollouts[role] = spent, pl.concat(frames)
        return Measured(costs, rollouts, pl.concat(targets))

    def _engine(self, role: Role, expected: Sequence[int]) -> CountingEngine:
        return CountingEngine(self.models[role], self.hardware, self.settings.rollouts.batch_sequences, expected)

    def _negatives(self, trajectories: pl.DataFrame) -> tuple[Cost, pl.DataFrame]:
        """Hard negatives, a sample as long as the gold answer's line; heuristic answers stand for the sampled ones."""
        settings, negatives = self.settings, self.settings.negatives
        texts = trajectories.select("question", "steps", "gold_answer").iter_rows()
        lines = {render_negative_prompt(question, steps, gold): f"{gold}\n" for question, steps, gold in texts}
        ids = piece_ids(self.models["labeler"].tokenizer, lines.values())
        engine = self._engine("labeler", [negatives.samples * len(ids[line]) for line in lines.values()])
        found = hard_negatives(trajectories, engine, negatives, settings.seed, comparison=settings.answers.comparison)
        return engine.cost(found.cost), found.negatives

    def _scores(self, trajectories: pl.DataFrame, negatives: pl.DataFrame) -> tuple[Cost, pl.DataFrame]:
        """The labeler's token trees (Eq. 3), and the tokens of the answers by context."""
        demand, labeler, device = self.settings.demand, self.models["labeler"], self.hardware.device
        scoring = self.settings.scoring.model_copy(update={"conditionings": demand.conditionings})
        tokens, scored = forward_tokens(
            trajectories,
            negatives,
            labeler.tokenizer,
            labeler.shape.context_length,
            scoring,
            device,
            contrasted=demand.negatives > 0,
        )
        rows = []
        for one in scored:
            gold, *others = (len(target) * len(one.prompts) for _, target in sorted(one.targets.items()))
            rows += [(one.trajectory_id, *context, gold, sum(others)) for context in one.contexts]
        targets = pl.DataFrame(rows, schema=TARGET_TOKENS, orient="row")
        seconds = self.hardware.seconds(labeler.shape, tokens, min(tokens_of(targets), tokens))
        return Cost(seconds, tokens), targets

    def _rollouts(
        self, trajectories: pl.DataFrame, role: Role, steps: Steps, made: pl.DataFrame | None
    ) -> tuple[Cost, pl.DataFrame]:
        """Completions of prefixes of at most `steps` steps (Eq. 1), each as long as the steps that remain."""
        settings, is_prover = self.settings.rollouts, role == "prover"
        count = settings.prover_count if is_prover else settings.policy_count
        solutions = trajectories.select("trajectory_id", "steps").rows()
        ids = piece_ids(self.models[role].tokenizer, (render_step(step) for _, own in solutions for step in own))
        sampled = {}
        if made is not None:
            sums = made.group_by("trajectory_id", "prefix_length").agg(pl.col("generated_tokens").sum())
            sampled = {(name, length): tokens for name, length, tokens in sums.iter_rows()}
        expected = []
        for name, own in solutions:
            sizes = [len(ids[render_step(step)]) for step in own]
            for length in range(0 if is_prover else 1, len(own[:steps]) + 1):
                expected.append(sampled.get((name, length), count * sum(sizes[length:])))
        engine, sampling, seed = self._engine(role, expected), settings.sampling, self.settings.seed
        portions = [Portion(0 if is_prover else 1, steps, 0, count)]
        frame, cost = prefix_rollouts(trajectories, engine, portions, sampling, seed, comparison=UNGRADED)
        return engine.cost(cost), frame
