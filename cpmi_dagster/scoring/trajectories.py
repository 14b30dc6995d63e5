"""Score a frame of one's own trajectories: polars in, polars out.

>>> frame = pl.DataFrame({
...     "id": ["a"], "question": ["Ana has 48 shells and finds half as many. How many has she?"],
...     "steps": [["48 / 2 = 24", "48 + 24 = 72"]], "gold_answer": ["72"], "negative_answers": [["24", "74"]],
... })
>>> score_trajectories(frame, "miniature:labeler").scores
id  step_index  conditioning  template  gold_shift  negative_shift  cpmi
a            0  marginal             0         ...             ...   ...
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import ValidationError

from cpmi_dagster.errors import ScoringError, SettingsError
from cpmi_dagster.language_models import LoadedModel, load_language_model
from cpmi_dagster.scoring.conditionings import template_scores
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.settings import Conditioning, Scoring

INPUT_COLUMNS: dict[str, pl.DataType] = {
    "id": pl.String(),
    "question": pl.String(),
    "steps": pl.List(pl.String()),
    "gold_answer": pl.String(),
    "negative_answers": pl.List(pl.String()),
}


@dataclass(frozen=True)
class ScoredTrajectories:
    """Scores, the log-probabilities behind them, and what could not be scored.

    Attributes:
        scores: id, step_index, conditioning, template, gold_shift, negative_shift, cpmi (nats per token).
        logprobs: id, template, context, step_index, answer_rank (0 = gold), logprob_sum, token_count.
        rejected: id, stage, reason.
    """

    scores: pl.DataFrame
    logprobs: pl.DataFrame
    rejected: pl.DataFrame


def score_trajectories(
    trajectories: pl.DataFrame,
    model: str | Path | LoadedModel,
    *,
    conditionings: Sequence[Conditioning] = ("marginal", "incremental", "prefix"),
    templates: int = 4,
    scorer: Literal["tree", "reference"] = "tree",
    device: str = "auto",
    dtype: str = "auto",
    row_tokens: int = 1024,
    progress: Callable[[int], None] | None = None,
) -> ScoredTrajectories:
    """CPMI of every step of every trajectory (Eq. 3). A trajectory that cannot be scored never stops the others.

    Args:
        trajectories: id, question, steps (list), gold_answer, negative_answers (list, at least one, hardest or not).
        model: the labeler: local folder, hub id, `miniature:labeler`, or one that is loaded.
        conditionings: which steps stand between the question and the answer.
        templates: the first so many of the paper's four wordings.
        scorer: tree (packed) or reference (one sequence per context and answer; for models that cannot be packed).
        device: auto or a torch device; ignored for a loaded model.
        dtype: auto, float32, bfloat16 or float16; ignored for a loaded model.
        row_tokens: tokens of one packed row.
        progress: called with the number of trajectories just finished.

    Raises:
        ScoringError: a column is missing or of the wrong type, or an id is null or stands twice.
        SettingsError: an argument has a value that does not exist.
        ModelError: the model cannot be loaded, or cannot read token trees.
    """
    scoring = _settings(conditionings=tuple(conditionings), templates=templates, scorer=scorer, row_tokens=row_tokens)
    frame = _checked(trajectories)
    if not isinstance(model, LoadedModel):
        model = load_language_model(model, dtype=dtype, device=device)
    answers = answer_logprobs(frame, _negatives(frame), model, scoring, progress)
    scores = template_scores(answers.logprobs, scoring.conditionings)
    to_id = {"trajectory_id": "id"}
    return ScoredTrajectories(scores.rename(to_id), answers.logprobs.rename(to_id), answers.rejected.rename(to_id))


def _settings(**values: object) -> Scoring:
    try:
        return Scoring.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(f"`{first['loc'][0]}` is {first['input']!r}: {first['msg']}; change it") from error


def _checked(trajectories: pl.DataFrame) -> pl.DataFrame:
    """The input's columns with their types, `id` renamed, ids present and distinct."""
    missing = [name for name in INPUT_COLUMNS if name not in trajectories.columns]
    if missing:
        raise ScoringError(
            f"the trajectories lack the column `{missing[0]}`; give them the columns {', '.join(INPUT_COLUMNS)}"
        )
    frame = trajectories.select(_typed(trajectories, name) for name in INPUT_COLUMNS).with_row_index("row")
    nameless = frame.filter(pl.col("id").is_null())
    if not nameless.is_empty():
        raise ScoringError(f"row {nameless['row'][0]} (from 0) of the trajectories has no `id`; give it one")
    repeated = frame.filter(pl.col("id").is_duplicated())
    if not repeated.is_empty():
        rows = repeated.filter(pl.col("id") == repeated["id"][0])["row"].to_list()
        raise ScoringError(
            f"id `{repeated['id'][0]}` stands in rows {', '.join(map(str, rows))} (from 0); give each row its own"
        )
    return frame.drop("row").rename({"id": "trajectory_id"})


def _typed(trajectories: pl.DataFrame, name: str) -> pl.Expr:
    """The column in its type; integers pass as text in `id`, and all-null columns as what they should be."""
    given, wanted = trajectories.schema[name], INPUT_COLUMNS[name]
    empty_lists = wanted == pl.List and given == pl.List(pl.Null())
    fits = given in (wanted, pl.Null()) or empty_lists or (name == "id" and given.is_integer())
    if not fits:
        raise ScoringError(f"column `{name}` of the trajectories holds {given}, where {wanted} is needed; convert it")
    return pl.col(name).cast(wanted)


def _negatives(frame: pl.DataFrame) -> pl.DataFrame:
    """The listed negative answers as rows of `labels.hard_negatives`, ranked in their order."""
    listed = frame.filter(pl.col("negative_answers").list.len() > 0)
    return listed.select(
        "trajectory_id",
        rank=pl.int_ranges(1, pl.col("negative_answers").list.len() + 1),
        answer="negative_answers",
        source=pl.lit("given"),
    ).explode("rank", "answer")
