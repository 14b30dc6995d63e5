"""What the labeler reads for controls: the steps themselves, and CPMI's answers with one part exchanged.

    step_surprisal      log p(step i | question, steps before it)                   no answer
    other_gold          log p(gold answer of another question | question, step i)
    other_step          log p(answer | question, a step of another question's solution)
    question_negatives  log p(answer | question, step i), wrong ones sampled from the question alone
    judge_token         log p(correct | question, steps to i, is the last one correct?), and of incorrect
    answer_distribution E log p(token | question, steps to i, The answer is: ), drawn by the labeler, or uniformly

The other question is the next in an order that the seed decides, whatever the order of the rows; a trajectory takes the
gold answer of that question, and of its first trajectory the steps at the same relative places. All controls are in
one tree a question, so what they share is read once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import polars as pl

from cpmi_dagster.contracts.contexts import ANSWER, JUDGE
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import uniform_number
from cpmi_dagster.contracts.tables import ControlLogprobs, HardNegatives
from cpmi_dagster.models.draws import OWN_DRAW, UNIFORM_DRAW
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.tokens import TokenIds, piece_ids
from cpmi_dagster.scoring.admission import TokenizedTrajectory, admit
from cpmi_dagster.scoring.logprobs import admitted_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import LAYOUTS, VERDICTS

CONTROL_KEY = ControlLogprobs.primary_key()
SEPARATOR = ":"
"""Between a control and a trajectory's id; no control has it in its name."""
READ_AS: dict[str, dict[str, object]] = {
    "other_step": {"conditionings": ("marginal",)},
    JUDGE: {"conditionings": ("prefix",), "layout": "judge", "templates": 1},
    ANSWER: {"conditionings": ("prefix",)},
}
"""What a control is read under, where that is not as the profile says."""


Exchange = Callable[[pl.DataFrame, pl.DataFrame, int], pl.DataFrame]
"""Trajectories, the pool and a seed -> the trajectories with a part exchanged."""


class ControlScores(NamedTuple):
    """Rows of `labels.control_logprobs`, what they cost, and a sentence on every trajectory without some."""

    logprobs: pl.DataFrame
    cost: Cost
    notes: list[str]


def control_logprobs(
    trajectories: pl.DataFrame,
    pool: pl.DataFrame,
    negatives: Mapping[str, pl.DataFrame],
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
        negatives: by control that has them, columns of `labels.hard_negatives` of the trajectories.
        names: of `SCORED_CONTROLS`.
        seed: decides which other question a question is paired with.
        progress: called with the number of trajectories just finished.

    Raises:
        ModelError: as `answer_logprobs`.
    """
    exchange: dict[str, Exchange] = {"other_gold": with_other_gold, "other_step": with_other_steps}
    if JUDGE in names:
        correct, incorrect = VERDICTS
        wrong = trajectories.select("trajectory_id", rank=pl.lit(1, pl.Int64), answer=pl.lit(incorrect))
        negatives = {**negatives, JUDGE: wrong}
        exchange[JUDGE] = lambda rows, _pool, _seed: rows.with_columns(gold_answer=pl.lit(correct))
    exchanged = {name: exchange[name](trajectories, pool, seed) if name in exchange else trajectories for name in names}
    admit_part = partial(_admit, exchanged=exchanged, negatives=negatives, model=model, scoring=scoring)
    scored = admitted_logprobs(trajectories, admit_part, model, scoring, progress)
    key = pl.col("trajectory_id").str.splitn(SEPARATOR, 2)
    by_control = key.struct.field("field_0").alias("control"), key.struct.field("field_1").alias("trajectory_id")
    logprobs = ControlLogprobs.cast(scored.logprobs.with_columns(*by_control))
    notes = [
        f"{trajectory_id} has no `{name}`: its shard has no other question to take one from"
        for name, own in exchanged.items()
        for trajectory_id in trajectories.join(own, on="trajectory_id", how="anti")["trajectory_id"]
    ]
    for named, reason in scored.rejected["trajectory_id", "reason"].iter_rows():
        name, _, trajectory_id = named.partition(SEPARATOR)
        notes.append(f"{trajectory_id} has no `{name}`: {reason.replace(named, trajectory_id)}")
    return ControlScores(logprobs.sort(CONTROL_KEY), scored.cost, notes)


def _admit(
    part: pl.DataFrame,
    exchanged: Mapping[str, pl.DataFrame],
    negatives: Mapping[str, pl.DataFrame],
    model: LoadedModel,
    scoring: Scoring,
) -> tuple[list[TokenizedTrajectory], list[tuple[str, str]]]:
    """What each control reads of some trajectories; ids have the control's name before them."""
    admitted: list[TokenizedTrajectory] = []
    refused: list[tuple[str, str]] = []
    for name, own in exchanged.items():
        contrasted = name in negatives
        fitting, others = admit(
            own.join(part, on="trajectory_id", how="semi"),
            negatives[name] if contrasted else HardNegatives.create_empty(),
            model.tokenizer,
            model.context_length,
            scoring.model_copy(update=READ_AS.get(name, {})),
            contrasted=contrasted,
            of_steps=name == "step_surprisal",
        )
        if name == ANSWER:
            draws = _draws(model, scoring)
            fitting = [replace(item, targets=draws) for item in fitting]
        admitted += [replace(item, trajectory_id=f"{name}{SEPARATOR}{item.trajectory_id}") for item in fitting]
        refused += [(f"{name}{SEPARATOR}{trajectory_id}", reason) for trajectory_id, reason in others]
    return admitted, refused


def _draws(model: LoadedModel, scoring: Scoring) -> dict[int, TokenIds]:
    """By rank, what comes before an answer, and that with a drawn token; the first is left out where it is empty."""
    cue = LAYOUTS[scoring.layout].target("")
    ids = piece_ids(model.tokenizer, [cue])[cue]
    return {rank: target for rank, target in enumerate((ids, (*ids, OWN_DRAW), (*ids, UNIFORM_DRAW))) if target}


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
    exchanged = []
    for question, own in trajectories["question_id", "steps"].iter_rows():
        other, _, steps = following[question]
        # as many as their own, at even places from the first to the last
        places = (place * (len(steps) - 1) / max(len(own) - 1, 1) for place in range(len(own)))
        exchanged.append(None if other == question else [steps[round(place)] for place in places])
    return _exchanged(trajectories, "steps", exchanged)


def _in_seeded_order(pool: pl.DataFrame, seed: int) -> list[tuple[str, str, list[str]]]:
    """question_id, gold answer and the steps of the first trajectory of every question."""
    firsts = pool.sort("trajectory_id").unique("question_id", keep="first")
    rows = firsts.select("question_id", "gold_answer", "steps").rows()
    return sorted(rows, key=lambda row: (uniform_number(seed, [row[0]]), row[0]))


def _exchanged(trajectories: pl.DataFrame, column: str, values: Sequence[object]) -> pl.DataFrame:
    series = pl.Series(column, values, dtype=trajectories.schema[column])
    return trajectories.with_columns(series).drop_nulls(column)
