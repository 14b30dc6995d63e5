"""Which sampled answers are correct.

golds ["3", "3", "1/2"]   answers ["3", None, "0.5"]   →   [True, False, True]
"""

from collections.abc import Sequence

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison


def graded(golds: Sequence[str], answers: Sequence[str | None], comparison: Comparison = BUILT_IN) -> list[bool]:
    """Which answers are the same as their gold answers, one each; a missing answer is wrong."""
    stated = [(gold, answer) for gold, answer in zip(golds, answers, strict=True) if answer is not None]
    verdicts = iter(comparison.each([gold for gold, _ in stated], [answer for _, answer in stated]))
    return [answer is not None and next(verdicts) for answer in answers]
