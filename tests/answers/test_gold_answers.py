"""Gold answers are read, not taken: wrapping goes, numbers are written plainly, and what holds no answer is refused."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.answers.gold import answer_text, read_gold_answer


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("He pays 3*4=<<3*4=12>>12 dollars.\n#### 12", "12"),
        (r"We have $\frac12\cdot\frac13=\boxed{\frac16}$.", r"\frac16"), ("3*4=12.\nThe answer is: 4,000", "4,000"),
        ("**$17$.**\n", "17"), ("17 apples", "17 apples"), ("A. Paris", "A. Paris"),
        ("90\\text{ square\nunits}", "90\\text{ square\nunits}"),
        # numbers, of whatever type
        (" ", None), ("41.0", "41"), (np.int64(41), "41"), (np.float32(0.1), "0.1"), (Decimal("1E+2"), "100"),
        (Fraction(1, 2), "1/2"),
    ],
)  # fmt: skip
def test_a_gold_answer_is_unwrapped_and_a_number_is_written_plainly(given: Any, answer: str | None):
    assert read_gold_answer(given) == answer


@pytest.mark.parametrize(
    "given",
    [
        float("nan"), "NaN", "None", np.bool_(True), answer_text(float("inf")), ["7"], b"17",
        "He pays 12 dollars. So it is 12 in all.", "3*4=<<3*4=12>>12",
    ],
)  # fmt: skip
def test_what_holds_no_answer_is_refused(given: Any):
    with pytest.raises(ValueError, match=r"stands for a missing value|of the wrong kind|announces no answer"):
        read_gold_answer(given)


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False)))
def test_a_written_number_is_the_number(number: Any):
    if isinstance(number, Decimal) and not number.is_finite():
        return
    written = read_gold_answer(number)
    assert written is not None and float(written) == float(number)
    assert read_gold_answer(written) == written
