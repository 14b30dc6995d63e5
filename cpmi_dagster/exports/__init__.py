"""What is given away: labelled data sets and reward models in the forms that other programs read."""

from importlib import resources
from typing import Literal

FormName = Literal["trl", "openrlhf", "math-shepherd"]
"""Names of the forms of labelled rows; `exports.rows` says what they are."""


def shipped_text(name: str) -> str:
    """The text of a file that ships with this package: a template of a card, or what is known of licences."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
