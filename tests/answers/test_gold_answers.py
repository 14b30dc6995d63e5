"""Gold answers are read, not taken: wrapping goes, numbers are written plainly, and what holds no answer is refused."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.answers import is_equivalent
from cpmi_dagster.answers.gold import answer_text, read_gold_answer
from cpmi_dagster.negatives import heuristic_negatives


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("He pays 3*4=<<3*4=12>>12 dollars.\n#### 12", "12"),
        (r"We have $\frac12\cdot\frac13=\boxed{\frac16}$.", r"\frac16"),
        ("3*4=12.\nThe answer is: 4,000", "4,000"),
        ("Tom pays 12. Final answer: 12", "12"),
        ("<answer>17</answer>", "17"),
        (r"\boxed{17}", "17"),
        ("$17$.", "17"),
        (r"\(17\)", "17"),
        ("**17**", "17"),
        ("17\n", "17"),
        ("17 apples", "17 apples"),
        (r"\$17", r"\$17"),
        ("A. Paris", "A. Paris"),
        ("Dr. Smith", "Dr. Smith"),
        ("90\\text{ square\nunits}", "90\\text{ square\nunits}"),
        ("\\begin{pmatrix} 1 \\\\\n2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\\n2 \\end{pmatrix}"),
        ("10.00", "10.00"),
        (None, None),
        (" ", None),
    ],
)
def test_what_stands_around_a_gold_answer_goes(given: str | None, answer: str | None):
    assert read_gold_answer(given) == answer


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (41, "41"),
        (41.0, "41"),
        ("41.0", "41"),
        (np.int64(41), "41"),
        (np.float64(41), "41"),
        (np.float32(0.1), "0.1"),
        (Decimal("41.50"), "41.5"),
        (Decimal("1E+2"), "100"),
        (Fraction(1, 2), "1/2"),
        (0.00001, "0.00001"),
        ("1e-05", "0.00001"),
        (3e6, "3000000"),
        (1e16, "10000000000000000"),
        ("6.02e23", "602000000000000000000000"),
        (2**70, "1180591620717411303424"),
        (10**400, "1" + "0" * 400),
        (-0.0, "0"),
    ],
)
def test_a_number_is_written_plainly(given: Any, answer: str):
    assert read_gold_answer(given) == answer


@pytest.mark.parametrize(
    "given",
    [
        float("nan"), float("inf"), np.float64("nan"), Decimal("nan"), "nan", "NaN", "None", "null", "N/A", "inf", True,
        np.bool_(True), ["7"], {"answer": 7}, np.array([1, 2]), b"17", 1j,
        "He pays 12 dollars. So it is 12 in all.", "3 * 4 = 12\nso 12", "3*4=<<3*4=12>>12",
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


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), Decimal("Infinity")])
def test_a_number_that_is_none_is_refused_also_once_it_is_a_column_of_texts(number: Any):
    with pytest.raises(ValueError, match="stands for a missing value"):
        read_gold_answer(answer_text(number))


@pytest.mark.parametrize(
    ("gold", "mark"),
    [("1e-3", "e"), ("6.02e23", "e"), (r"6.02 \times 10^{23}", r"\times 10^{"), ("6.02×10²³", "×10²³"),
     ("0.00001", "0.0"), ("1,200", ""), (r"50\%", r"\%"), ("3/4", "/")],
)  # fmt: skip
def test_hard_negatives_are_written_in_the_golds_notation(gold: str, mark: str):
    negatives = [negative.answer for negative in heuristic_negatives(gold, 4, seed=0)]
    assert len(negatives) == 4
    assert all(mark in answer for answer in negatives)
    assert not any(is_equivalent(gold, answer) for answer in negatives)
