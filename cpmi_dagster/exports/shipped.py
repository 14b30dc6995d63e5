"""Files that ship with this room: templates of cards, and what is known of licences."""

from importlib import resources


def shipped_text(name: str) -> str:
    """The text of a file beside this module."""
    return resources.files("cpmi_dagster.exports").joinpath(name).read_text(encoding="utf-8")
