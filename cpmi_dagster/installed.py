"""The installed package: its name on package indexes, version and command."""

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
    """The command for a shell in the working folder: `cpmi`, or `.venv/bin/cpmi` if `cpmi` is not on the path."""
    beside = Path(sys.executable).with_name("cpmi")
    if shutil.which("cpmi") or not beside.exists():
        return "cpmi"
    return shlex.quote(str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside))
