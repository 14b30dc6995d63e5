"""Whose results a home has: the profile file behind a list of current files, which another of its name would replace.

lake/.current/mine.profile         ../../mine.yaml    from the home, so that a project can be moved with it
lake/.current/miniature.profile    (empty)            the profile that is shipped under this name

A file that is no longer there was moved, or is another machine's: the next one of its name takes its place.
"""

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.whole_files import whole_file
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.current_files import CURRENT

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProfileFile:
    """The file of a profile, for its home."""

    settings: Settings

    def check(self) -> None:
        """Refuse a home that has the results of another file of this name.

        Raises:
            SettingsError: names both files.
        """
        noted, own = self._noted(), self.settings.file
        if noted is None or noted == self._from_home():
            return
        other, name = self._place(noted), self.settings.profile
        if other is None or (other.is_file() and not (own and own.is_file() and own.samefile(other))):
            ours, theirs = (str(path or f"the shipped profile `{name}`") for path in (own, other))
            raise SettingsError(
                f"the home {self.settings.home} has the results of {theirs}, which those of {ours} would replace; set "
                f"CPMI_HOME to another folder for it (CPMI_HOME=.cpmi/{name}-2), or give one of them another name"
            )

    def note(self) -> None:
        """Note in the home that the results of this name are of this file.

        Raises:
            SettingsError: see `check`.
        """
        self.check()
        noted, own = self._noted(), self._from_home()
        if noted == own:
            return
        if noted is not None and (other := self._place(noted)) and not other.is_file():
            home, file = self.settings.home, self.settings.file
            LOG.warning("%s had results of %s, which is not there any more: now of %s", home, other, file)
        with whole_file(self._path) as unfinished:
            unfinished.write_text(own, encoding="utf-8")

    @property
    def _path(self) -> Path:
        return self.settings.home / CURRENT / f"{self.settings.profile}.profile"

    def _noted(self) -> str | None:
        with suppress(FileNotFoundError):
            return self._path.read_text(encoding="utf-8", errors="replace")
        return None

    def _from_home(self) -> str:
        """How the file is noted; a link is noted as itself, as what it leads to may change."""
        file = self.settings.file
        return "" if file is None else os.path.relpath(file.parent.resolve() / file.name, self.settings.home.resolve())

    def _place(self, noted: str) -> Path | None:
        """Where a noted file is; None for a shipped profile."""
        return Path(os.path.normpath(self.settings.home.resolve() / noted)) if noted else None
