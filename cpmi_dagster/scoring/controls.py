"""What the labeler reads for controls: the steps themselves, and CPMI's answers with one part exchanged.

    step_surprisal   log p(step i | question, steps before it)                   no answer
    other_gold       log p(gold answer of another question | question, step i)
    other_step       log p(answer | question, a step of another question's solution)

The other question is the next in an order that the seed decides, whatever the order of the rows; a trajectory takes the
gold answer of that question, and of its first trajectory the steps at the same relative places.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import uniform_number
from cpmi_dagster.contracts.tables import ControlLogprobs
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.logprobs import ScoredAnswers, answer_logprobs
from cpmi_dagster.scoring.settings import Scoring

CONTROL_KEY = ControlLogprobs.primary_key()


class ControlScores(NamedTuple):
    """Rows of `labels.control_logprobs`, what they cost, and a sentence on every trajectory without some."""

    logprobs: pl.DataFrame
    cost: Cost
    notes: list[str]


def control_logprobs(
    trajectories: pl.DataFrame,
    pool: pl.DataFrame,
    negatives: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    names: Sequence[str],
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> ControlScores:
    """Score what some controls are made of.

    Args:
        trajectories: columns trajectory_id, question_id, question, steps, gold_answer.
        pool: likewise, the trajectories that another question's gold answer and steps are taken from.
        negatives: columns of `labels.hard_negatives` of the trajectories.
        names: of `SCORED_CONTROLS`.
        seed: decides which other question a question is paired with.
        progress: called with the number of trajectories just finished, once whatever the number of controls.

    Raises:
        ModelError: as `answer_logprobs`.
    """
    frames, notes, cost = [ControlLogprobs.create_empty()], [], Cost.zero()
    for name in names:
        scored, lacking = _score(name, trajectories, pool, negatives, model, scoring, seed)
        frames.append(ControlLogprobs.cast(scored.logprobs.with_columns(control=pl.lit(name))))
        reasons = [*scored.rejected["trajectory_id", "reason"].iter_rows(), *lacking]
        notes += [f"{trajectory_id} has no `{name}`: {reason}" for trajectory_id, reason in reasons]
        cost += scored.cost
    if progress:
        progress(trajectories.height)
    return ControlScores(pl.concat(frames).sort(CONTROL_KEY), cost, notes)


def _score(
    name: str,
    trajectories: pl.DataFrame,
    pool: pl.DataFrame,
    negatives: pl.DataFrame,
    model: LoadedModel,
    scoring: Scoring,
    seed: int,
) -> tuple[ScoredAnswers, list[tuple[str, str]]]:
    if name == "step_surprisal":
        return answer_logprobs(trajectories, negatives.clear(), model, scoring, contrasted=False, of_steps=True), []
    if name == "other_gold":
        exchanged = with_other_gold(trajectories, pool, seed)
        scored = answer_logprobs(exchanged, negatives.clear(), model, scoring, contrasted=False)
    else:
        exchanged = with_other_steps(trajectories, pool, seed)
        alone = scoring.model_copy(update={"conditionings": ("marginal",)})
        scored = answer_logprobs(exchanged, negatives.join(exchanged, on="trajectory_id", how="semi"), model, alone)
    left = trajectories.join(exchanged, on="trajectory_id", how="anti")["trajectory_id"]
    return scored, [(trajectory_id, "its shard has no other question to take one from") for trajectory_id in left]


def with_other_gold(trajectories: pl.DataFrame, pool: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The trajectories with the gold answer of another question, which differs in its text from their own.

    Returns:
        Their columns; those for which there is no such question are left out.
    """
    order = _in_seeded_order(pool, seed)
    golds = {
        question: next((gold for _, gold, _ in chain(order[place + 1 :], order[:place]) if gold != own), None)
        for place, (question, own, _) in enumerate(order)
    }
    return _exchanged(trajectories, "gold_answer", [golds.get(name) for name in trajectories["question_id"]])


def with_other_steps(trajectories: pl.DataFrame, pool: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The trajectories with the steps of another question's solution, as many as their own.

    Returns:
        Their columns; those for which there is no other question are left out.
    """
    order = _in_seeded_order(pool, seed)
    following = {question: order[(place + 1) % len(order)] for place, (question, *_) in enumerate(order)}
    steps = [
        _spread(following[question][2], len(own)) if following[question][0] != question else None
        for question, own in trajectories["question_id", "steps"].iter_rows()
    ]
    return _exchanged(trajectories, "steps", steps)


def _in_seeded_order(pool: pl.DataFrame, seed: int) -> list[tuple[str, str, list[str]]]:
    """question_id, gold answer and the steps of the first trajectory of every question."""
    firsts = pool.sort("trajectory_id").unique("question_id", keep="first")
    rows = firsts.select("question_id", "gold_answer", "steps").rows()
    return sorted(rows, key=lambda row: (uniform_number(seed, [row[0]]), row[0]))


def _spread(steps: Sequence[str], count: int) -> list[str]:
    """`count` of the steps, at even places from the first to the last."""
    last = max(count - 1, 1)
    return [steps[round(place * (len(steps) - 1) / last)] for place in range(count)]


def _exchanged(trajectories: pl.DataFrame, column: str, values: Sequence[object]) -> pl.DataFrame:
    series = pl.Series(column, values, dtype=trajectories.schema[column])
    return trajectories.with_columns(series).drop_nulls(column)
