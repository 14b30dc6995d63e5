"""This package as it is installed: its name on package indexes, and its version."""

from importlib.metadata import version

DISTRIBUTION = "cpmi-dagster"


def own_version() -> str:
    """The installed version, such as `0.1.0`."""
    return version(DISTRIBUTION)
