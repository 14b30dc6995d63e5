"""`cpmi score`: a file of trajectories in, Parquet files of scores out.

{"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 2"], "gold_answer": "2", "negative_answers": ["3"]}

Trajectories are scored in parts, which lie beside the output until all are done. A run that was killed, and is started
again with the same file, model and options, continues after the last of them.
"""

import json
import shutil
from collections.abc import Callable
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Any, Unpack

import polars as pl
from pydantic import BaseModel, ConfigDict, model_validator

from cpmi_dagster.errors import ScoringError, SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.file_states import file_digest
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.locks import locked_beside
from cpmi_dagster.files.text import FilledText, Identifier
from cpmi_dagster.files.whole_files import check_writable, whole_file
from cpmi_dagster.installed import own_version
from cpmi_dagster.models.language_models import model_identity, reading_identity
from cpmi_dagster.scoring.given_rows import INPUT_COLUMNS, GivenAnswer
from cpmi_dagster.scoring.trajectories import (
    ScoredTrajectories,
    ScoreOptions,
    check_trajectories,
    loaded_model,
    score_in_full,
)
from cpmi_dagster.trajectories.chats import QuestionText
from cpmi_dagster.trajectories.rows import with_steps

OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl")
PART_TRAJECTORIES = 64
HASH_CHARACTERS = 16
FRAMES = ("scores", "logprobs", "rejected")


class InputLine(BaseModel):
    """One line of the input, also a chat or a solution that is one text; other fields are ignored."""

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
        advance: called with the numbers of trajectories just finished and of all.
        options: see `ScoreOptions`.

    Raises:
        SourceError: the input is missing or a line of it is wrong; the message names the line. Or an output cannot be
            written, or another process scores into it, which is checked before anything is scored.
        ScoringError: no trajectory could be scored.
    """
    frame = read_trajectories(input)
    check_trajectories(frame)
    for path in (output, logprobs_output):
        if path is not None and path.suffix in OTHER_FORMATS:
            raise SourceError(f"the output {path} is written as Parquet; give it a name that ends in .parquet")
    check_writable(*(path for path in (output, logprobs_output) if path))
    identity = (model_identity(model, options.get("revision")), reading_identity(model))
    facts = {"input": file_digest(input), "model": identity, "version": own_version(), **options}
    key = sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:HASH_CHARACTERS]
    folder = output.with_name(f".{output.name}.{key}")
    options["progress"] = lambda count: advance(count, frame.height)
    with locked_beside(output, waits=False) as is_free:
        if not is_free:
            # it would remove the parts of this one
            raise SourceError(f"another process scores into {output}; wait until it has finished, or give another name")
        loaded, parts = None, []
        for number, rows in enumerate(frame.iter_slices(PART_TRAJECTORIES)):
            files = {name: folder / f"{number:06d}-{name}.parquet" for name in FRAMES}
            try:
                part = ScoredTrajectories(*map(pl.read_parquet, files.values()))
            except (FileNotFoundError, pl.exceptions.PolarsError):
                loaded = loaded or loaded_model(model, options)
                part = score_in_full(rows, loaded, **options)
                for name, file in files.items():
                    _write(getattr(part, name), file)
            else:
                advance(rows.height, frame.height)
            parts.append(part)
        result = ScoredTrajectories(*(pl.concat([getattr(part, name) for part in parts]) for name in FRAMES))
        if result.scores.is_empty():
            name, reason = result.rejected.select("id", "reason").row(0)
            raise ScoringError(f"none of the {frame.height} trajectories could be scored; the first, {name}: {reason}")
        _write(result.scores, output)
        if logprobs_output is not None:
            _write(result.logprobs, logprobs_output)
        # and the parts of runs with other options that never ended
        for unfinished in output.parent.glob(f".{escape(output.name)}.{'[0-9a-f]' * HASH_CHARACTERS}"):
            shutil.rmtree(unfinished, ignore_errors=True)
        return result


def _write(frame: pl.DataFrame, path: Path) -> None:
    with whole_file(path) as unfinished:
        frame.write_parquet(unfinished)


def read_trajectories(path: Path) -> pl.DataFrame:
    """The lines of a trajectory file as a frame for `score_trajectories`.

    Raises:
        SourceError: there is no such file, it has no lines, or a line is not of the form above.
    """
    lines = read_json_lines(path, InputLine, "id, question, steps and gold_answer")
    rows = [{**line.model_dump(), "id": str(line.id)} for _, line in lines]
    if not rows:
        raise SourceError(f"{path} has no lines; give JSON Lines with id, question, steps and gold_answer")
    return pl.DataFrame(rows, schema=INPUT_COLUMNS)
