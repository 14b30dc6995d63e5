"""The user's rows at the doors of commands: a file read, and its rows as they came beside what was made of them.

A file may change while models work. So a row is found by what is read of it, never by where it stands:

    labelled   row 0 {"id": "r0", …}   row 1 {"id": "r1", …}
    now        row 0 {"id": "r1", …}                              ->  row_number 1; the row of r0 is gone
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
from polars import selectors

from cpmi_dagster.contracts.keys import SHEPHERD
from cpmi_dagster.errors import SourceError, UsageError
from cpmi_dagster.files.text import counted
from cpmi_dagster.files.whole_files import check_writable
from cpmi_dagster.miniature.names import local_path
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import TrajectorySource
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources, source_at
from cpmi_dagster.rewards.dataset import KEY
from cpmi_dagster.trajectories.choices import LISTED
from cpmi_dagster.trajectories.forms import list_unread_fields
from cpmi_dagster.trajectories.given_rows import GivenRows, as_cells, free_name, plain, read_given
from cpmi_dagster.trajectories.rows import (
    Row,
    RowFormat,
    Unreadable,
    name_trajectory,
    number_rows,
    originals,
    separate_defects,
)

READ = ("source_id", "question", "steps", "labels", "task", "gold_answer", "split", "defect", "excerpt")
"""What is read of a row."""
BATCH_ROWS = 10_000


def check_outputs(source: TrajectorySource, *outputs: Path) -> None:
    """Refuse outputs that are files of the source, would be read with its folder, or cannot be written.

    Raises:
        UsageError: an output is an input, or would be one.
        SourceError: there is no such source, or an output cannot be written.
    """
    folder = None if source.path is None else local_path(str(source.path)).resolve()
    inputs = [] if folder is None else DataSources().files(source)
    for output in outputs:
        if any(output.exists() and output.samefile(file) for file in inputs):
            raise UsageError(f"the output {output} is the input, which it would replace; give another name")
        if folder is not None and folder.is_dir() and folder in output.resolve().parents:
            raise UsageError(
                f"the output {output} is in the folder of the input, and would be read with it; give another"
            )
    check_writable(*outputs)


def read_file(place: str, outputs: Sequence[Path], for_judge: bool = False, **settings: Any) -> GivenRows:
    """Read a file, folder or data set of the hub, in any form that `cpmi init` reads.

    Args:
        outputs: files to write later.
        for_judge: as of `read_given`.
        settings: of the source, as in `TrajectorySource`.

    Raises:
        SettingsError: a setting of the source is wrong.
        SourceError: there is no such file, it has no rows, its first row has no form, or an output cannot be written or
            is the file itself.
    """
    source = source_at(place, settings)
    check_outputs(source, *outputs)
    rows = [row for row, _, _ in DataSources().places(source)]
    if not rows:
        raise SourceError(f"{source.place} has no rows; give a file of solutions")
    return read_given(rows, source.row_format, for_judge)


def own_rows(settings: Settings, lake: Lake) -> Iterator[tuple[Row, int | None, RowFormat]]:
    """Each row of the user's files as it came, with the row_number of its trajectory, and how it is read.

    A duplicate has that of the first equal row. A row that has changed, or was not there, has None.

    Raises:
        SourceError: a file cannot be read.
    """
    labelled = lake.read(SHEPHERD, settings.shard_keys, ["row_number", *READ]).sort("row_number")
    numbers: dict[bytes, list[int]] = {}
    for number, *read in labelled.iter_rows():
        numbers.setdefault(_hash(read), []).append(number)
    first, ids, start = originals(separate_defects(labelled)[0]), dict[str, int](), 0
    reader = DataSources(settings)
    for source in settings.sources.trajectories:
        rows = (row for row, _, _ in reader.places(source))
        while batch := list(islice(rows, BATCH_ROWS)):
            now = number_rows(map(source.row_format.named, batch), start, 1, ids, source.row_format).select(
                "row_number", *READ
            )
            for row, (number, *read) in zip(batch, now.iter_rows(), strict=True):
                known = numbers.get(_hash(read), [])
                place = number if number in known else next(iter(known), None)
                yield row, place if place is None else first.get(place, place), source.row_format
            start += len(batch)


def _hash(read: list[Any]) -> bytes:
    return blake2b(repr(read).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def given_columns(settings: Settings, lake: Lake, rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The columns of the user's own rows that are not in an export by another name, and a line if some are missing.

    {"id": "a7", "question": "2 + 3?", "response": "2 + 3 = 5.", "model": "x", "labels": "mine", "meta": {"n": 1}}
    ->  trajectory_id  model  input_labels  meta
        t000000000     x      mine          {"n": 1}

    Args:
        rows: of the export; a column of the user's with the name of one of its columns becomes `input_…`.

    Returns:
        trajectory_id, then the columns; objects, and lists of them, are JSON. No columns if the profile labels no rows
        of the user's.
    """
    given = pl.DataFrame(schema={KEY: pl.String})
    if settings.sources.sample or not settings.has_own_trajectories:
        return given, ""
    wanted, kept = set(rows[KEY]), []
    try:
        for row, number, row_format in own_rows(settings, lake):
            name = None if number is None else name_trajectory(number)
            if name in wanted and not isinstance(row, Unreadable):
                wanted.remove(name)
                read = row_format.named(row)
                unread = row.keys() if isinstance(read, Unreadable) else {"split", *LISTED, *list_unread_fields(read)}
                others = {each: row[each] for each in row if each in unread}
                named = {free_name(each, others, rows.columns): plain(others[each]) for each in others}
                kept.append({KEY: name, **named})
    except SourceError as error:
        return given, f"Your own columns are left out: {error}.\n"
    columns = pl.DataFrame(as_cells(kept), infer_schema_length=None, strict=False) if kept else given
    left = f"Your own columns are missing of {counted(len(wanted), 'row')} that changed after the labels were made.\n"
    return columns.with_columns(selectors.by_dtype(pl.Null).cast(pl.String)), left if wanted else ""
