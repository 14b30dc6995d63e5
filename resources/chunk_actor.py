"""What runs in an actor: it makes the chunks it is sent, with models that it loads once, and writes nothing."""

import hashlib
import logging
import os
import socket
from asyncio import CancelledError
from functools import cache
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cpmi_dagster.errors import (
    CpmiError,
    MissingModel,
    PassingError,
    ServerUnreachable,
    described,
    may_pass,
    with_notes,
)
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.chunks import ChunkJob
from cpmi_dagster.resources.language_models import LanguageModels

if TYPE_CHECKING:
    from cpmi_dagster.resources.stage_run import StageOutput

LOG = logging.getLogger(__name__)


class Introduction(NamedTuple):
    """Where an actor is, and the hash of its code."""

    place: str
    code: str


class ChunkError(Exception):
    """An exception of Python or a library that came up in an actor, in words.

    The exception itself may not survive the way back: one that is made with several arguments cannot be unpickled, and
    Ray's client then never answers.
    """

    def __init__(self, words: str, passes: bool) -> None:
        super().__init__(words, passes)
        self.words, self.passes = words, passes

    def __str__(self) -> str:
        return self.words


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
            ChunkError: the same by anything else.
        """
        try:
            job.check_models(self._models, self._place)
            return job.made(self._settings, self._models, lambda _: None)
        except CpmiError as error:
            if isinstance(error, MissingModel) and self._place not in str(error):
                error.add_note(f"on {self._place}")
            if may_pass(error):  # its cause, by which that is known, is not sent
                kind = ServerUnreachable if isinstance(error, ServerUnreachable) else PassingError
                raise kind(with_notes(error)) from None
            raise
        except (Exception, CancelledError) as error:
            LOG.exception("%s cannot be made", job)
            raise ChunkError(described(error), may_pass(error)) from None


@cache
def code_hash() -> str:
    """Sha256 of this package's Python files: actors with other code would make other rows."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for name in sorted(glob("**/*.py", root_dir=root, recursive=True)):
        digest.update(f"{name}\0".encode() + (root / name).read_bytes())
    return digest.hexdigest()
