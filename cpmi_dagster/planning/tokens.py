"""What each labeling stage reads and generates for some trajectories, counted without weights.

question of 120 tokens, steps of 30, 30, 20 tokens, the last of them states the answer; T = 8 completions

    prefix_length   prompt tokens   read   generated tokens (estimate)
    3               200             200    8 x 1       the end of the text
    2               180               1    8 x 20      the steps that remain; the rest was read with the longer prompt
    1               150               1    8 x 50

Prompts and token trees are tokenised as in a run; the length of sampled text is not known before, and is estimated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import polars as pl

from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.contracts.cost import in_proportion
from cpmi_dagster.generation.monte_carlo import prefixes_of
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.shared_beginnings import shared_beginnings
from cpmi_dagster.models.tokens import TokenIds, piece_ids, prompt_ids
from cpmi_dagster.planning.durations import Work
from cpmi_dagster.planning.shapes import PlannedModel
from cpmi_dagster.rewards.costs import TARGET_TOKENS
from cpmi_dagster.scoring.admission import TokenizedTrajectory
from cpmi_dagster.scoring.planned import forward_tokens
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_context, render_negative_prompt, render_step, render_target

PREFIX_TOKENS = {"trajectory_id": pl.String(), "prefix_length": pl.Int64(), "generated_tokens": pl.Int64()}

Trajectory = tuple[str, str, list[str], str]
PrefixTokens = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Prompt:
    """Tokens of a prompt, 0 where it leaves the model no room, and how many of them are read, not shared."""

    tokens: int
    read: int


@dataclass(frozen=True)
class Samples:
    """How text is sampled from each prompt.

    Attributes:
        count: continuations per prompt.
        sampling: for their most tokens.
        batch_sequences: continuations sampled at the same time.
    """

    count: int
    sampling: Sampling
    batch_sequences: int

    def estimate(self, prompt: Prompt, tokens: int) -> int:
        """Tokens of all continuations of a prompt, if each has `tokens`; 0 where there is no room."""
        return self.count * min(max(tokens, 1), self.sampling.max_new_tokens) if prompt.tokens else 0

    def work(self, prompts: Sequence[Prompt], generated: Sequence[int]) -> Work:
        """The model's part: what is read of every prompt, and every continuation token by token.

        Args:
            generated: tokens of all continuations of each.
        """
        return Work(
            read_tokens=sum(prompt.read for prompt in prompts),
            read_attended=sum(_attended(prompt.tokens) - _attended(prompt.tokens - prompt.read) for prompt in prompts),
            projected=sum(prompt.tokens > 0 for prompt in prompts),
            generated_tokens=sum(generated),
            # the n-th of a continuation's tokens attends to the prompt and n more
            generated_attended=sum(
                tokens * prompt.tokens + self.count * _attended(tokens // self.count)
                for prompt, tokens in zip(prompts, generated, strict=True)
            ),
            sequences=len(prompts) * self.count,
        )


def _attended(tokens: int) -> int:
    """Positions that a text's tokens attend to, themselves included."""
    return tokens * (tokens + 1) // 2


def scoring_work(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    model: PlannedModel,
    scoring: Scoring,
    device: Literal["cuda", "cpu"],
    contrasted: bool,
) -> tuple[Work, pl.DataFrame]:
    """The labeler's token trees (Eq. 3).

    No node attends to more than the longest sequence of its trajectory: attention is estimated by that bound, averaged
    over the trajectories. Projected are the distinct beginnings of the answers under every context.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.
        contrasted: hard negatives are scored beside the gold answer.

    Returns:
        The work, and the tokens of the answers by context, as `costs.target_tokens` has them.
    """
    context_length = model.shape.context_length
    tokens, scored = forward_tokens(
        trajectories, negatives, model.tokenizer, context_length, scoring, device, contrasted
    )
    rows = _rows(trajectories)
    texts = [render_context(question, steps) + render_target(gold) for _, question, steps, gold in rows]
    longest = sum(map(len, piece_ids(model.tokenizer, texts).values())) // max(len(texts), 1)
    answers = dict(negatives.group_by("trajectory_id").agg("answer").iter_rows())
    targets = [[render_target(answer) for answer in (gold, *answers.get(name, []))] for name, _, _, gold in rows]
    ids = piece_ids(model.tokenizer, chain.from_iterable(targets))
    projected = sum(
        len(contexts_of(scoring.conditionings, len(steps))) * _beginnings([ids[line] for line in lines])
        for (_, _, steps, _), lines in zip(rows, targets, strict=True)
    )
    return Work(tokens, tokens * longest, scoring.templates * projected), _target_tokens(scored)


def _target_tokens(scored: Sequence[TokenizedTrajectory]) -> pl.DataFrame:
    rows = []
    for one in scored:
        sizes = {rank: len(target) * len(one.prompts) for rank, target in one.targets.items()}
        gold = sizes.pop(0)
        rows += [(one.trajectory_id, *context, gold, sum(sizes.values())) for context in one.contexts]
    return pl.DataFrame(rows, schema=TARGET_TOKENS, orient="row")


def _beginnings(lines: Sequence[TokenIds]) -> int:
    """Distinct proper beginnings of the answer lines: each predicts the tokens that follow it."""
    return len({line[:length] for line in lines for length in range(len(line))})


def negatives_work(
    trajectories: pl.DataFrame, model: PlannedModel, samples: Samples, measured: int | None = None
) -> Work:
    """Sampling hard negatives: each distinct prompt once, a sample as long as the gold answer's line.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        measured: tokens that were generated for them, where they have been made.
    """
    if not samples.count:
        return Work()
    golds = {render_negative_prompt(question, steps, gold): gold for _, question, steps, gold in _rows(trajectories)}
    lines = piece_ids(model.tokenizer, (f"{gold}\n" for gold in golds.values()))
    prompts = read_prompts(model, list(golds), samples)
    sizes = (len(lines[f"{gold}\n"]) for gold in golds.values())
    generated = [samples.estimate(prompt, size) for prompt, size in zip(prompts, sizes, strict=True)]
    if measured is not None:
        generated = in_proportion(measured, generated)
    return samples.work(prompts, generated)


def rollouts_work(
    trajectories: pl.DataFrame,
    model: PlannedModel,
    samples: Samples,
    shortest: int,
    longest: int | None = None,
    measured: PrefixTokens | None = None,
) -> tuple[Work, pl.DataFrame]:
    """Prefixes of every trajectory, completed (Eq. 1); a continuation is as long as the steps that remain.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer; those of one call to the engine.
        shortest: steps of the shortest prefix: 0 completes the bare question too, as PAV's prover does.
        longest: steps of the longest prefix; all when None.
        measured: tokens that were generated, by trajectory and prefix length, where rollouts have been made.

    Returns:
        The work, and generated tokens by trajectory and prefix length.
    """
    prefixes = list(prefixes_of(trajectories, shortest, longest))
    keys = [(prefix.trajectory_id, len(prefix.steps)) for prefix in prefixes]
    prompts = read_prompts(model, [prefix.prompt for prefix in prefixes], samples)
    if measured is None:
        left = _remaining_tokens(trajectories, model)
        generated = [samples.estimate(prompt, left[key]) for prompt, key in zip(prompts, keys, strict=True)]
    else:
        generated = [measured.get(key, 0) for key in keys]
    rows = [(*key, tokens) for key, tokens in zip(keys, generated, strict=True)]
    return samples.work(prompts, generated), pl.DataFrame(rows, schema=PREFIX_TOKENS, orient="row")


def read_prompts(model: PlannedModel, prompts: Sequence[str], samples: Samples) -> list[Prompt]:
    """What the engine reads of prompts that are sampled from in one call.

    The engine of `transformers` reads the longest first and shared beginnings once; others report whole prompts.
    """
    room = model.shape.context_length - samples.sampling.max_new_tokens
    ids = prompt_ids(model.tokenizer, prompts)
    sizes = [len(tokens) if 0 < len(tokens) <= room else 0 for tokens in ids]
    read = _read_once(ids, sizes, samples) if model.shares_prompts else sizes
    return [Prompt(size, seen) for size, seen in zip(sizes, read, strict=True)]


def _read_once(ids: Sequence[TokenIds], sizes: Sequence[int], samples: Samples) -> list[int]:
    """Tokens read of each prompt, as `TransformersEngine` takes beginnings from prompts that it has read."""
    # samples beyond a batch read the same prompt again
    rounds = range(0, samples.count, samples.batch_sequences)
    starts = [number for number, size in enumerate(sizes) if size for _ in rounds]
    starts.sort(key=lambda number: -sizes[number])
    read = [0] * len(sizes)
    beginnings = shared_beginnings([ids[number] for number in starts], samples.batch_sequences * max(sizes, default=0))
    for number, beginning in zip(starts, beginnings, strict=True):
        read[number] += sizes[number] - (beginning.length if beginning else 0)
    return read


def _remaining_tokens(trajectories: pl.DataFrame, model: PlannedModel) -> dict[tuple[str, int], int]:
    """Tokens of the steps behind each prefix, by trajectory and prefix length."""
    rows = _rows(trajectories)
    ids = piece_ids(model.tokenizer, (render_step(step) for _, _, steps, _ in rows for step in steps))
    sizes = {name: [len(ids[render_step(step)]) for step in steps] for name, _, steps, _ in rows}
    return {(name, length): sum(own[length:]) for name, own in sizes.items() for length in range(len(own) + 1)}


def _rows(trajectories: pl.DataFrame) -> list[Trajectory]:
    return trajectories.select("trajectory_id", "question", "steps", "gold_answer").rows()
