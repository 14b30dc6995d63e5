"""Final answers: extracted from texts, and compared by meaning.

extract_answer("So she earned $10.\nThe answer is: 10")  ->  "10"
is_equivalent("\\frac{1}{2}", "0.5")                     ->  True
"""

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.answers.verdicts import is_equivalent

__all__ = ["extract_answer", "is_equivalent"]
