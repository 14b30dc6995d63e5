"""Log-probabilities and step values, asked of a model only if they are not kept (see `calls`).

kept_scores    labels.answer_logprobs     key: hashes of the text before an answer, and of the answer
kept_steps     hidden states, judgements   key: hash of a solution, its question and steps
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from cpmi_dagster.contracts.cost import Cost, Stopwatch
from cpmi_dagster.contracts.seeded import text_hash
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.files.time_left import Advance, unseen
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.resources.lake.calls import Calls, shares_of
from cpmi_dagster.scoring.logprobs import ScoredAnswers, answer_logprobs, refusals, scored_answers
from cpmi_dagster.scoring.questions import WORK, answer_questions, read_wanted, step_questions, trajectory_questions
from cpmi_dagster.scoring.settings import Scoring

SCORE_KEY = {"prompt": pl.UInt64(), "answer": pl.UInt64()}
SCORE = {"logprob_sum": pl.Float64(), "token_count": pl.Int64()}
ADMISSION_KEY, ADMISSION = {"whole": pl.UInt64()}, {"reason": pl.String()}
STEPS_KEY = {"solution": pl.UInt64()}
ROW = ["trajectory_id", "template", "context", "step_index", "answer_rank"]
NAMED = "{trajectory}"
"""Stands for the trajectory's id in a kept reason, since another trajectory may have the same texts."""


def kept_scores(
    scores: Calls,
    admissions: Calls,
    load: Callable[[], LoadedModel],
    trajectories: pl.DataFrame,
    negatives: pl.DataFrame,
    scoring: Scoring,
    contrasted: bool,
    of_steps: bool,
    advance: Advance,
) -> ScoredAnswers:
    """The result of `scoring.answer_logprobs`, from kept answers and the model; refusals are kept with their reasons.

    Args:
        scores: has `SCORE_KEY` and `SCORE`.
        admissions: has `ADMISSION_KEY` and `ADMISSION`.
        load: loads the labeler; called if an answer is not kept.
        contrasted, of_steps: see `answer_logprobs`.

    Returns:
        Its cost is that of all answers, kept ones too.
    """

    def admit(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
        chosen = trajectories.join(part, on="trajectory_id", how="semi", maintain_order="left")
        reasons = _remove_names(refusals(chosen, negatives, load(), scoring, contrasted, of_steps))
        return part.join(reasons, on="trajectory_id", how="left"), Cost.zero()

    def score(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
        chosen = trajectories.join(part, on="trajectory_id", how="semi", maintain_order="left")
        theirs = negatives.join(part, on="trajectory_id", how="semi")
        wanted = read_wanted(part)
        progress = shares_of(chosen.height, report)
        scored = answer_logprobs(
            chosen, theirs, load(), scoring, progress, wanted=wanted, contrasted=contrasted, of_steps=of_steps
        )
        return part.join(scored.values.select(*ROW, "logprob_sum", "token_count"), on=ROW), scored.cost

    wholes = trajectory_questions(trajectories, negatives, scoring)
    uncounted = replace(admissions, count=lambda kept, asked: None)  # `scores` counts the same trajectories
    admitted = uncounted.answers(wholes, admit, max(1, wholes.height))
    refused = _insert_names(admitted.filter(pl.col("reason").is_not_null()))
    fitting = trajectories.join(refused, on="trajectory_id", how="anti", maintain_order="left")
    ask = step_questions if of_steps else partial(answer_questions, negatives=negatives, contrasted=contrasted)
    questions = ask(fitting, scoring=scoring)
    # trajectories of a question stay adjacent, since they share a token tree
    asked = fitting.select("trajectory_id").join(questions, on="trajectory_id", maintain_order="left_right")
    advance(refused.height, left=float(asked[WORK].sum()))
    answered = scores.answers(
        asked,
        score,
        scoring.chunk_trajectories,
        by="trajectory_id",
        weight="token_count",
        advance=advance,
        growing=True,
        work=WORK,
    )
    values = AnswerLogprobs.cast(answered.select(AnswerLogprobs.column_names()))
    return scored_answers(values, refused.iter_rows(), scores.spent(answered))


def _remove_names(rejected: pl.DataFrame) -> pl.DataFrame:
    """Reasons with `NAMED` for the trajectory's id."""
    reasons = [reason.replace(name, NAMED) for name, reason in rejected.select("trajectory_id", "reason").iter_rows()]
    return rejected.select("trajectory_id", pl.Series("reason", reasons, pl.String))


def _insert_names(refused: pl.DataFrame) -> pl.DataFrame:
    """Reasons with the trajectory's id for `NAMED`."""
    names = [reason.replace(NAMED, name) for name, reason in refused.select("trajectory_id", "reason").iter_rows()]
    return refused.select("trajectory_id", pl.Series("reason", names, pl.String))


def kept_steps(
    calls: Calls,
    solutions: pl.DataFrame,
    column: str,
    read: Callable[[pl.DataFrame, Callable[[int], None]], pl.DataFrame],
    size: int,
    advance: Advance = unseen,
) -> pl.DataFrame:
    """A value for each step of each solution, such as a hidden state or a probability.

    Args:
        calls: has `STEPS_KEY`, and a column of lists, `values`.
        solutions: columns that identify a solution, and question and steps.
        column: name of the value.
        read: takes rows of `solutions`, and a callback of the number just read, 0 when the model is ready; gives the
            identifying columns, step_index and the value, a row per step.
        size: solutions per chunk, kept as one file.

    Returns:
        The identifying columns, step_index and the value, in the order of the solutions.
    """
    texts = solutions.select("question", "steps").iter_rows()
    hashes = [text_hash(question, *steps) for question, steps in texts]
    characters = pl.col("question").str.len_chars() + pl.col("steps").list.join("").str.len_chars()
    asked = solutions.with_columns(pl.Series("solution", hashes, pl.UInt64), characters.alias(WORK))
    names = solutions.drop("question", "steps").columns

    def ask(part: pl.DataFrame, report: Callable[[float], None]) -> tuple[pl.DataFrame, Cost]:
        watch = Stopwatch()
        progress = shares_of(part.height, report)
        lists = read(part.select(solutions.columns), progress).sort("step_index").group_by(names).agg(values=column)
        given = part.join(lists, on=names, how="left", nulls_equal=True)
        empty = pl.lit([], dtype=calls.answer["values"])
        return given.with_columns(pl.col("values").fill_null(empty)), watch.cost(0, 0)

    answered = calls.answers(asked, ask, size, advance=advance, growing=True, work=WORK)
    counted = answered.with_columns(step_index=pl.int_ranges(pl.col("values").list.len(), dtype=pl.Int64))
    rows = counted.filter(pl.col("values").list.len() > 0).explode("values", "step_index").rename({"values": column})
    return rows.select(*names, "step_index", column)


def step_values(kind: Any) -> Mapping[str, Any]:
    """The columns of an answer: a list with a value of a type for each step."""
    return {"values": pl.List(kind)}
