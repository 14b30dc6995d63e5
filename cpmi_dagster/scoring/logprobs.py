"""Log-probability of gold answer and hard negatives under every context: the one stage that needs a model.

trajectories   t1, "How many ...?", ["48 / 2 = 24", "48 + 24 = 72"], gold "72"
negatives      t1, rank 1, "74"
-> logprobs    t1, template 0, prefix, step_index 1, answer_rank 0, logprob_sum -0.41, token_count 6, ...
   rejected    trajectories that cannot be scored, each with its reason
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from cpmi_dagster.contracts.contexts import Conditioning, contexts_of
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import AnswerLogprobs, RejectedTrajectories
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.admission import TokenizedTrajectory, admit
from cpmi_dagster.scoring.attention import check_full_attention, narrowest_window
from cpmi_dagster.scoring.scored import Scored
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.scoring.windows import Window, ahead, slices, trees_of

STAGE = "answer_logprobs"
KEY = AnswerLogprobs.primary_key()


@dataclass(frozen=True)
class ScoredAnswers:
    """Answers scored, trajectories given up, and what it cost.

    Attributes:
        logprobs: columns of `labels.answer_logprobs`, sorted by their key; every value finite.
        rejected: columns of `labels.rejected_trajectories`, sorted by trajectory.
        cost: wall time and tokens of the forward passes.
    """

    logprobs: pl.DataFrame
    rejected: pl.DataFrame
    cost: Cost


def answer_logprobs(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    progress: Callable[[int], None] | None = None,
    known: Sequence[Conditioning] = (),
) -> ScoredAnswers:
    """Score every answer of every trajectory under the contexts that the conditionings need (Eq. 3).

    Trajectories are taken question by question, a window at a time, the next window made ready meanwhile. Neither their
    order nor the windows nor the length of rows change a value beyond rounding: 1e-5 nats in float32, 0.01 nats a token
    in float16, 0.05 in bfloat16.

    Args:
        trajectories: columns trajectory_id, question, steps, gold_answer.
        negatives: columns of `labels.hard_negatives`.
        model: the labeler.
        scoring: templates, conditionings, scorer, tokens of a row.
        progress: called with the number of trajectories just finished, rejected ones included.
        known: conditionings whose contexts are scored already; only what the others add is computed.

    Raises:
        ModelError: the model cannot read token trees, or sees no trajectory whole.
    """
    started = time.perf_counter()
    frames: list[pl.DataFrame] = [AnswerLogprobs.create_empty()]
    rejected: list[tuple[str, str]] = []
    forward_tokens = 0
    advance = progress or (lambda _: None)
    beyond: list[int] = []
    windows = _admitted(ahead(_windows(trajectories, negatives, model, scoring, known, beyond)), rejected, advance)
    for scored in _scores(model, windows, scoring, advance):
        finite, broken = _split_finite(scored.logprobs)
        frames.append(finite)
        rejected += broken
        forward_tokens += scored.forward_tokens
    if beyond and len(frames) == 1:
        check_full_attention(model.model, max(beyond))
    return ScoredAnswers(
        logprobs=pl.concat(frames).sort(KEY),
        rejected=_rejections(rejected),
        cost=Cost(time.perf_counter() - started, forward_tokens, generated_tokens=0),
    )


def joined(before: ScoredAnswers, added: ScoredAnswers, trajectories: pl.DataFrame, scoring: Scoring) -> ScoredAnswers:
    """What was scored under the contexts of some conditionings, with the contexts that others added.

    Args:
        before: scored under contexts of which some may not be needed any more.
        added: scored with the conditionings of `before` as `known`.
        trajectories: columns trajectory_id, steps.
        scoring: the conditionings that are needed now.
    """
    rejected = pl.concat([before.rejected, added.rejected]).unique("trajectory_id", keep="first").sort("trajectory_id")
    sizes = trajectories.select("trajectory_id", size=pl.col("steps").list.len().cast(pl.Int64))
    needed = [
        (size, *context) for size in sizes["size"].unique() for context in contexts_of(scoring.conditionings, size)
    ]
    schema = {"size": pl.Int64(), **{name: before.logprobs.schema[name] for name in ("context", "step_index")}}
    wanted = sizes.join(pl.DataFrame(needed, schema=schema, orient="row"), on="size")
    logprobs = pl.concat([before.logprobs, added.logprobs])
    return ScoredAnswers(
        logprobs=logprobs.join(wanted, on=["trajectory_id", "context", "step_index"], how="semi")
        .join(rejected, on="trajectory_id", how="anti")
        .sort(KEY),
        rejected=rejected,
        cost=before.cost + added.cost,
    )


def _windows(
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    known: Sequence[Conditioning],
    beyond: list[int],
) -> Iterator[Window]:
    """Windows as they are read; `beyond` collects the lengths of branches that the model's layers do not see whole."""
    for part in slices(trajectories):
        admitted, refused = admit(part, negatives, model.tokenizer, model.context_length, scoring, known)
        if scoring.scorer == "reference":
            yield Window(len(part), admitted, refused, [])
            continue
        limit = narrowest_window(model.model)
        seen = [item for item in admitted if limit is None or item.longest_sequence <= limit]
        unseen = [item for item in admitted if limit is not None and item.longest_sequence > limit]
        beyond += [item.longest_sequence for item in unseen]
        reasons = [(item.trajectory_id, _beyond_window(item, limit)) for item in unseen]
        yield Window(len(part), seen, [*refused, *reasons], trees_of(seen))


def _beyond_window(trajectory: TokenizedTrajectory, limit: int | None) -> str:
    return (
        f"trajectory `{trajectory.trajectory_id}`: question, steps and answer are {trajectory.longest_sequence} tokens"
        f", more than the {limit} that a layer of the model sees; shorten it, or score it with `--scorer reference`"
    )


def _admitted(
    windows: Iterable[Window], rejected: list[tuple[str, str]], advance: Callable[[int], None]
) -> Iterator[Window]:
    """Windows with something to score; what they refused goes to `rejected`."""
    for window in windows:
        rejected += window.refused
        if window.trajectories:
            yield window
        else:
            advance(window.size)


def _scores(
    model: LoadedModel, windows: Iterable[Window], scoring: Scoring, advance: Callable[[int], None]
) -> Iterator[Scored]:
    """Tree or reference, whichever the settings name; both are imported only when used, for they load torch."""
    if scoring.scorer == "tree":
        from cpmi_dagster.scoring.tree_scorer import TreeScorer

        yield from TreeScorer(model, scoring).scores(windows, advance)
        return
    from cpmi_dagster.scoring.reference import score_unpacked

    for window in windows:
        yield score_unpacked(model, window.trajectories)
        advance(window.size)


def _split_finite(logprobs: pl.DataFrame) -> tuple[pl.DataFrame, list[tuple[str, str]]]:
    """Rows of trajectories whose values are all finite, and (trajectory_id, reason) of the others."""
    logprobs = AnswerLogprobs.cast(logprobs.select(AnswerLogprobs.column_names())).sort(KEY)
    broken = logprobs.filter(~pl.col("logprob_sum").is_finite()).unique("trajectory_id", keep="first")
    reasons = [
        (
            trajectory_id,
            f"trajectory `{trajectory_id}`: the log-probability of an answer is {logprob}, not a finite number; "
            "score it in float32, or check the model's weights",
        )
        for trajectory_id, logprob in broken["trajectory_id", "logprob_sum"].iter_rows()
    ]
    return logprobs.join(broken, on="trajectory_id", how="anti"), reasons


def _rejections(rejected: Sequence[tuple[str, str]]) -> pl.DataFrame:
    rows = [(trajectory_id, STAGE, reason) for trajectory_id, reason in rejected]
    schema = {name: column.dtype for name, column in RejectedTrajectories.columns().items()}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("trajectory_id")
