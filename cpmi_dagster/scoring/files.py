"""`cpmi score`: reads a file of trajectories, writes Parquet files of scores.

{"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 2"], "gold_answer": "2", "negative_answers": ["3"]}
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

import polars as pl
from pydantic import BaseModel, ConfigDict, model_validator

from cpmi_dagster.errors import ScoringError, SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.text import FilledText, Identifier
from cpmi_dagster.files.whole_files import check_writable, whole_file
from cpmi_dagster.scoring.given_rows import INPUT_COLUMNS, GivenAnswer
from cpmi_dagster.scoring.trajectories import ScoredTrajectories, ScoreOptions, score_in_full
from cpmi_dagster.trajectories.chats import QuestionText
from cpmi_dagster.trajectories.rows import with_steps

OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl")


class InputLine(BaseModel):
    """A line of the input; a solution may also be a chat or one text. Other fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")

    id: Identifier
    question: QuestionText
    steps: BoundedList[FilledText]
    gold_answer: GivenAnswer
    negative_answers: BoundedList[GivenAnswer] | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_steps(cls, row: Any) -> Any:
        return with_steps(row) if isinstance(row, dict) else row


def score_file(
    model: str,
    input: Path,
    output: Path,
    logprobs_output: Path | None,
    advance: Callable[[int, int], None],
    **options: Unpack[ScoreOptions],
) -> ScoredTrajectories:
    """Score a file; the output files appear whole or not at all.

    Args:
        advance: called with the number of trajectories just finished and the number of all.
        options: see `ScoreOptions`.

    Raises:
        SourceError: the input is missing, a line is wrong (the message names it), or an output cannot be written;
            all checked before anything is scored.
        ScoringError: no trajectory could be scored.
    """
    frame = read_trajectories(input)
    outputs = [path for path in (output, logprobs_output) if path is not None]
    for path in outputs:
        if path.suffix in OTHER_FORMATS:
            raise SourceError(f"the output {path} is written as Parquet; give it a name that ends in .parquet")
    check_writable(*outputs)
    options["progress"] = lambda count: advance(count, frame.height)
    result = score_in_full(frame, model, **options)
    if result.scores.is_empty():
        name, reason = result.rejected.select("id", "reason").row(0)
        raise ScoringError(f"none of the {frame.height} trajectories could be scored; the first, {name}: {reason}")
    for path, rows in zip(outputs, (result.scores, result.logprobs), strict=False):
        with whole_file(path) as unfinished:
            rows.write_parquet(unfinished)
    return result


def read_trajectories(path: Path) -> pl.DataFrame:
    """Read a trajectory file as a frame for `score_trajectories`.

    Raises:
        SourceError: the file does not exist, has no lines, or has a wrong line.
    """
    lines = read_json_lines(path, InputLine, "id, question, steps and gold_answer")
    rows = [{**line.model_dump(), "id": str(line.id)} for _, line in lines]
    if not rows:
        raise SourceError(f"{path} has no lines; give JSON Lines with id, question, steps and gold_answer")
    return pl.DataFrame(rows, schema=INPUT_COLUMNS)
