"""`cpmi clean`: what no profile of a home reads any more, with its sizes, and its removal.

    labels/answer_logprobs     12 files     1.3 GiB     of settings, models or sources that no profile has now
    files                       2 files     6.1 MiB     weights and reports, kept on a store for files that are gone
    lake/.work                 88 files    30.2 MiB     chunks of partitions on which nobody has worked for a week

A file that was written within the last hour stays: a run may be about to read it. So does everything where the list of
a profile is damaged, as nothing is known of its files.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.chunk_store import WORK
from cpmi_dagster.resources.lake.current_files import LAKE
from cpmi_dagster.resources.lake.home_files import KEPT, Size
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.sealed_parquet import DamagedFile

AGE_SECONDS = 3600
WORK_SECONDS = 7 * 24 * 3600


@dataclass(frozen=True)
class Unused:
    """Files of a table that no profile reads, or that were kept for such.

    Attributes:
        table: its key; `files` for what was kept on a store, `lake/.work` for unfinished work.
        names: of the files in the home.
        size: bytes of all.
    """

    table: str
    names: Sequence[str]
    size: int


def unused_files(settings: Settings) -> list[Unused]:
    """What no profile of a home reads any more, table by table.

    Raises:
        LakeError: the list of a profile is damaged, or a file cannot be read.
    """
    lake, now = Lake.of(settings), time.time()
    read = lake.names_read()
    tables = {key: lake.files.sizes(f"{LAKE}/{key}") for key in TABLES}
    found = [
        _of(key, {name: own for name, own in files.items() if name not in read and own.modified < now - AGE_SECONDS})
        for key, files in tables.items()
    ]
    going = {name for each in found for name in each.names}
    kept = lake.files.sizes(KEPT)
    # on a folder nothing is kept, and no footer has to be read
    staying = [name for files in tables.values() for name in files if name not in going] if kept else []
    needed = {_folder_of(file, 2) for file in _pointed_at(lake, staying)}
    lost = {name: own for name, own in kept.items() if _folder_of(name, 2) not in needed}
    found += [
        _of(KEPT, _of_old_folders(lost, 2, now - AGE_SECONDS)),
        _of(WORK, _of_old_folders(lake.files.sizes(WORK), 5, now - WORK_SECONDS)),
    ]
    return [each for each in found if each.names]


def remove_unused(settings: Settings, found: Sequence[Unused]) -> None:
    """Remove what `unused_files` found, but for what a profile has begun to read meanwhile.

    Raises:
        LakeError: the list of a profile is damaged.
        StorageError: it cannot be removed.
    """
    still = {name for each in unused_files(settings) for name in each.names}
    Lake.of(settings).files.remove([name for each in found for name in each.names if name in still])


def _of(table: str, files: Mapping[str, Size]) -> Unused:
    return Unused(table, sorted(files), sum(own.size for own in files.values()))


def _of_old_folders(files: Mapping[str, Size], depth: int, before: float) -> dict[str, Size]:
    """The files of folders in which nothing was written since."""
    young = {_folder_of(name, depth) for name, own in files.items() if own.modified >= before}
    return {name: own for name, own in files.items() if _folder_of(name, depth) not in young}


def _folder_of(name: str, depth: int) -> str:
    return "/".join(name.split("/")[:depth])


def _pointed_at(lake: Lake, names: Iterable[str]) -> Iterator[str]:
    """What files of tables point at, those that are no longer read included."""
    for name in names:
        match name.split("/"):
            case _, group, table, partition, file if file.endswith(".parquet"):
                key = f"{group}/{table}"
                # nobody reads a damaged one
                with suppress(DamagedFile):
                    yield from lake.tables.record(key, partition if TABLES[key].partitioning else None, file).files
