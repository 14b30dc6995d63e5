"""Rows of the sources that a profile names.

A source is a file or folder (see `data_files`), a relation of a DuckDB file, a data set of the hub, or a file of this
package, `miniature:NAME`.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import polars as pl
from pydantic import ValidationError

from cpmi_dagster.errors import SettingsError, SourceError, first_complaint, first_line
from cpmi_dagster.files.file_states import changed_while_read, file_digest, file_state
from cpmi_dagster.files.places import expanded
from cpmi_dagster.miniature.names import local_path
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.profiles.sources import DataSource, TrajectorySource
from cpmi_dagster.resources.sources.data_files import (
    SUFFIXES,
    class_names,
    database_files,
    local_files,
    read_files,
    read_relation,
)
from cpmi_dagster.resources.sources.hub import HubLock
from cpmi_dagster.resources.sources.text_files import ReadRow
from cpmi_dagster.trajectories.given_rows import class_names as classes_of_table
from cpmi_dagster.trajectories.given_rows import name_classes
from cpmi_dagster.trajectories.rows import Row, Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

HUB_BATCH = 1_000
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")


class DataSources:
    """Reads the rows of sources, and identifies their versions.

    Args:
        settings: of the home that keeps the commits of hub data sets; without a home, the newest are read.
        asks_hub: whether revisions that are not known yet are asked of the hub.
    """

    def __init__(self, settings: Settings | None = None, asks_hub: bool = True) -> None:
        self._lock = HubLock(settings.home, asks_hub) if settings else None

    def version(self, source: DataSource) -> dict[str, Any]:
        """The facts that identify the rows: hashes of local files, or hub id and commit.

        Raises:
            SourceError: there is no such file.
        """
        read: dict[str, Any] = {"split": source.split, "limit": source.limit}
        if isinstance(source, TrajectorySource):
            names = {"fields"} if source.sample else {"fields", "steps"}
            read |= source.model_dump(include=names, exclude_defaults=True)
        if source.hub is not None:
            return {**read, "hub": source.hub, "config": source.config, "revision": self._revision(source)}
        if source.relation is not None:
            read["relation"] = source.relation
        return {**read, "files": [file_digest(file) for file in self.files(source)]}

    def stream(self, source: DataSource) -> Iterator[tuple[Row, float]]:
        """Rows with the share of the source read so far; a broken line is an `Unreadable` row.

        The fields of trajectories are renamed as the source says.

        Raises:
            SourceError: the source does not exist, a file is damaged, or changes meanwhile.
        """
        rows = ((row, share) for row, share, _ in self.places(source))
        if isinstance(source, TrajectorySource):
            return ((source.row_format.named(row), share) for row, share in rows)
        return rows

    def places(self, source: DataSource) -> Iterator[ReadRow]:
        """Rows as they came, with the share of the source read so far, and their places; raises as `stream`."""
        rows = hub_rows(source, self._revision(source)) if source.hub is not None else self._local_rows(source)
        return islice(rows, source.limit) if source.limit else rows

    def records(self, source: DataSource) -> Iterator[Mapping[str, Any]]:
        """The rows of a source one by one, with values of the types in the source.

        Raises:
            SourceError: the source does not exist, or a line of it is not a JSON object.
        """
        for row, _ in self.stream(source):
            if isinstance(row, Unreadable):
                raise SourceError(f"{row.place}: {row.reason}; correct or remove it")
            yield row

    def rows(self, source: DataSource) -> pl.DataFrame:
        """All rows of a source as a frame, each column of one type.

        Raises:
            SourceError: the source does not exist, a line of it is not a JSON object, or its text is not UTF-8.
        """
        try:
            return pl.DataFrame(list(self.records(source)), infer_schema_length=None, strict=False)
        except UnicodeEncodeError as error:
            raise SourceError(f"{source.place} contains text that is not UTF-8; save it as UTF-8") from error

    def files(self, source: DataSource) -> list[Path]:
        """The local files of a source.

        Raises:
            SourceError: there are none.
        """
        path = local_path(str(source.path))
        return local_files(path) if source.relation is None else database_files(path)

    def _revision(self, source: DataSource) -> str | None:
        if source.revision or self._lock is None:
            return source.revision
        return self._lock.revision("dataset", str(source.hub))

    def _local_rows(self, source: DataSource) -> Iterator[ReadRow]:
        files = self.files(source)
        before = [file_state(file) for file in files]
        classes = class_names(files[0]) if isinstance(source, TrajectorySource) else {}
        rows = read_files(files) if source.relation is None else read_relation(files[0], source.relation)
        for row, share, place in rows:
            named = row if isinstance(row, Unreadable) else name_classes(row, classes)
            yield ReadRow(named, share, place)
        if [file_state(file) for file in files] != before:
            raise changed_while_read(source.place)


def source_at(place: str, settings: Mapping[str, Any]) -> TrajectorySource:
    """The source of trajectories at a place: on the hub, if it looks like a hub id and no such file exists.

    Args:
        settings: of the source, as in `TrajectorySource`.

    Raises:
        SettingsError: one of them is wrong.
    """
    path = expanded(place)
    is_hub = HUB_ID.fullmatch(place) and not path.exists() and not place.lower().endswith(SUFFIXES)
    where = {"hub": place} if is_hub else {"path": str(path)}
    try:
        return TrajectorySource(**where, **settings)
    except ValidationError as error:
        raise SettingsError(first_complaint(error).reason) from error


def hub_rows(source: DataSource, revision: str | None) -> Iterator[ReadRow]:
    """Rows of a hub data set, with the share read so far and their places.

    Args:
        revision: a commit; by default the newest.

    Raises:
        SourceError: the hub has no such data set, or cannot be reached.
    """
    from datasets import load_dataset

    try:
        rows = load_dataset(str(source.hub), source.config, split=source.split, revision=revision).with_format("arrow")
    except (OSError, ValueError) as error:
        raise SourceError(f"the data set `{source.hub}` cannot be read from the hub: {first_line(error)}") from error
    classes = classes_of_table(rows) if isinstance(source, TrajectorySource) else {}
    for start in range(0, len(rows), HUB_BATCH):
        batch = cast("pa.Table", rows[start : start + HUB_BATCH])
        for number, row in enumerate(batch.to_pylist(), start=start + 1):
            yield ReadRow(name_classes(row, classes), number / len(rows), f"row {number}")
