"""Places as people write them: `~/data` is below the home of this user."""

import re
from pathlib import Path

from cpmi_dagster.errors import SettingsError

# characters that DuckDB, Polars or SQLite read as a pattern, a code or query of a URL, or a separator
UNUSABLE_IN_PATHS = re.compile(r"[%?*\[\]\\\x00-\x1f\x7f]")


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~user` written out.

    Raises:
        SettingsError: this machine has no such user, or no path holds such a character.
    """
    if "\0" in str(path):
        raise SettingsError(f"the path {str(path)!r} contains a NUL character; remove it")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"the path {path} names a user unknown to this machine; write it in full") from error


def home_of(place: str | Path) -> Path:
    """The path of a home, whole, in which DuckDB, Polars and SQLite find a file by its name.

    Raises:
        SettingsError: it is a file, or holds a character that one of them takes for a pattern, a separator or a code.
    """
    folder = expanded(place).absolute()
    if found := UNUSABLE_IN_PATHS.search(str(folder)):
        raise SettingsError(
            f"the home {folder} contains the character {found[0]!r}, which DuckDB, Polars or SQLite cannot handle "
            "in paths; set CPMI_HOME to a folder without it"
        )
    if folder.is_file():
        raise SettingsError(f"the home {folder} is a file; set CPMI_HOME to a folder")
    return folder
