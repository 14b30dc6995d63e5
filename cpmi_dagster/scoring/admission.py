"""Tokenise the trajectories that can be scored; the others get a reason.

id "t1", steps ["48 / 2 = 24"], gold "72", negatives ["74"]
-> prompts   one per template: BOS, template with the question
   steps     ((20, 17, ...),)
   targets   {0: ids of "The answer is: 72", 1: ids of "The answer is: 74"}
   contexts  question, step/0, prefix/0
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from cpmi_dagster.contracts.contexts import Context, before_each_step, contexts_of
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.models.tokens import TokenIds, check_boundaries, piece_ids, start_ids
from cpmi_dagster.scoring.settings import ScoredAlready, Scoring
from cpmi_dagster.trajectories.templates import ANSWER_PREFIX, LAYOUTS, Layout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

GOLD_RANK = 0


@dataclass(frozen=True)
class TokenizedTrajectory:
    """A trajectory as token ids.

    Attributes:
        trajectory_id: its id.
        prompts: question under each template, BOS included where the tokenizer adds one.
        steps: steps in order.
        targets: answer line by answer rank, 0 = gold.
        contexts: what the answers are scored under.
        first_template: of the prompts.
        of_steps: the step that follows a context is scored in the place of answers.
    """

    trajectory_id: str
    prompts: tuple[TokenIds, ...]
    steps: tuple[TokenIds, ...]
    targets: Mapping[int, TokenIds]
    contexts: tuple[Context, ...]
    first_template: int = 0
    of_steps: bool = False

    def targets_under(self, context: Context) -> Mapping[int, TokenIds]:
        """What is scored under a context, by rank."""
        return {GOLD_RANK: self.steps[context.step_index + 1]} if self.of_steps else self.targets

    def context_steps(self, context: Context) -> Iterator[TokenIds]:
        """The steps between question and answer under a context."""
        return (self.steps[step] for step in context.steps(len(self.steps)))

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest question, steps and answer that are scored."""
        branches = (
            sum(map(len, self.context_steps(context))) + max(map(len, self.targets_under(context).values()))
            for context in self.contexts
        )
        return max(map(len, self.prompts)) + max(branches)


def admit(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    tokenizer: "PreTrainedTokenizerBase",
    context_length: int,
    scoring: Scoring,
    scored: ScoredAlready | None = None,
    contrasted: bool = True,
    of_steps: bool = False,
) -> tuple[list[TokenizedTrajectory], list[tuple[str, str]]]:
    """Split trajectories into tokenised ones, in order, and pairs of (trajectory_id, reason).

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.
        context_length: tokens the labeler reads.
        scored: what is scored already; a trajectory that has nothing else is in neither list, one that has may be in
            parts of which each adds contexts, templates or answers.
        contrasted: hard negatives are scored beside the gold answer, so that a trajectory without any is rejected.
        of_steps: steps are scored, under all before them, and no answers.
    """
    rejected: list[tuple[str, str]] = []
    complete = []
    for row in _with_answers(trajectories, negatives).iter_rows(named=True):
        try:
            complete.append(_complete(row, contrasted))
        except ScoringError as error:
            rejected.append((row["trajectory_id"], str(error)))
    ids = piece_ids(tokenizer, (piece for row in complete for piece in _pieces(row, scoring)))
    start = start_ids(tokenizer)
    admitted = []
    for row in complete:
        try:
            tokenized = _tokenized(row, ids, start, scoring, context_length, of_steps)
            _check_text(row, ids, tokenizer, LAYOUTS[scoring.layout])
        except ScoringError as error:
            rejected.append((row["trajectory_id"], str(error)))
        else:
            admitted += [tokenized] if scored is None else _unscored(tokenized, scored)
    return admitted, rejected


def _unscored(trajectory: TokenizedTrajectory, scored: ScoredAlready) -> list[TokenizedTrajectory]:
    """The parts that are left: further contexts; under the others, further templates; under the others, answers."""
    known = set(contexts_of(scored.conditionings, len(trajectory.steps)))
    contexts = tuple(context for context in trajectory.contexts if context in known)
    further = tuple(context for context in trajectory.contexts if context not in known)
    last = len(trajectory.targets) if scored.negatives is None else scored.negatives
    targets = {rank: target for rank, target in trajectory.targets.items() if rank > last}
    parts = [
        replace(trajectory, contexts=further),
        replace(
            trajectory,
            contexts=contexts,
            prompts=trajectory.prompts[scored.templates :],
            first_template=scored.templates,
        ),
        replace(trajectory, contexts=contexts, prompts=trajectory.prompts[: scored.templates], targets=targets),
    ]
    return [part for part in parts if part.contexts and part.prompts and part.targets]


def _with_answers(trajectories: pl.DataFrame, negatives: pl.DataFrame) -> pl.DataFrame:
    answers = negatives.sort("rank").group_by("trajectory_id", maintain_order=True).agg("rank", "answer")
    texts = trajectories.select("trajectory_id", "question", "steps", "gold_answer")
    return texts.join(answers, on="trajectory_id", how="left", maintain_order="left")


def _complete(row: dict[str, Any], contrasted: bool) -> dict[str, Any]:
    """The row, if it has a question, steps, a gold answer and the negatives that are needed, all of them text."""
    name = f"trajectory `{row['trajectory_id']}`"
    if not (row["question"] or "").strip():
        raise ScoringError(f"{name} has no question; give it one")
    if not row["steps"]:
        raise ScoringError(f"{name} has no steps; give it at least one")
    if None in row["steps"]:
        raise ScoringError(f"{name}: step {row['steps'].index(None)} (from 0) is null; give its text")
    if not (row["gold_answer"] or "").strip():
        raise ScoringError(f"{name}: {_answer_name(GOLD_RANK)} is empty; give its text")
    if contrasted and not row["rank"]:
        raise ScoringError(
            f"{name} has no hard negatives to contrast its gold answer with: none was given, or every sample equals it"
        )
    for rank, answer in _answers(row).items():
        if not (answer or "").strip():
            raise ScoringError(f"{name}: {_answer_name(rank)} is empty; give its text")
    return row


def _answers(row: Mapping[str, Any]) -> dict[int, str]:
    return {GOLD_RANK: row["gold_answer"], **dict(zip(row["rank"] or (), row["answer"] or (), strict=True))}


def _answer_name(rank: int) -> str:
    return "the gold answer" if rank == GOLD_RANK else f"hard negative {rank}"


def _pieces(row: Mapping[str, Any], scoring: Scoring) -> Iterator[str]:
    layout = LAYOUTS[scoring.layout]
    yield from (layout.question(row["question"], template) for template in range(scoring.templates))
    yield from _steps(row, layout)
    yield from map(layout.target, _answers(row).values())
    yield from (ANSWER_PREFIX, layout.target(""))


def _steps(row: Mapping[str, Any], layout: Layout) -> list[str]:
    return [layout.step(step, number) for number, step in enumerate(row["steps"], start=1)]


def _check_text(
    row: Mapping[str, Any], ids: Mapping[str, TokenIds], tokenizer: "PreTrainedTokenizerBase", layout: Layout
) -> None:
    """One string a trajectory: first template, all steps, gold answer."""
    pieces = [layout.question(row["question"], 0), *_steps(row, layout), layout.target(row["gold_answer"])]
    try:
        check_boundaries(tokenizer, pieces, [ids[piece] for piece in pieces])
    except ScoringError as error:
        raise ScoringError(f"trajectory `{row['trajectory_id']}`: {error}") from error


def _tokenized(
    row: Mapping[str, Any],
    ids: Mapping[str, TokenIds],
    start: TokenIds,
    scoring: Scoring,
    context_length: int,
    of_steps: bool,
) -> TokenizedTrajectory:
    name, count, layout = f"trajectory `{row['trajectory_id']}`", len(row["steps"]), LAYOUTS[scoring.layout]
    tokenized = TokenizedTrajectory(
        trajectory_id=row["trajectory_id"],
        prompts=tuple(start + ids[layout.question(row["question"], template)] for template in range(scoring.templates)),
        steps=tuple(ids[step] for step in _steps(row, layout)),
        targets={rank: ids[layout.target(answer)] for rank, answer in _answers(row).items()},
        contexts=before_each_step(count) if of_steps else contexts_of(scoring.conditionings, count),
        of_steps=of_steps,
    )
    without_answer = {(), ids[ANSWER_PREFIX], ids[layout.target("")]}
    for rank, target in tokenized.targets.items():
        if target in without_answer:
            raise ScoringError(
                f"{name}: {_answer_name(rank)} {_answers(row)[rank]!r} tokenises to nothing; give it another text"
            )
    if not all(tokenized.prompts):
        raise ScoringError(f"{name}: its question tokenises to nothing; use a labeler whose tokenizer covers its text")
    if tokenized.longest_sequence > context_length:
        raise ScoringError(
            f"{name}: question, steps and answer are {tokenized.longest_sequence} tokens, more than the "
            f"{context_length} the model reads; shorten it or use a model with a longer context"
        )
    return tokenized
