"""`cpmi score`: a file of trajectories in, Parquet files of scores out.

{"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 2"], "gold_answer": "2", "negative_answers": ["3"]}

Trajectories are scored in parts, which lie beside the output until all are done. A run that was killed, and is started
again with the same file, model and options, continues after the last of them.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Unpack

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict

from cpmi_dagster.errors import ScoringError, SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.file_states import file_digest
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.locks import locked_beside
from cpmi_dagster.files.text import FilledText, Identifier, Text
from cpmi_dagster.files.whole_files import check_writable, whole_file
from cpmi_dagster.installed import own_version
from cpmi_dagster.models.language_models import model_identity, reading_identity
from cpmi_dagster.scoring.trajectories import (
    INPUT_COLUMNS,
    ScoredTrajectories,
    ScoreOptions,
    check_trajectories,
    loaded_model,
    score_in_full,
)
from cpmi_dagster.trajectories.forms import answer_text

OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl")
PART_TRAJECTORIES = 64
HASH_CHARACTERS = 16
FRAMES = ("scores", "logprobs", "rejected")


def _as_text(value: Any) -> Any:
    """Numbers as text, as in sources of trajectories; what a text must be is checked after."""
    return value if isinstance(value, str) else answer_text(value)


class InputLine(BaseModel):
    """One line of the input; other fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")

    id: Identifier
    question: Text
    steps: BoundedList[FilledText]
    gold_answer: Annotated[Text, BeforeValidator(_as_text)]
    negative_answers: BoundedList[Text] | None = None


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
    with _alone(output):
        parts = _Parts(output, {"input": file_digest(input), "model": identity, **options})
        result = _score_in_parts(frame, model, parts, advance, options)
        if result.scores.is_empty():
            name, reason = result.rejected.select("id", "reason").row(0)
            raise ScoringError(f"none of the {frame.height} trajectories could be scored; the first, {name}: {reason}")
        for path, rows in ((output, result.scores), (logprobs_output, result.logprobs)):
            if path is not None:
                with whole_file(path) as unfinished:
                    rows.write_parquet(unfinished)
        parts.remove()
        return result


@contextmanager
def _alone(output: Path) -> Iterator[None]:
    """Within the block no other process scores into the same file: it would remove this one's parts."""
    with locked_beside(output, waits=False) as is_free:
        if not is_free:
            raise SourceError(f"another process scores into {output}; wait until it has finished, or give another name")
        yield


def _score_in_parts(
    frame: pl.DataFrame, model: str, parts: "_Parts", advance: Callable[[int, int], None], options: ScoreOptions
) -> ScoredTrajectories:
    """Score what no finished part has; the model is loaded where there is something to score."""
    options["progress"] = lambda count: advance(count, frame.height)
    loaded, scored = None, []
    for number, rows in enumerate(frame.iter_slices(PART_TRAJECTORIES)):
        if (part := parts.read(number)) is not None:
            advance(rows.height, frame.height)
        else:
            loaded = loaded or loaded_model(model, options)
            part = score_in_full(rows, loaded, **options)
            parts.write(number, part)
        scored.append(part)
    return ScoredTrajectories(*(pl.concat([getattr(part, name) for part in scored]) for name in FRAMES))


class _Parts:
    """The finished parts of an unfinished file, in a folder beside it that is named by what they depend on."""

    def __init__(self, output: Path, facts: Mapping[str, Any]) -> None:
        text = json.dumps({**facts, "version": own_version()}, sort_keys=True, default=str)
        self._output = output
        self._folder = output.with_name(f".{output.name}.{sha256(text.encode()).hexdigest()[:HASH_CHARACTERS]}")

    def read(self, number: int) -> ScoredTrajectories | None:
        """A part; None where it is not finished."""
        try:
            return ScoredTrajectories(*(pl.read_parquet(self._file(number, name)) for name in FRAMES))
        except (FileNotFoundError, pl.exceptions.PolarsError):
            return None

    def write(self, number: int, part: ScoredTrajectories) -> None:
        """Keep a part."""
        for name in FRAMES:
            with whole_file(self._file(number, name)) as unfinished:
                getattr(part, name).write_parquet(unfinished)

    def remove(self) -> None:
        """Remove them all once the outputs are there, and those of runs with other options that never ended."""
        for folder in self._output.parent.glob(f".{escape(self._output.name)}.{'[0-9a-f]' * HASH_CHARACTERS}"):
            shutil.rmtree(folder, ignore_errors=True)

    def _file(self, number: int, name: str) -> Path:
        return self._folder / f"{number:06d}-{name}.parquet"


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
