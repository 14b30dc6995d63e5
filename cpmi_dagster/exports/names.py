"""Names of the forms that labelled rows are exported in; `exports.rows` says what they are."""

from typing import Literal

FormName = Literal["trl", "openrlhf", "math-shepherd"]
