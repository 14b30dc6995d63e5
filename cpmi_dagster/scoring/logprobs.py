"""Log-probability of gold answer and hard negatives under every context: the one stage that needs a model.

trajectories   t1, "How many ...?", ["48 / 2 = 24", "48 + 24 = 72"], gold "72"
negatives      t1, rank 1, "74"
-> logprobs    t1, template 0, prefix, step_index 1, answer_rank 0, logprob_sum -0.41, token_count 6, ...
   rejected    trajectories that cannot be scored, each with its reason
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from cpmi_dagster.contracts.cost import Cost, Stopwatch
from cpmi_dagster.contracts.tables import AnswerLogprobs, RejectedTrajectories
from cpmi_dagster.models.attention import layer_windows
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.admission import TokenizedTrajectory, Wanted, admit
from cpmi_dagster.scoring.readers.choice import check_full_attention
from cpmi_dagster.scoring.reference import token_logprobs, unpacked_scores
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.tree_scorer import TreeScorer
from cpmi_dagster.scoring.windows import Window, ahead, slices, trees_of

STAGE = "answer_logprobs"
KEY = AnswerLogprobs.primary_key()
Admit = Callable[[pl.DataFrame], tuple[list[TokenizedTrajectory], list[tuple[str, str]]]]
"""From trajectories to tokenized ones, and (trajectory_id, reason) of those that cannot be scored."""


@dataclass(frozen=True)
class ScoredAnswers:
    """Scored answers, rejected trajectories, and what the scoring cost.

    Attributes:
        logprobs: columns of `labels.answer_logprobs`, sorted by their key; every value finite.
        rejected: columns of `labels.rejected_trajectories`, sorted by trajectory.
        cost: wall time and tokens of the forward passes.
        values: all that was scored, values that are not finite too.
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
) -> ScoredAnswers:
    """Score every answer of every trajectory under the contexts that the conditionings need (Eq. 3).

    Trajectories are scored a window of whole questions at a time; the next window is prepared meanwhile. Their order,
    the windows and the length of rows change values by rounding only: 1e-5 nats a token in float32, 0.01 in
    float16, 0.05 in bfloat16.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.
        progress: called with the number of trajectories just finished, rejected ones included.
        wanted: what is scored; all by default. A trajectory of which nothing is wanted is not rejected either.
        contrasted: hard negatives are scored beside the gold answer, so that a trajectory without any is rejected.

    Raises:
        ModelError: the model cannot read token trees, or no trajectory fits its attention windows.
    """
    admit_part = partial(
        admit,
        negatives=negatives,
        tokenizer=model.tokenizer,
        context_length=model.context_length,
        scoring=scoring,
        wanted=wanted,
        contrasted=contrasted,
    )
    return admitted_logprobs(trajectories, admit_part, model, scoring, progress)


def admitted_logprobs(
    trajectories: pl.DataFrame,
    admit_part: Admit,
    model: LoadedModel,
    scoring: Scoring,
    progress: Callable[[int], None] | None = None,
) -> ScoredAnswers:
    """Score what is admitted of every window of trajectories, as `answer_logprobs` does.

    Args:
        admit_part: called with the trajectories of a window; what it returns has ids of its own choice.

    Raises:
        ModelError: as `answer_logprobs`.
    """
    if trajectories.is_empty():
        return scored_answers(AnswerLogprobs.create_empty(), (), Cost.zero())
    # the model reads a little before time counts: weights, kernels and how it reads trees take time once
    if scoring.scorer == "tree":
        scores = TreeScorer(model, scoring).scores
    else:
        token_logprobs(model, (0,), (0,))
        scores = partial(unpacked_scores, model)
    stopwatch = Stopwatch()
    advance = progress or (lambda _: None)
    rejected: list[tuple[str, str]] = []
    too_long: list[int] = []

    def admitted() -> Iterator[Window]:
        for window in ahead(_windows(trajectories, admit_part, model, scoring, too_long)):
            rejected.extend(window.refused)
            if window.trajectories:
                yield window
            else:
                advance(window.size)

    frames, forward_tokens = [AnswerLogprobs.create_empty()], 0
    for window in scores(admitted(), advance):
        frames.append(AnswerLogprobs.cast(window.logprobs.select(AnswerLogprobs.column_names())))
        forward_tokens += window.forward_tokens
    if too_long and len(frames) == 1:
        check_full_attention(model.model, max(too_long))
    return scored_answers(pl.concat(frames), rejected, stopwatch.cost(forward_tokens, generated_tokens=0))


def scored_answers(values: pl.DataFrame, rejected: Iterable[tuple[str, str]], cost: Cost) -> ScoredAnswers:
    """What was scored, without trajectories of which a value is not finite; these are rejected too.

    Args:
        values: columns of `labels.answer_logprobs`.
        rejected: (trajectory_id, reason) of the trajectories that were not scored.
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
    return ScoredAnswers(logprobs, _rejections(reasons), cost, values)


def refusals(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    contrasted: bool = True,
    of_steps: bool = False,
) -> pl.DataFrame:
    """What `answer_logprobs` rejects, or with `of_steps` `control_logprobs`, before the model reads a token.

    Args:
        trajectories, negatives, contrasted: as for `answer_logprobs`; steps are scored without negatives.

    Returns:
        Columns of `labels.rejected_trajectories`, sorted by trajectory.

    Raises:
        ModelError: no trajectory fits the model's attention windows.
    """
    fitting, rejected = admit(
        trajectories,
        negatives.clear() if of_steps else negatives,
        model.tokenizer,
        model.context_length,
        scoring,
        contrasted=contrasted and not of_steps,
        of_steps=of_steps,
    )
    too_long: list[int] = []
    fitting, refused = _seen_whole(fitting, model, scoring, too_long)
    if too_long and not fitting:
        check_full_attention(model.model, max(too_long))
    return _rejections([*rejected, *refused])


def _rejections(rejected: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Rows of `labels.rejected_trajectories`, each trajectory with its first reason."""
    reasons = [(trajectory_id, STAGE, reason) for trajectory_id, reason in rejected]
    frame = pl.DataFrame(reasons, RejectedTrajectories.create_empty().schema, orient="row")
    return frame.unique("trajectory_id", keep="first", maintain_order=True).sort("trajectory_id")


def _windows(
    trajectories: pl.DataFrame, admit_part: Admit, model: LoadedModel, scoring: Scoring, too_long: list[int]
) -> Iterator[Window]:
    """Windows of trees; `too_long` is that of `_seen_whole`."""
    for part in slices(trajectories):
        admitted, refused = admit_part(part)
        fitting, longer = _seen_whole(admitted, model, scoring, too_long)
        trees = trees_of(fitting) if scoring.scorer == "tree" else []
        yield Window(len(part), fitting, [*refused, *longer], trees)


def _seen_whole(
    trajectories: Sequence[TokenizedTrajectory], model: LoadedModel, scoring: Scoring, too_long: list[int]
) -> tuple[list[TokenizedTrajectory], list[tuple[str, str]]]:
    """Trajectories that every layer sees whole, if trees are read, and (trajectory_id, reason) of the others.

    Args:
        too_long: collects the lengths of the others' longest sequences, in tokens.
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
