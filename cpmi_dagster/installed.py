"""This package as it is installed: its name on package indexes, its version, and its command."""

import shlex
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

DISTRIBUTION = "cpmi-dagster"


def own_version() -> str:
    """The installed version, such as `0.1.0`."""
    return version(DISTRIBUTION)


def program() -> str:
    """The command as a shell in the working folder runs it: `cpmi`, or `.venv/bin/cpmi` if it is not on the path."""
    beside = Path(sys.executable).with_name("cpmi")
    if shutil.which("cpmi") or not beside.exists():
        return "cpmi"
    return shlex.quote(str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside))
