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
from cpmi_dagster.scoring.admission import TokenizedTrajectory, Wanted, admit
from cpmi_dagster.scoring.answer_trees import Window, prefetch, slices, trees_of
from cpmi_dagster.scoring.scorers import scorer_of
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.tree_forward.probe import check_full_attention
from cpmi_dagster.tree_forward.row_readers import check_token_ids

STAGE = "answer_logprobs"
KEY = AnswerLogprobs.primary_key()
OTHERWISE = "warned of other tokens"
"""Key of `LoadedModel.remembered`."""
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
    wanted: Wanted | None = None,
    contrasted: bool = True,
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
        wanted: what to score; everything by default. If nothing is wanted of a trajectory, it is not rejected either.
        contrasted: hard negatives are scored too, so a trajectory without any is rejected.
        of_steps: instead of answers, each step is scored after the question and the steps before it.

    Raises:
        ModelError: the model cannot read token trees, no trajectory fits its attention windows, or its tokenizer is
            another model's.
    """
    if trajectories.is_empty():
        return scored_answers(AnswerLogprobs.create_empty(), (), Cost.zero())
    # before the stopwatch starts: loading kernels and choosing a reader take time once per model
    score = scorer_of(model, scoring)
    stopwatch = Stopwatch()
    advance = progress or (lambda _: None)
    advance(0)
    rejected: list[tuple[str, str]] = []
    too_long: list[int] = []

    def windows() -> Iterator[Window]:
        for part in slices(trajectories):
            admitted, refused = _admit(part, negatives, model, scoring, wanted, contrasted, of_steps)
            fitting, longer = _split_by_window(admitted, model, scoring, too_long)
            trees = trees_of(fitting) if scoring.scorer == "tree" else []
            yield Window(len(part), fitting, [*refused, *longer], trees)

    def with_some_admitted() -> Iterator[Window]:
        for window in prefetch(windows()):
            rejected.extend(window.refused)
            if window.trajectories:
                yield window
            else:
                advance(window.size)

    frames, forward_tokens = [AnswerLogprobs.create_empty()], 0
    for scored in score(with_some_admitted(), advance):
        frames.append(AnswerLogprobs.cast(scored.logprobs.select(AnswerLogprobs.column_names())))
        forward_tokens += scored.forward_tokens
    if too_long and len(frames) == 1:
        check_full_attention(model.model, max(too_long))
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


def scored_answers(values: pl.DataFrame, rejected: Iterable[tuple[str, str]], cost: Cost) -> ScoredAnswers:
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
                f"trajectory `{trajectory_id}`: the log-probability of an answer is {logprob}, not a finite number; "
                "score it in float32, or check the model's weights",
            )
            for trajectory_id, logprob in broken["trajectory_id", "logprob_sum"].iter_rows()
        ),
    ]
    logprobs = values.join(broken, on="trajectory_id", how="anti").sort(KEY)
    return ScoredAnswers(logprobs, _rejected_rows(reasons), cost, values)


def refusals(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    contrasted: bool = True,
    of_steps: bool = False,
) -> pl.DataFrame:
    """The trajectories that `answer_logprobs` rejects before a forward pass; the same arguments and errors.

    Returns:
        Columns of `labels.rejected_trajectories`, sorted by trajectory.
    """
    fitting, rejected = _admit(trajectories, negatives, model, scoring, None, contrasted, of_steps)
    too_long: list[int] = []
    fitting, refused = _split_by_window(fitting, model, scoring, too_long)
    if too_long and not fitting:
        check_full_attention(model.model, max(too_long))
    return _rejected_rows([*rejected, *refused])


def _admit(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    wanted: Wanted | None,
    contrasted: bool,
    of_steps: bool,
) -> tuple[list[TokenizedTrajectory], list[tuple[str, str]]]:
    admitted, rejected = admit(
        trajectories,
        negatives.clear() if of_steps else negatives,
        model.tokenizer,
        model.context_length,
        scoring,
        wanted,
        contrasted=contrasted and not of_steps,
        of_steps=of_steps,
    )
    for item in admitted:
        check_token_ids(model.model, model.identity, chain(*item.prompts, *item.steps, *item.targets.values()))
    otherwise = [item.trajectory_id for item in admitted if not item.as_whole]
    if otherwise and OTHERWISE not in model.remembered:
        model.remembered[OTHERWISE] = True
        logger.warning(
            "%s reads question, steps and answer of trajectory `%s` and %d more as other tokens than their joined "
            "text; scored are those of the pieces",
            model.identity,
            otherwise[0],
            len(otherwise) - 1,
        )
    return admitted, rejected


def _rejected_rows(rejected: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Rows of `labels.rejected_trajectories`; a trajectory keeps its first reason."""
    reasons = [(trajectory_id, STAGE, reason) for trajectory_id, reason in rejected]
    frame = pl.DataFrame(reasons, RejectedTrajectories.create_empty().schema, orient="row")
    return frame.unique("trajectory_id", keep="first", maintain_order=True).sort("trajectory_id")


def _split_by_window(
    trajectories: Sequence[TokenizedTrajectory], model: LoadedModel, scoring: Scoring, too_long: list[int]
) -> tuple[list[TokenizedTrajectory], list[tuple[str, str]]]:
    """Trajectories that fit every attention window, if trees are read, and (trajectory_id, reason) of the others.

    Args:
        too_long: collects the longest sequence of each of the others, in tokens.
    """
    windows = [window for window in layer_windows(model.model).values() if window is not None]
    limit = min(windows, default=model.context_length) if scoring.scorer == "tree" else model.context_length
    longer = [item for item in trajectories if item.longest_sequence > limit]
    too_long += [item.longest_sequence for item in longer]
    refused = [
        (
            item.trajectory_id,
            f"trajectory `{item.trajectory_id}`: question, steps and answer are {item.longest_sequence} "
            f"tokens, more than the {limit} that a layer of the model sees; shorten it, or score it with "
            "`--scorer reference`",
        )
        for item in longer
    ]
    return [item for item in trajectories if item.longest_sequence <= limit], refused
