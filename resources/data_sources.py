"""Where rows come from: local files and folders, the embedded world, or the hub.

Local files are JSON Lines, JSON or Parquet, plain or gzipped; a folder is all such files in name order.
`miniature:NAME` is a file of the embedded world, which is written to `<home>/world/seed-N` at its first use.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import polars as pl
from filelock import FileLock

from cpmi_dagster.errors import SourceError
from cpmi_dagster.settings import MINIATURE, DataSource, Settings
from resources.hub import HubLock

SUFFIXES = (".jsonl", ".json", ".parquet", ".jsonl.gz", ".json.gz")


class DataSources:
    """Reads the rows of a source and says which version of it they are."""

    def __init__(self, settings: Settings) -> None:
        self._home = settings.home
        self._seed = settings.seed
        self._digests: dict[tuple[Path, int, int], str] = {}

    def version(self, source: DataSource) -> dict[str, Any]:
        """What identifies the rows: hashes of local files, or hub id and commit.

        Raises:
            SourceError: there is no such file.
        """
        read = {"split": source.split, "limit": source.limit}
        if source.hub is not None:
            return {**read, "hub": source.hub, "config": source.config, "revision": self._revision(source)}
        return {**read, "files": [self._digest(file) for file in self._files(source)]}

    def rows(self, source: DataSource) -> pl.DataFrame:
        """All rows of a source, in order, with the source's own columns.

        Raises:
            SourceError: the source does not exist, or a line of it is not JSON.
        """
        if source.hub is not None:
            return self._hub_rows(source)
        frame = pl.concat([_read_file(file) for file in self._files(source)], how="diagonal_relaxed")
        return frame.head(source.limit) if source.limit else frame

    def _files(self, source: DataSource) -> list[Path]:
        path = self._local_path(str(source.path))
        files = [path] if path.is_file() else sorted(file for file in path.glob("*") if file.name.endswith(SUFFIXES))
        if not files:
            raise SourceError(f"there is no data at {path}; give a file or folder of {', '.join(SUFFIXES)}")
        return files

    def _local_path(self, place: str) -> Path:
        return self._world_file(place.removeprefix(MINIATURE)) if place.startswith(MINIATURE) else Path(place)

    def _world_file(self, name: str) -> Path:
        from cpmi_dagster.miniature import WORLD_FILES, write_world

        if name not in WORLD_FILES:
            raise SourceError(f"the embedded world has no file `{name}`; it has {', '.join(WORLD_FILES)}")
        folder = self._home / "world" / f"seed-{self._seed}"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            if not all((folder / file).is_file() for file in WORLD_FILES.values()):
                write_world(folder, seed=self._seed)
        return folder / WORLD_FILES[name]

    def _digest(self, file: Path) -> str:
        state = file.stat()
        key = (file, state.st_size, state.st_mtime_ns)
        if key not in self._digests:
            with file.open("rb") as stream:
                self._digests[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        return self._digests[key]

    def _revision(self, source: DataSource) -> str:
        return source.revision or HubLock(self._home).revision("dataset", str(source.hub))

    def _hub_rows(self, source: DataSource) -> pl.DataFrame:
        from datasets import load_dataset

        split = f"{source.split}[:{source.limit}]" if source.limit else source.split
        try:
            rows = load_dataset(str(source.hub), source.config, split=split, revision=self._revision(source))
        except (OSError, ValueError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise SourceError(f"the data set `{source.hub}` cannot be read from the hub: {reason}") from error
        return pl.from_arrow(rows.with_format("arrow")[:])  # pyright: ignore[reportReturnType]


def _read_file(file: Path) -> pl.DataFrame:
    if file.suffix == ".parquet":
        return pl.read_parquet(file)
    with _open(file) as stream:
        if ".jsonl" not in file.name:
            return pl.DataFrame(json.load(stream), infer_schema_length=None, strict=False)
        return pl.DataFrame(list(_lines(stream, file)), infer_schema_length=None, strict=False)


def _open(file: Path) -> IO[str]:
    return gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8")


def _lines(stream: IO[str], file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise SourceError(f"{file}, line {number} is not JSON ({error.msg}); mend or remove the line") from error
        if not isinstance(row, dict):
            raise SourceError(f"{file}, line {number} must be a JSON object; mend or remove the line")
        yield row
