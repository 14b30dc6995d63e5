"""`home.json`: the profile whose results a home has, and its number of shards.

    {"profile": "mine", "file": "../../mine.yaml", "shards": 4}   from the home, so that a project can be moved with it
    {"profile": "miniature", "file": "", "shards": 4}             a shipped profile

If the profile's file is gone, it was moved, and the next one of its name takes its place. A run touches the note, so
the newest of several is that of the last run.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.places import expanded
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.profile_files import PROFILES
from cpmi_dagster.profiles.settings import Settings

NAME = "home.json"


class KnownHome(NamedTuple):
    """A home with results, and its profile as `-p` takes it: `mine.yaml`, or `paper`."""

    home: Path
    profile: str


def known_homes() -> list[KnownHome]:
    """The homes of the working folder, newest run first; if CPMI_HOME is set, that one alone."""
    place = environment_variable("CPMI_HOME")
    known = []
    for home in [expanded(place)] if place else Path(".cpmi").glob("*"):
        if (noted := _read_note(home)) is None:
            continue
        file = Path(os.path.relpath(home.resolve() / noted["file"])) if noted["file"] else None
        if (file or PROFILES / f"{noted['profile']}.yaml").is_file():
            known.append(KnownHome(home, str(file or noted["profile"])))
    return sorted(known, key=lambda each: (each.home / NAME).stat().st_mtime, reverse=True)


def nothing_made(settings: Settings) -> str:
    """The message that a home has no results; names the homes of the working folder that have some."""
    others = [f"{home} (-p {profile})" for home, profile in known_homes() if home.absolute() != settings.home]
    here = f"homes in this folder are {', '.join(others)}" if others else "no other home is in this folder"
    return (
        f"profile `{settings.profile}` has no results at {settings.home}: {here}; name another profile with -p, change "
        "to the folder where you ran `cpmi run`, or set CPMI_HOME"
    )


def claim_home(settings: Settings) -> None:
    """Check that a home belongs to the profile; nothing is written.

    Raises:
        SettingsError: the home has the results of another profile.
    """
    home = settings.home
    noted, mine = _read_note(home), _note_of(settings)
    if noted is None or (noted["profile"], noted["file"]) == (mine["profile"], mine["file"]):
        return
    other = None if not noted["file"] else Path(os.path.normpath(home.resolve() / noted["file"]))
    is_same = other is not None and settings.file is not None and (not other.is_file() or _same(other, settings.file))
    if noted["profile"] != settings.profile or not is_same:
        theirs = str(other or f"the shipped profile `{noted['profile']}`")
        ours = str(settings.file or f"the shipped profile `{settings.profile}`")
        raise SettingsError(
            f"the home {home} has the results of {theirs}, which those of {ours} would replace; set CPMI_HOME to "
            f"another folder for it, such as .cpmi/{settings.profile}-2"
        )


def note_home(settings: Settings, remove_shards: Callable[[], None]) -> None:
    """Write or touch the note of a profile in its home.

    Args:
        remove_shards: called first if the home has another number of shards.

    Raises:
        SettingsError: see `claim_home`.
        StorageError: the home cannot be written.
    """
    claim_home(settings)
    if _read_note(settings.home) == _note_of(settings):
        with suppress(OSError):
            (settings.home / NAME).touch()
        return
    with locked(settings.home / f".{NAME}.lock"):
        noted = _read_note(settings.home)
        if noted and noted["shards"] not in (None, settings.shards):
            remove_shards()
        write_whole(settings.home / NAME, json.dumps(_note_of(settings)))


def _note_of(settings: Settings) -> dict[str, Any]:
    file, home = settings.file, settings.home.resolve()
    place = "" if file is None else os.path.relpath(file.parent.resolve() / file.name, home)
    return {"profile": settings.profile, "file": place, "shards": settings.shards}


def _read_note(home: Path) -> dict[str, Any] | None:
    try:
        noted = json.loads((home / NAME).read_bytes())
        return {"profile": str(noted["profile"]), "file": str(noted["file"]), "shards": noted.get("shards")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and one.samefile(other)
