"""Paths as people write them: `~/data` is below the home of this user."""

import re
from pathlib import Path

from cpmi_dagster.errors import SettingsError

# patterns of files, codes and queries of URLs, and what DuckDB takes for a slash
MEANS_MORE = re.compile(r"[%?*\[\]\\\x00-\x1f\x7f]")


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~user` written out.

    Raises:
        SettingsError: this machine has no such user, or no path holds such a character.
    """
    if "\0" in str(path):
        raise SettingsError(f"the path {str(path)!r} holds a NUL character; remove it")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"the path {path} begins with a user this machine lacks; write the path out") from error


def folder_for_all(path: str | Path) -> Path:
    """The path of a folder, whole, in which DuckDB, Polars and SQLite find a file by its name.

    Raises:
        SettingsError: it holds a character that one of them takes for a pattern, a separator or a code.
    """
    folder = expanded(path).absolute()
    if found := MEANS_MORE.search(str(folder)):
        raise SettingsError(
            f"the home {folder} holds the character {found[0]!r}, with which DuckDB, Polars or SQLite would not find "
            "its files; set CPMI_HOME to a folder without it"
        )
    return folder
