"""`cpmi judge` as a filter: solutions come on a stream, and each leaves it judged as soon as it can.

    {"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 3."]} -> {"id": "a", "probabilities": [0.31], "first_error": 0}
    not JSON                                                   -> {"id": null, …, "reason": "line 2 is not JSON …"}

What has come while others were judged is judged together: a slow sender waits for no other line, a fast one has
batches.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from io import TextIOWrapper
from queue import Empty, Queue
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, TextIO

from cpmi_dagster.errors import RepeatedField, SourceError
from cpmi_dagster.files.bounded_reading import DEFAULT_LIMITS, bounded_lines
from cpmi_dagster.files.json_lines import DECODER, open_json_lines, parse_line
from cpmi_dagster.files.whole_files import check_writable, write_whole
from cpmi_dagster.prm.judging import (
    EXPECTED_FIELDS,
    STANDARD,
    JudgedFile,
    JudgeRequest,
    Solution,
    judged_file,
    judged_line,
    judged_rows,
)

if TYPE_CHECKING:
    from cpmi_dagster.prm.model import LoadedRewardModel

GZIP = "\x1f\udc8b"
"""How compressed bytes begin when read with `surrogateescape`."""
AT_ONCE = 256
WAITING = 4 * AT_ONCE


Row = dict[str, Any]
"""A row of the output."""
Read = Solution | Row | BaseException | None
"""A solution, the row of a line that is none, an error of the stream, or its end."""


def judge_as_filter(request: JudgeRequest, given: IO[str], taken: IO[str]) -> JudgedFile:
    """Judge where the input, the output or both are standard ones; a file that is written appears whole.

    Args:
        given: standard input, from `as_utf8`.
        taken: standard output, likewise.

    Raises:
        SourceError: the input is missing or damaged, or the output cannot be written.
        ModelError: there is no reward model, its form is not known, or the device is not there.
        ScoringError: a score is not a finite number.
    """
    reads, writes = str(request.input) == STANDARD, str(request.output) == STANDARD
    lines: list[str] = []

    def write(line: str) -> None:
        taken.write(line)
        taken.flush()

    from cpmi_dagster.prm.judge_models import load_judge

    with nullcontext(given) if reads else open_json_lines(request.input, EXPECTED_FIELDS) as stream:
        if not writes:
            check_writable(request.output)
        model = load_judge(request.prm, request.device, request.dtype, request.form, request.revision)
        done = judge_stream(model, stream, write if writes else lines.append, request.threshold)
    if not writes:
        write_whole(request.output, "".join(lines))
    return done


def as_utf8(stream: TextIO) -> TextIO:
    """A standard stream that is UTF-8 like a file, whatever the locale; a byte that is not rejects its line alone."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    return stream


def judge_stream(
    model: "LoadedRewardModel",
    stream: IO[str],
    write: Callable[[str], object],
    threshold: float,
) -> JudgedFile:
    """Judge each line of a stream; a line that is not a solution comes out with its reason.

    Args:
        write: takes a line of the output, with its line feed.

    Raises:
        ScoringError: a score is not a finite number.
        OSError: the stream cannot be read, or the line not written.
    """
    judged, rejected = 0, list[tuple[str, str]]()
    for batch in _batches(stream):
        solutions = [item for item in batch if isinstance(item, Solution)]
        rows = iter(judged_rows(model, solutions, threshold, lambda _: None))
        written = []
        for item in batch:
            row = next(rows) if isinstance(item, Solution) else item
            try:
                line = judged_line(row)
            except RecursionError:
                # the thread that reads has a shorter stack, and could read what nests too deeply for this one
                row = _rejected(row["id"], "it is nested too deeply")
                line = judged_line(row)
            write(line)
            written.append(row)
        done = judged_file(written)
        judged += done.judged
        rejected += done.rejected
    return JudgedFile(judged, rejected)


def _rejected(identifier: str | int | None, reason: str) -> Row:
    return {"id": identifier, "probabilities": None, "first_error": None, "reason": reason}


def _batches(stream: IO[str]) -> Iterator[list[Solution | Row]]:
    """Lines that have come, at most `AT_ONCE` at a time."""
    queue: Queue[Read] = Queue(WAITING)
    Thread(target=_read, args=(stream, queue), name="lines", daemon=True).start()
    item = queue.get()
    while item is not None:
        batch: list[Solution | Row] = []
        while isinstance(item, (Solution, dict)):
            batch.append(item)
            if len(batch) == AT_ONCE:
                break
            try:
                item = queue.get_nowait()
            except Empty:
                break
        if batch:
            yield batch
        if isinstance(item, BaseException):
            raise item
        if item is not None:
            item = queue.get()


def _read(stream: IO[str], queue: "Queue[Read]") -> None:
    """Put the lines of a stream into the queue, and then None, or the error that ended it."""
    try:
        for number, (text, is_whole) in enumerate(bounded_lines(stream, DEFAULT_LIMITS), start=1):
            place = f"line {number}"
            if number == 1 and text.startswith(GZIP):
                raise SourceError("standard input is compressed; pipe it through `gunzip -c` first")
            if not is_whole:
                queue.put(_rejected(None, f"{place} is longer than {DEFAULT_LIMITS.line_characters:,} characters"))
            elif text.strip():
                try:
                    queue.put(parse_line(text, Solution, place))
                except SourceError as error:
                    try:
                        values = DECODER.decode(text)
                    except (ValueError, RecursionError, RepeatedField):
                        values = None
                    found = values.get("id") if isinstance(values, dict) else None
                    queue.put(_rejected(found if isinstance(found, (str, int)) else None, str(error)))
        queue.put(None)
    except BaseException as error:
        queue.put(error)
