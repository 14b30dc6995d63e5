"""What runs in an actor: it makes the chunks it is sent, with models that it loads once, and writes nothing."""

import hashlib
import os
import socket
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cpmi_dagster.profiles.settings import Settings
from resources.chunks import ChunkJob
from resources.language_models import LanguageModels

if TYPE_CHECKING:
    from resources.stage_run import StageOutput

ROOMS = ("assets", "cpmi_dagster", "resources")


class Introduction(NamedTuple):
    """Where an actor is, and the hash of its code."""

    place: str
    code: str


class ChunkActor:
    """Makes chunks; the class is made a Ray actor by the pool."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models = LanguageModels(settings)
        self._place = f"{socket.gethostname()} (process {os.getpid()})"

    def introduce(self) -> Introduction:
        """Called first: returns once there was room for the actor."""
        return Introduction(self._place, code_hash())

    def make(self, job: ChunkJob) -> "StageOutput":
        """The rows of a chunk.

        Raises:
            CpmiError: a model is another one here, or the chunk cannot be made.
        """
        job.check_models(self._models, self._place)
        return job.made(self._settings, self._models, lambda _: None)


@cache
def code_hash() -> str:
    """Sha256 of this package's Python files: actors with other code would make other rows."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(path for room in ROOMS for path in (root / room).rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()
