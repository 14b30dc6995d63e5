"""Tokenise trajectories, or reject them with a reason.

id "t1", steps ["48 / 2 = 24"], gold "72", negatives ["74"]
-> prompts   one per template: BOS, template with the question
   steps     ((20, 17, ...),)
   targets   {0: ids of "The answer is: 72", 1: ids of "The answer is: 74"}
   contexts  question, step/0, prefix/0
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from cpmi_dagster.contracts.contexts import Context, before_each_step, contexts_of
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.models.tokens import TokenIds, check_boundaries, piece_ids, start_ids
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import ANSWER_PREFIX, LAYOUTS, Layout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

GOLD_RANK = 0
NO_GOLD_ANSWER = (
    "has no gold answer; give it one, or name the field that has it (`fields: {gold_answer: FIELD}`) or references"
)
Wanted = Mapping[str, frozenset[tuple[int, Context, int]]]
"""(template, context, answer rank) to score, by trajectory_id; the rank of a step is `GOLD_RANK`."""


@dataclass(frozen=True)
class TokenizedTrajectory:
    """A trajectory as token ids.

    Attributes:
        prompts: question under each template, after what the tokenizer puts before every text.
        steps: steps in order.
        targets: answer line by answer rank, 0 = gold.
        contexts: contexts under which answers are scored.
        first_template: template number of the first prompt.
        of_steps: the step that follows a context is scored in the place of answers.
        as_whole: the pieces have the token ids of the joined text.
    """

    trajectory_id: str
    prompts: tuple[TokenIds, ...]
    steps: tuple[TokenIds, ...]
    targets: Mapping[int, TokenIds]
    contexts: tuple[Context, ...]
    first_template: int = 0
    of_steps: bool = False
    as_whole: bool = True

    def targets_under(self, context: Context) -> Mapping[int, TokenIds]:
        """Target tokens under a context, by rank."""
        return {GOLD_RANK: self.steps[context.step_index + 1]} if self.of_steps else self.targets

    def context_steps(self, context: Context) -> Iterator[TokenIds]:
        """The steps between question and answer under a context."""
        return (self.steps[step] for step in context.steps(len(self.steps)))

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest sequence of question, steps and answer."""
        branches = (
            sum(map(len, self.context_steps(context))) + max(map(len, self.targets_under(context).values()))
            for context in self.contexts
        )
        return max(map(len, self.prompts)) + max(branches)


class LaidOut(NamedTuple):
    """The texts of a trajectory in a layout: the question under each template, answers and targets by rank."""

    trajectory_id: str
    questions: Sequence[str]
    steps: Sequence[str]
    answers: Mapping[int, str]
    targets: Mapping[int, str]


def admit(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    tokenizer: "PreTrainedTokenizerBase",
    context_length: int,
    scoring: Scoring,
    wanted: Wanted | None = None,
    contrasted: bool = True,
    of_steps: bool = False,
) -> tuple[list[TokenizedTrajectory], list[tuple[str, str]]]:
    """Tokenised trajectories in order, and (trajectory_id, reason) of the rejected ones.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.
        context_length: most tokens that the labeler reads.
        wanted: what to score; everything by default. A trajectory may be returned in several parts, each with some
            templates, contexts and answers; if nothing is wanted of it, it is in neither list.
        contrasted: hard negatives are scored too, so a trajectory without any is rejected.
        of_steps: each step is scored after the steps before it, and no answer is.
    """
    if wanted is not None:
        asked = pl.Series([name for name, some in wanted.items() if some], dtype=pl.String)
        trajectories = trajectories.filter(pl.col("trajectory_id").is_in(asked.implode()))
    complete, rejected = lay_out(trajectories, negatives, scoring, contrasted, of_steps)
    without_answer = (ANSWER_PREFIX, LAYOUTS[scoring.layout].target(""))
    pieces = (piece for texts in complete for piece in (*texts.questions, *texts.steps, *texts.targets.values()))
    ids, start = piece_ids(tokenizer, (*pieces, *without_answer)), start_ids(tokenizer)
    empty_targets = {(), *(ids[piece] for piece in without_answer)}
    admitted = []
    for texts in complete:
        count = len(texts.steps)
        tokenized = TokenizedTrajectory(
            trajectory_id=texts.trajectory_id,
            prompts=tuple(start + ids[question] for question in texts.questions),
            steps=tuple(ids[step] for step in texts.steps),
            targets={rank: ids[target] for rank, target in texts.targets.items()},
            contexts=before_each_step(count) if of_steps else contexts_of(scoring.conditionings, count),
            of_steps=of_steps,
        )
        try:
            _check_tokens(tokenized, texts, empty_targets, context_length)
            # one text per trajectory: first template, all steps, gold answer
            whole = [texts.questions[0], *texts.steps, *([] if of_steps else [texts.targets[GOLD_RANK]])]
            as_whole = check_boundaries(tokenizer, whole, [ids[piece] for piece in whole])
        except ScoringError as error:
            rejected.append((texts.trajectory_id, f"trajectory `{texts.trajectory_id}`: {error}"))
        else:
            tokenized = replace(tokenized, as_whole=as_whole)
            admitted += [tokenized] if wanted is None else _split_wanted(tokenized, wanted[texts.trajectory_id])
    return admitted, rejected


def lay_out(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    scoring: Scoring,
    contrasted: bool = True,
    of_steps: bool = False,
) -> tuple[list[LaidOut], list[tuple[str, str]]]:
    """Texts of complete trajectories in order, and (trajectory_id, reason) of the others; arguments as of `admit`."""
    answers = negatives.sort("rank").group_by("trajectory_id", maintain_order=True).agg("rank", "answer")
    rows = trajectories.select("trajectory_id", "question", "steps", "gold_answer")
    complete: list[LaidOut] = []
    rejected: list[tuple[str, str]] = []
    for row in rows.join(answers, on="trajectory_id", how="left", maintain_order="left").iter_rows(named=True):
        try:
            complete.append(_lay_out_row(row, LAYOUTS[scoring.layout], scoring.templates, contrasted, of_steps))
        except ScoringError as error:
            rejected.append((row["trajectory_id"], str(error)))
    return complete, rejected


def check_complete(row: Mapping[str, Any], answers: Mapping[int, str | None]) -> None:
    """Refuse a trajectory with a missing question, step or answer.

    Args:
        row: trajectory_id, question, steps.
        answers: by rank.

    Raises:
        ScoringError: the message names what is missing.
    """
    name, steps = f"trajectory `{row['trajectory_id']}`", row["steps"]
    if not (row["question"] or "").strip():
        raise ScoringError(f"{name} has no question; give it one")
    if not steps:
        raise ScoringError(f"{name} has no steps; give it at least one")
    if None in steps:
        raise ScoringError(f"{name}: step {steps.index(None) + 1} is null; give its text")
    if GOLD_RANK in answers and answers[GOLD_RANK] is None:
        raise ScoringError(f"{name} {NO_GOLD_ANSWER}")
    for rank, answer in answers.items():
        if not (answer or "").strip():
            raise ScoringError(f"{name}: {answer_name(rank)} is empty; give its text")


def _lay_out_row(row: Mapping[str, Any], layout: Layout, templates: int, contrasted: bool, of_steps: bool) -> LaidOut:
    """The texts of a row.

    Raises:
        ScoringError: the row is not complete.
    """
    name, question, steps = f"trajectory `{row['trajectory_id']}`", row["question"], row["steps"]
    answers = {GOLD_RANK: row["gold_answer"], **dict(zip(row["rank"] or (), row["answer"] or (), strict=True))}
    answers = {} if of_steps else answers
    check_complete(row, answers)
    if contrasted and not row["rank"]:
        raise ScoringError(
            f"{name} has no hard negatives to contrast its gold answer with: none was given, or every sample equals it"
        )
    return LaidOut(
        trajectory_id=row["trajectory_id"],
        questions=[layout.question(question, template) for template in range(templates)],
        steps=[layout.step(step, number) for number, step in enumerate(steps, start=1)],
        answers=answers,
        targets={rank: layout.target(answer) for rank, answer in answers.items()},
    )


def answer_name(rank: int) -> str:
    return "the gold answer" if rank == GOLD_RANK else f"hard negative {rank}"


def _check_tokens(
    trajectory: TokenizedTrajectory, texts: LaidOut, without_answer: set[TokenIds], context_length: int
) -> None:
    """Refuse texts without tokens, and more tokens than the model reads."""
    for rank, target in trajectory.targets.items():
        if target in without_answer:
            answer = f"{answer_name(rank)} {texts.answers[rank]!r}"
            raise ScoringError(f"{answer} tokenises to nothing; give it another text")
    if not all(trajectory.prompts):
        raise ScoringError("its question tokenises to nothing; use a labeler whose tokenizer covers its text")
    if trajectory.longest_sequence > context_length:
        raise ScoringError(
            f"question, steps and answer are {trajectory.longest_sequence} tokens, more than the {context_length} the "
            "model reads; shorten it or use a model with a longer context"
        )


def _split_wanted(
    trajectory: TokenizedTrajectory, wanted: frozenset[tuple[int, Context, int]]
) -> Iterator[TokenizedTrajectory]:
    """Split a trajectory into parts in which the same answers are wanted under all contexts and templates."""

    def ranks(template: int) -> dict[Context, tuple[int, ...]]:
        return {
            context: tuple(rank for rank in trajectory.targets or (GOLD_RANK,) if (template, context, rank) in wanted)
            for context in trajectory.contexts
        }

    for by_context, alike in groupby(range(len(trajectory.prompts)), key=ranks):
        first, *others = alike
        for answers in filter(None, dict.fromkeys(by_context.values())):
            yield replace(
                trajectory,
                prompts=trajectory.prompts[first : first + 1 + len(others)],
                first_template=first,
                contexts=tuple(context for context, wanted_ranks in by_context.items() if wanted_ranks == answers),
                targets={rank: target for rank, target in trajectory.targets.items() if rank in answers},
            )
