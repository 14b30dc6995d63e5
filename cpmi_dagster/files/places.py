"""Paths as people write them, such as `~/data`, and the folder of a home."""

import re
from pathlib import Path

from cpmi_dagster.errors import SettingsError

# DuckDB, Polars or SQLite read these as a pattern, a separator, or a part of a URL
UNUSABLE_IN_PATHS = re.compile(r"[%?*\[\]\\\x00-\x1f\x7f]")


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~user` written out.

    Raises:
        SettingsError: this machine has no such user, or the path contains a NUL character.
    """
    if "\0" in str(path):
        raise SettingsError(f"the path {str(path)!r} contains a NUL character; remove it")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"the path {path} names a user unknown to this machine; write it in full") from error


def home_folder(place: str | Path) -> Path:
    """The absolute path of a home.

    Raises:
        SettingsError: it is a file, or contains a character that DuckDB, Polars or SQLite cannot handle in paths.
    """
    folder = expanded(place).absolute()
    if match := UNUSABLE_IN_PATHS.search(str(folder)):
        raise SettingsError(
            f"the home {folder} contains the character {match[0]!r}, which DuckDB, Polars or SQLite cannot handle "
            "in paths; set CPMI_HOME to a folder without it"
        )
    if folder.is_file():
        raise SettingsError(f"the home {folder} is a file; set CPMI_HOME to a folder")
    return folder
