"""A trajectory in pieces: rendered as texts, then as token ids, or rejected with a reason.

id "t1", steps ["48 / 2 = 24"], gold "72", negatives ["74"]

           rendered                                        tokenised
prompts    one per template, with the question             BOS, template with the question
steps      ("48 / 2 = 24\\n",)                              ((20, 17, ...),)
targets    {0: "The answer is: 72", 1: "The answer ...}    {0: (88, 402, ...), 1: (88, 402, ...)}
contexts   question, step/0, prefix/0
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import polars as pl

from cpmi_dagster.contracts.contexts import Context, before_each_step, contexts_of
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.models.tokens import TokenIds, check_boundaries, piece_ids, start_ids
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import ANSWER_PREFIX, LAYOUTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

GOLD_RANK = 0
NO_GOLD_ANSWER = (
    "has no gold answer; give it one, or name the field that has it (`fields: {gold_answer: FIELD}`) or references"
)
Piece = TypeVar("Piece", str, TokenIds)
Wanted = frozenset[tuple[int, Context, int]]
"""(template, context, answer rank) of a trajectory to score; the rank of a step is `GOLD_RANK`."""
ANY_ID = "{trajectory}"
"""Stands for the trajectory's id in a reason, which is kept for others with the same texts."""
Rejected = tuple[str, str]
"""trajectory_id, and the reason in one sentence, with `ANY_ID`."""


@dataclass(frozen=True)
class TrajectoryPieces(Generic[Piece]):
    """A trajectory in pieces, each a text or token ids.

    Attributes:
        prompts: question under each template; as token ids, after what the tokenizer puts before every text.
        steps: steps in order.
        targets: answer line by answer rank, 0 = gold.
        contexts: contexts under which answers are scored.
        first_template: template number of the first prompt.
        of_steps: the step that follows a context is scored in the place of answers.
    """

    trajectory_id: str
    prompts: tuple[Piece, ...]
    steps: tuple[Piece, ...]
    targets: Mapping[int, Piece]
    contexts: tuple[Context, ...]
    first_template: int = 0
    of_steps: bool = False

    def __iter__(self) -> Iterator[Piece]:
        """Every piece."""
        yield from (*self.prompts, *self.steps, *self.targets.values())

    def targets_under(self, context: Context) -> Mapping[int, Piece]:
        """Targets under a context, by rank."""
        return {GOLD_RANK: self.steps[context.step_index + 1]} if self.of_steps else self.targets

    def context_steps(self, context: Context) -> Iterator[Piece]:
        """The steps between question and answer under a context."""
        return (self.steps[step] for step in context.steps(len(self.steps)))

    @property
    def longest_sequence(self) -> int:
        """Length of the longest sequence of question, steps and answer, in tokens (of texts in characters)."""
        branches = (
            sum(map(len, self.context_steps(context))) + max(map(len, self.targets_under(context).values()))
            for context in self.contexts
        )
        return max(map(len, self.prompts)) + max(branches)


RenderedTrajectory = TrajectoryPieces[str]
TokenizedTrajectory = TrajectoryPieces[TokenIds]


class Tokenized(NamedTuple):
    """Tokenised trajectories in order, and the rejected ones.

    Attributes:
        split_otherwise: ids of trajectories whose joined text has other token ids than their pieces.
        too_long: tokens of the longest trajectory that no attention window holds; 0 if there is none.
    """

    trajectories: list[TokenizedTrajectory]
    rejected: list[Rejected]
    split_otherwise: list[str]
    too_long: int = 0


def join_negatives(trajectories: pl.DataFrame, negatives: pl.DataFrame) -> pl.DataFrame:
    """Trajectories as they are scored: the texts of each in one row.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.

    Returns:
        These four columns, and lists `rank` and `answer` of its hard negatives, null if it has none.
    """
    answers = negatives.sort("rank").group_by("trajectory_id", maintain_order=True).agg("rank", "answer")
    rows = trajectories.select("trajectory_id", "question", "steps", "gold_answer")
    return rows.join(answers, on="trajectory_id", how="left", maintain_order="left")


def render_trajectories(
    trajectories: pl.DataFrame, scoring: Scoring, with_negatives: bool = True, of_steps: bool = False
) -> tuple[list[RenderedTrajectory], list[Rejected]]:
    """Texts of complete trajectories in order, and the rejected ones.

    Args:
        trajectories: columns of `join_negatives`.
        with_negatives: hard negatives are scored too, so a trajectory without any is rejected.
        of_steps: each step is scored after the steps before it, and no answer is.
    """
    rendered: list[RenderedTrajectory] = []
    rejected: list[Rejected] = []
    for row in trajectories.iter_rows(named=True):
        try:
            rendered.append(_render(row, scoring, with_negatives and not of_steps, of_steps))
        except ScoringError as error:
            rejected.append((row["trajectory_id"], str(error)))
    return rendered, rejected


def _render(row: Mapping[str, Any], scoring: Scoring, with_negatives: bool, of_steps: bool) -> RenderedTrajectory:
    """The texts of a row.

    Raises:
        ScoringError: the row is not complete.
    """
    layout, steps = LAYOUTS[scoring.layout], row["steps"]
    answers = {GOLD_RANK: row["gold_answer"], **dict(zip(row["rank"] or (), row["answer"] or (), strict=True))}
    if row["gold_answer"] is None and not of_steps:
        raise ScoringError(f"trajectory `{ANY_ID}` {NO_GOLD_ANSWER}")
    if with_negatives and not row["rank"]:
        raise ScoringError(
            f"trajectory `{ANY_ID}` has no hard negatives to contrast its gold answer with: none was given, or every "
            "sample equals it"
        )
    return RenderedTrajectory(
        trajectory_id=row["trajectory_id"],
        prompts=tuple(layout.question(row["question"], template) for template in range(scoring.templates)),
        steps=tuple(layout.step(step, number) for number, step in enumerate(steps, start=1)),
        targets={} if of_steps else {rank: layout.target(answer) for rank, answer in answers.items()},
        contexts=before_each_step(len(steps)) if of_steps else contexts_of(scoring.conditionings, len(steps)),
        of_steps=of_steps,
    )


def tokenize_trajectories(
    rendered: Sequence[RenderedTrajectory],
    tokenizer: "PreTrainedTokenizerBase",
    context_length: int,
    layout: str,
) -> Tokenized:
    """Token ids of the pieces of trajectories, each tokenised alone.

    Args:
        context_length: most tokens that the labeler reads.
        layout: that they are rendered in.
    """
    without_answer = (ANSWER_PREFIX, LAYOUTS[layout].target(""))
    pieces = (piece for texts in rendered for piece in texts)
    ids, start = piece_ids(tokenizer, (*pieces, *without_answer)), start_ids(tokenizer)
    empty_targets = {(), *(ids[piece] for piece in without_answer)}
    tokenized = Tokenized([], [], [])
    for texts in rendered:
        tokens = TokenizedTrajectory(
            trajectory_id=texts.trajectory_id,
            prompts=tuple(start + ids[prompt] for prompt in texts.prompts),
            steps=tuple(ids[step] for step in texts.steps),
            targets={rank: ids[target] for rank, target in texts.targets.items()},
            contexts=texts.contexts,
            of_steps=texts.of_steps,
        )
        try:
            for rank, target in tokens.targets.items():
                if target in empty_targets:
                    answer = texts.targets[rank].removeprefix(without_answer[1])
                    raise ScoringError(f"{_answer_name(rank)} {answer!r} tokenises to nothing; give it another text")
            _check_length(tokens, context_length)
            # one text per trajectory: first template, all steps, gold answer
            whole = [texts.prompts[0], *texts.steps, *([] if texts.of_steps else [texts.targets[GOLD_RANK]])]
            is_split_alike = check_boundaries(tokenizer, whole, [ids[piece] for piece in whole])
        except ScoringError as error:
            tokenized.rejected.append((texts.trajectory_id, f"trajectory `{ANY_ID}`: {error}"))
        else:
            tokenized.trajectories.append(tokens)
            tokenized.split_otherwise.extend([] if is_split_alike else [texts.trajectory_id])
    return tokenized


def _answer_name(rank: int) -> str:
    return "the gold answer" if rank == GOLD_RANK else f"hard negative {rank}"


def _check_length(trajectory: TokenizedTrajectory, context_length: int) -> None:
    """Refuse a question without tokens, and more tokens than the model reads."""
    if not all(trajectory.prompts):
        raise ScoringError("its question tokenises to nothing; use a labeler whose tokenizer covers its text")
    if trajectory.longest_sequence > context_length:
        raise ScoringError(
            f"question, steps and answer are {trajectory.longest_sequence} tokens, more than the {context_length} the "
            "model reads; shorten it or use a model with a longer context"
        )


def split_wanted(trajectory: TokenizedTrajectory, wanted: Wanted) -> Iterator[TokenizedTrajectory]:
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
