"""Paths as people write them: `~/data` is below the home of this user."""

from pathlib import Path

from cpmi_dagster.errors import SettingsError


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
