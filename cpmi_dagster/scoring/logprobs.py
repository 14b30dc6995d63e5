"""Log-probabilities of gold answers and hard negatives under every context, by the labeler.

trajectories   t1, "How many ...?", ["48 / 2 = 24", "48 + 24 = 72"], gold "72"
negatives      t1, rank 1, "74"
-> logprobs    t1, template 0, prefix, step_index 1, answer_rank 0, logprob_sum -0.41, token_count 6, ...
   rejected    trajectories that cannot be scored, with reasons
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.contexts import SCORED_CONTROLS
from cpmi_dagster.contracts.cost import Cost, Stopwatch
from cpmi_dagster.contracts.tables import AnswerLogprobs, ControlLogprobs, HardNegatives, RejectedTrajectories
from cpmi_dagster.models.attention import layer_windows
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.answer_trees import Window, prefetch, slices, trees_of
from cpmi_dagster.scoring.scorers import scorer_of
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tokenization import (
    ANY_ID,
    Rejected,
    RenderedTrajectory,
    Tokenized,
    join_negatives,
    render_trajectories,
    tokenize_trajectories,
)
from cpmi_dagster.tree_forward.probe import check_full_attention
from cpmi_dagster.tree_forward.row_readers import check_token_ids

STAGE = "answer_logprobs"
KEY = AnswerLogprobs.primary_key()
OTHERWISE = "warned of other tokens"
"""Key of `LoadedModel.cache`."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredAnswers:
    """Scored answers, rejected trajectories and cost.

    Attributes:
        logprobs: columns of `labels.answer_logprobs`, sorted by key; all values are finite.
        rejected: columns of `labels.rejected_trajectories`, sorted by trajectory.
        cost: wall time and tokens of the forward passes.
        values: all scored rows, including those with values that are not finite.
    """

    logprobs: pl.DataFrame
    rejected: pl.DataFrame
    cost: Cost
    values: pl.DataFrame


def answer_logprobs(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    progress: Callable[[int], None] | None = None,
    with_negatives: bool = True,
    of_steps: bool = False,
) -> ScoredAnswers:
    """Score every answer of every trajectory under the contexts of the conditionings (Eq. 3).

    The order of trajectories and the length of rows change values by rounding only: 1e-5 nats per token in float32,
    0.01 in float16, 0.05 in bfloat16.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.
        progress: called with 0 when the model is ready, then with the number of trajectories just finished, rejected
            ones included.
        with_negatives: hard negatives are scored too, so a trajectory without any is rejected.
        of_steps: instead of answers, each step is scored after the question and the steps before it.

    Raises:
        ModelError: the model cannot read token trees, no trajectory fits its attention windows, or its tokenizer is
            another model's.
    """

    def batches() -> Iterator[tuple[int, Tokenized]]:
        for part in slices(join_negatives(trajectories, negatives)):
            rendered, incomplete = render_trajectories(part, scoring, with_negatives, of_steps)
            tokenized = tokenize(rendered, model, scoring)
            yield part.height, tokenized._replace(rejected=[*incomplete, *tokenized.rejected])

    if trajectories.is_empty():
        return scored_answers(AnswerLogprobs.create_empty(), (), Cost())
    return tokenized_logprobs(batches(), model, scoring, progress)


def tokenized_logprobs(
    batches: Iterable[tuple[int, Tokenized]],
    model: LoadedModel,
    scoring: Scoring,
    progress: Callable[[int], None] | None = None,
) -> ScoredAnswers:
    """Score trajectories that are tokenised batch by batch, while the model reads the batch before.

    Args:
        batches: each with the number of its trajectories, rejected ones included.
        progress: as for `answer_logprobs`, with the same errors.
    """
    # before the stopwatch starts: loading kernels and choosing a reader take time once per model
    score = scorer_of(model, scoring)
    stopwatch = Stopwatch()
    advance = progress or (lambda _: None)
    advance(0)
    rejected: list[Rejected] = []
    too_long = 0

    def windows() -> Iterator[tuple[Tokenized, Window]]:
        for size, tokenized in batches:
            trees = trees_of(tokenized.trajectories) if scoring.scorer == "tree" else []
            yield tokenized, Window(size, tokenized.trajectories, trees)

    def windows_to_score() -> Iterator[Window]:
        nonlocal too_long
        for tokenized, window in prefetch(windows()):
            rejected.extend(tokenized.rejected)
            too_long = max(too_long, tokenized.too_long)
            if window.trajectories:
                yield window
            else:
                advance(window.size)

    frames, forward_tokens = [AnswerLogprobs.create_empty()], 0
    for scored in score(windows_to_score(), advance):
        frames.append(AnswerLogprobs.cast(scored.logprobs.select(AnswerLogprobs.column_names())))
        forward_tokens += scored.forward_tokens
    if too_long and len(frames) == 1:
        check_full_attention(model.model, too_long)
    return scored_answers(pl.concat(frames), rejected, stopwatch.cost(forward_tokens, generated_tokens=0))


class ControlScores(NamedTuple):
    """Rows of `labels.control_logprobs`, their cost, and a sentence on every trajectory that has none."""

    logprobs: pl.DataFrame
    cost: Cost
    notes: list[str]

    @classmethod
    def of(cls, scored: ScoredAnswers) -> "ControlScores":
        """Convert rows that were scored with `of_steps`."""
        [control] = SCORED_CONTROLS
        logprobs = ControlLogprobs.cast(scored.logprobs.with_columns(control=pl.lit(control)))
        notes = [
            f"{trajectory_id} has no `{control}`: {reason}"
            for trajectory_id, reason in scored.rejected["trajectory_id", "reason"].iter_rows()
        ]
        return cls(logprobs.sort(ControlLogprobs.primary_key()), scored.cost, notes)


def control_logprobs(
    trajectories: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    progress: Callable[[int], None] | None = None,
) -> ControlScores:
    """log p(step i | question, steps before it), for step surprisal; arguments and errors as of `answer_logprobs`."""
    no_negatives = HardNegatives.create_empty()
    return ControlScores.of(answer_logprobs(trajectories, no_negatives, model, scoring, progress, of_steps=True))


def scored_answers(values: pl.DataFrame, rejected: Iterable[Rejected], cost: Cost) -> ScoredAnswers:
    """Reject trajectories with a value that is not finite.

    Args:
        values: columns of `labels.answer_logprobs`.
        rejected: (trajectory_id, reason) of trajectories that were rejected before.
    """
    broken = values.filter(~pl.col("logprob_sum").is_finite()).unique("trajectory_id", keep="first")
    reasons = [
        *rejected,
        *(
            (
                trajectory_id,
                f"trajectory `{ANY_ID}`: the log-probability of an answer is {logprob}, not a finite number; "
                "score it in float32, or check the model's weights",
            )
            for trajectory_id, logprob in broken["trajectory_id", "logprob_sum"].iter_rows()
        ),
    ]
    logprobs = values.join(broken, on="trajectory_id", how="anti").sort(KEY)
    return ScoredAnswers(logprobs, rejected_rows(reasons), cost, values)


def tokenize(rendered: Sequence[RenderedTrajectory], model: LoadedModel, scoring: Scoring) -> Tokenized:
    """Token ids of trajectories that the model can read; those that it cannot are rejected before a forward pass.

    Raises:
        ModelError: the tokenizer is another model's.
    """
    tokenized = tokenize_trajectories(rendered, model.tokenizer, model.context_length, scoring.layout)
    check_token_ids(model.model, model.identity, chain.from_iterable(chain.from_iterable(tokenized.trajectories)))
    if tokenized.split_otherwise and OTHERWISE not in model.cache:
        model.cache[OTHERWISE] = True
        logger.warning(
            "%s reads question, steps and answer of trajectory `%s` and %d more as other tokens than their joined "
            "text; scored are those of the pieces",
            model.identity,
            tokenized.split_otherwise[0],
            len(tokenized.split_otherwise) - 1,
        )
    return _reject_beyond_windows(tokenized, model, scoring)


def rejected_rows(rejected: Iterable[Rejected]) -> pl.DataFrame:
    """Rows of `labels.rejected_trajectories`; a trajectory keeps its first reason."""
    reasons = [(trajectory_id, STAGE, reason.replace(ANY_ID, trajectory_id)) for trajectory_id, reason in rejected]
    frame = pl.DataFrame(reasons, RejectedTrajectories.create_empty().schema, orient="row")
    return frame.unique("trajectory_id", keep="first", maintain_order=True).sort("trajectory_id")


def _reject_beyond_windows(tokenized: Tokenized, model: LoadedModel, scoring: Scoring) -> Tokenized:
    """If trees are read, reject trajectories that an attention window does not hold."""
    windows = [window for window in layer_windows(model.model).values() if window is not None]
    if scoring.scorer != "tree" or not windows:
        return tokenized
    limit = min(windows)
    lengths = [trajectory.longest_sequence for trajectory in tokenized.trajectories]
    longer = [
        (
            trajectory.trajectory_id,
            f"trajectory `{ANY_ID}`: question, steps and answer are {length} "
            f"tokens, more than the {limit} that a layer of the model sees; shorten it, or score it with "
            "`--scorer reference`",
        )
        for trajectory, length in zip(tokenized.trajectories, lengths, strict=True)
        if length > limit
    ]
    return tokenized._replace(
        trajectories=[each for each, length in zip(tokenized.trajectories, lengths, strict=True) if length <= limit],
        rejected=[*tokenized.rejected, *longer],
        too_long=max((length for length in lengths if length > limit), default=0),
    )
