"""Finished chunks of a partition that is still being made: a killed run continues here.

lake/.work/labels/answer_logprobs/003-1f0c…/chunk-00002-rows-64.labels.answer_logprobs.parquet    its frames, sealed
                                         …/chunk-00002-rows-64.json     written last: the frames' seals, and facts
                                         …/pace.json                    how far the partition is

Whoever has the same fingerprint may write the same chunk at the same time: where the seals are not those of the frames,
the chunk is made again.
"""

import json
import logging
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.resources.lake.pace import FILE_NAME, Pace, pace_of
from cpmi_dagster.resources.lake.records import hash_of
from cpmi_dagster.resources.lake.sealed_parquet import seal_in, sealed

WORK = "lake/.work"
FINGERPRINT_CHARACTERS = 16
LOG = logging.getLogger(__name__)


class ChunkStore:
    """Finished chunks of a partition that is still being made, under one fingerprint.

    Attributes:
        folder: where they lie.
    """

    def __init__(self, home: Path, key: str, partition: str | None, fingerprint: str) -> None:
        self.folder = home / WORK / key / f"{partition or 'all'}-{fingerprint[:FINGERPRINT_CHARACTERS]}"

    def load(self, chunk: str) -> tuple[dict[str, pl.DataFrame], dict[str, Any]] | None:
        """The frames and facts of a chunk, or None where it was not finished or is damaged."""
        try:
            stored = json.loads(self._facts(chunk).read_bytes())
            if stored.pop("seal", None) != hash_of(stored):
                raise LakeError(f"the text of {self._facts(chunk)} is not the one that was written")
            return {name: self._frame(chunk, name, seal) for name, seal in stored["frames"].items()}, stored["facts"]
        except FileNotFoundError:
            return None
        except (LakeError, pl.exceptions.PolarsError, OSError, ValueError, AttributeError) as error:
            LOG.warning("a finished chunk cannot be used and is made again: %s", first_line(error))
            return None

    def save(self, chunk: str, frames: Mapping[str, pl.DataFrame], facts: Mapping[str, Any]) -> None:
        """Commit a chunk: its frames first, then the small file that says they are whole.

        Raises:
            StorageError: there is no room, or the lake cannot be written.
        """
        seals = {name: self._commit_frame(chunk, name, frame) for name, frame in frames.items()}
        stored = {"frames": seals, "facts": dict(facts)}
        write_whole(self._facts(chunk), json.dumps({**stored, "seal": hash_of(stored)}))

    def clear(self) -> None:
        """Remove these chunks; those of other fingerprints are another profile's, or of settings that may come back."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pace(self) -> Pace | None:
        """How far the partition is."""
        return _pace(self.folder / FILE_NAME)

    def show(self, pace: Pace) -> None:
        """Say how far the partition is."""
        write_whole(self.folder / FILE_NAME, json.dumps(asdict(pace)))

    def _commit_frame(self, chunk: str, name: str, frame: pl.DataFrame) -> str:
        data, seal = sealed(frame, {})
        write_whole(self._frame_path(chunk, name), data)
        return seal

    def _frame(self, chunk: str, name: str, seal: str) -> pl.DataFrame:
        path = self._frame_path(chunk, name)
        data = path.read_bytes()
        if seal_in(data) != seal:
            raise LakeError(f"{path} is damaged, or belongs to another chunk")
        return pl.read_parquet(data)

    def _facts(self, chunk: str) -> Path:
        return self.folder / f"chunk-{chunk}.json"

    def _frame_path(self, chunk: str, name: str) -> Path:
        return self.folder / f"chunk-{chunk}.{name.replace('/', '.')}.parquet"


def unfinished_paces(home: Path, key: str) -> dict[str, Pace]:
    """Partitions of a table that are begun and not finished, by their keys; the latest begun of each."""
    begun: list[tuple[float, Path]] = []
    for path in (home / WORK / key).glob(f"*/{FILE_NAME}"):
        # a run that finishes the partition removes the file
        with suppress(FileNotFoundError):
            begun.append((path.stat().st_mtime, path))
    found = {path.parent.name.rpartition("-")[0]: _pace(path) for _, path in sorted(begun)}
    return {partition: pace for partition, pace in found.items() if pace}


def _pace(path: Path) -> Pace | None:
    with suppress(FileNotFoundError):
        return pace_of(path.read_bytes())
    return None
