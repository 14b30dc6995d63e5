"""Whose results a home has: one profile's, in a number of shards, noted in `home.json`.

    {"profile": "mine", "file": "../../mine.yaml", "shards": 4}   from the home, so that a project can be moved with it
    {"profile": "miniature", "file": "", "shards": 4}             a shipped profile

A file that is not there any more was moved: the next of its name takes its place. A run touches the note, so that the
newest of several is that of the last run.
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
from cpmi_dagster.profiles.settings import PROFILES, Settings

NAME = "home.json"


class KnownHome(NamedTuple):
    """A home in which something was run, and its profile as the option `-p` takes it: `mine.yaml`, or `paper`."""

    home: Path
    profile: str


def known_homes() -> list[KnownHome]:
    """The homes of the working folder, that of the last run first; only that of CPMI_HOME if it is set."""
    place = environment_variable("CPMI_HOME")
    found = []
    for home in [expanded(place)] if place else Path(".cpmi").glob("*"):
        if (noted := _noted(home)) is None:
            continue
        file = Path(os.path.relpath(home.resolve() / noted["file"])) if noted["file"] else None
        if (file or PROFILES / f"{noted['profile']}.yaml").is_file():
            found.append(KnownHome(home, str(file or noted["profile"])))
    return sorted(found, key=lambda known: (known.home / NAME).stat().st_mtime, reverse=True)


def nothing_made(settings: Settings) -> str:
    """That a home has no results, with the homes of the working folder that have some, or what to do."""
    others = [f"{home} (-p {profile})" for home, profile in known_homes() if home.absolute() != settings.home]
    here = f"homes in this folder are {', '.join(others)}" if others else "no other home is in this folder"
    return (
        f"profile `{settings.profile}` has no results at {settings.home}: {here}; name another profile with -p, change "
        "to the folder where you ran `cpmi run`, or set CPMI_HOME"
    )


def claim_home(settings: Settings) -> None:
    """Refuse a home that has the results of another profile, or of an earlier form; looking writes nothing.

    Raises:
        SettingsError: names both profiles, or says what to do.
    """
    home = settings.home
    if (home / "lake" / ".current").is_dir():
        raise SettingsError(
            f"the home {home} was made by an earlier version of this package, which kept its files in another form; "
            "set CPMI_HOME to a new folder, or move this one away"
        )
    noted, mine = _noted(home), _note(settings)
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
    """Note in the home that its results are this profile's, in its number of shards.

    Args:
        remove_shards: called before, if the tables there are in another number of shards.

    Raises:
        SettingsError: see `claim_home`.
        StorageError: the home cannot be written.
    """
    claim_home(settings)
    if _noted(settings.home) == _note(settings):
        with suppress(OSError):
            (settings.home / NAME).touch()
        return
    with locked(settings.home / f".{NAME}.lock"):
        noted = _noted(settings.home)
        if noted and noted["shards"] not in (None, settings.shards):
            remove_shards()
        write_whole(settings.home / NAME, json.dumps(_note(settings)))


def _note(settings: Settings) -> dict[str, Any]:
    file, home = settings.file, settings.home.resolve()
    place = "" if file is None else os.path.relpath(file.parent.resolve() / file.name, home)
    return {"profile": settings.profile, "file": place, "shards": settings.shards}


def _noted(home: Path) -> dict[str, Any] | None:
    try:
        noted = json.loads((home / NAME).read_bytes())
        return {"profile": str(noted["profile"]), "file": str(noted["file"]), "shards": noted.get("shards")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and one.samefile(other)
