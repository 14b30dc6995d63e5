"""Finished chunks of a partition that is still being made: a killed run continues here.

lake/.work/labels/answer_logprobs/003-1f0c…/chunk-00002-rows-64.labels.answer_logprobs.parquet    its frames, sealed
                                         …/chunk-00002-rows-64.json     written last: the frames' seals, and facts
                                         …/pace.json                    how far the partition is

Whoever has the same fingerprint may write the same chunk at the same time: where the seals are not those of the frames,
the chunk is made again.
"""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.errors import LakeError, first_line
from cpmi_dagster.resources.lake.home_files import HomeFiles
from cpmi_dagster.resources.lake.pace import FILE_NAME, Pace, pace_of
from cpmi_dagster.resources.lake.records import hash_of
from cpmi_dagster.resources.lake.sealed_parquet import seal_in, sealed

WORK = "lake/.work"
FINGERPRINT_CHARACTERS = 16
CHECKPOINTS, LAST_OF_CHECKPOINT = "checkpoints", "trainer_state.json"
LOG = logging.getLogger(__name__)


class ChunkStore:
    """Finished chunks of a partition that is still being made, under one fingerprint."""

    def __init__(self, files: HomeFiles, key: str, partition: str | None, fingerprint: str) -> None:
        self._files = files
        self._work = f"{WORK}/{key}"
        self._partition = partition or "all"
        self._name = f"{self._work}/{self._partition}-{fingerprint[:FINGERPRINT_CHARACTERS]}"

    @property
    def folder(self) -> Path:
        """Where this machine has the chunks."""
        return self._files.folder / self._name

    def load(self, chunk: str) -> tuple[dict[str, pl.DataFrame], dict[str, Any]] | None:
        """The frames and facts of a chunk, or None where it was not finished or is damaged."""
        try:
            stored = json.loads(self._files.read(self._facts(chunk)))
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
        self._commit(self._facts(chunk), {**stored, "seal": hash_of(stored)})

    def clear(self) -> None:
        """Remove these chunks; those of other fingerprints are another profile's, or of settings that may come back."""
        self._files.remove_folders(self._work, lambda name: f"{self._work}/{name}" == self._name)

    def checkpoints(self) -> Path:
        """The folder for checkpoints of a training, with those that were committed."""
        self._files.pull(f"{self._name}/{CHECKPOINTS}")
        return self.folder / CHECKPOINTS

    def commit_checkpoints(self) -> None:
        """Commit the checkpoints that are whole by now."""
        self._files.push(f"{self._name}/{CHECKPOINTS}", LAST_OF_CHECKPOINT)

    @property
    def pace(self) -> Pace | None:
        """How far the partition is."""
        return _pace(self._files, f"{self._name}/{FILE_NAME}")

    def show(self, pace: Pace) -> None:
        """Say how far the partition is."""
        self._commit(f"{self._name}/{FILE_NAME}", asdict(pace))

    def _commit(self, name: str, values: Mapping[str, Any]) -> None:
        self._files.write(name, json.dumps(values).encode())

    def _commit_frame(self, chunk: str, name: str, frame: pl.DataFrame) -> str:
        data, seal = sealed(frame, {})
        self._files.write(self._frame_name(chunk, name), data)
        return seal

    def _frame(self, chunk: str, name: str, seal: str) -> pl.DataFrame:
        data = self._files.read(self._frame_name(chunk, name))
        if seal_in(data) != seal:
            raise LakeError(f"{self._frame_name(chunk, name)} is damaged, or belongs to another chunk")
        return pl.read_parquet(data)

    def _facts(self, chunk: str) -> str:
        return f"{self._name}/chunk-{chunk}.json"

    def _frame_name(self, chunk: str, name: str) -> str:
        return f"{self._name}/chunk-{chunk}.{name.replace('/', '.')}.parquet"


def unfinished_paces(files: HomeFiles, key: str) -> dict[str, Pace]:
    """Partitions of a table that are begun and not finished, by their keys; the latest begun of each."""
    folder = f"{WORK}/{key}"
    found = sorted((own.modified, name) for name, own in files.sizes(folder).items() if name.endswith(f"/{FILE_NAME}"))
    begun = {name.split("/")[-2].rpartition("-")[0]: _pace(files, name) for _, name in found}
    return {partition: pace for partition, pace in begun.items() if pace}


def _pace(files: HomeFiles, name: str) -> Pace | None:
    # a run that finishes the partition removes the file
    with suppress(FileNotFoundError):
        return pace_of(files.read(name))
    return None
