"""What is given away: labelled data sets (`rows`) and reward models in forms that other programs read, with `cards`."""

from typing import Literal

FormName = Literal["trl", "math-shepherd"]
"""Forms of labelled rows; `exports.rows` says what they are."""
