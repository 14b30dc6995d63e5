"""`cpmi score`: a file of trajectories in, Parquet files of scores out.

{"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 2"], "gold_answer": "2", "negative_answers": ["3"]}
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError

from cpmi_dagster.errors import ScoringError, SourceError
from cpmi_dagster.scoring.trajectories import INPUT_COLUMNS, ScoredTrajectories, ScoreOptions, score_in_full
from cpmi_dagster.source_forms import Text
from cpmi_dagster.whole_files import whole_file


class InputLine(BaseModel):
    """One line of the input; other fields are let be."""

    model_config = ConfigDict(strict=True, extra="ignore")

    id: Text | int
    question: Text
    steps: list[Text]
    gold_answer: Text
    negative_answers: list[Text] | None = None


@dataclass(frozen=True)
class ScoreRequest:
    """What to score and where the results go."""

    model: str
    input: Path
    output: Path
    answer_logprobs: Path | None
    options: ScoreOptions


def score_file(request: ScoreRequest, progress: Callable[[int, int], None]) -> ScoredTrajectories:
    """Score a file; the output files appear whole or not at all.

    Args:
        request: model, files and options.
        progress: told the number of trajectories just finished, and of all.

    Raises:
        SourceError: the input is missing or a line of it is wrong; the message names the line. Or an output cannot be
            written, which is found out before anything is scored.
        ScoringError: no trajectory could be scored.
    """
    frame = read_trajectories(request.input)
    _check_writable(request.output, request.answer_logprobs)
    options: ScoreOptions = {**request.options, "progress": lambda count: progress(count, frame.height)}
    result = score_in_full(frame, request.model, **options)
    if result.scores.is_empty() and frame.height:
        name, reason = result.rejected.select("id", "reason").row(0)
        raise ScoringError(f"none of the {frame.height} trajectories could be scored; the first, {name}: {reason}")
    for path, rows in ((request.output, result.scores), (request.answer_logprobs, result.logprobs)):
        if path is not None:
            with whole_file(path) as unfinished:
                rows.write_parquet(unfinished)
    return result


def read_trajectories(path: Path) -> pl.DataFrame:
    """The lines of a trajectory file as a frame for `score_trajectories`.

    Raises:
        SourceError: there is no such file, or a line is not of the form above.
    """
    if not path.is_file():
        raise SourceError(f"there is no file {path}; give JSON Lines with id, question, steps and gold_answer")
    rows = [{**line.model_dump(), "id": str(line.id)} for line in _lines(path)]
    return pl.DataFrame(rows, schema=INPUT_COLUMNS)


def _check_writable(*paths: Path | None) -> None:
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise SourceError(f"the output {path} is a folder; give a file name")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise SourceError(f"the output {path} cannot be written ({error.strerror}); give another place") from error


def _lines(path: Path) -> Iterator[InputLine]:
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as stream:
        for number, text in enumerate(stream, start=1):
            if text.strip():
                yield _line(text, f"{path}, line {number}")


def _line(text: str, where: str) -> InputLine:
    try:
        row: Any = json.loads(text)
        return InputLine.model_validate(row)
    except RecursionError as error:
        raise SourceError(f"{where} is nested too deeply; mend or remove the line") from error
    except json.JSONDecodeError as error:
        raise SourceError(f"{where} is not JSON ({error.msg}); mend or remove the line") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the line"
        raise SourceError(f"{where}: `{field}`: {first['msg']}; mend or remove the line") from error
