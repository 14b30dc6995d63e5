"""One number of an answer changes; how it is written, and what may not be written, stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.negatives.mistakes.notation import brace_arguments
from cpmi_dagster.negatives.mistakes.number_changes import propose_number_changes, propose_wider_changes
from cpmi_dagster.negatives.mistakes.numerals import Numeral, find_numerals


def changes(gold: str) -> list[str]:
    return [proposal.answer for proposal in propose_number_changes(brace_arguments(gold))]


@pytest.mark.parametrize(
    ("gold", "expected"),
    [
        ("18", ["19", "17", "20", "16"]),
        ("180", ["181", "179", "182", "178", "198", "162"]),
        ("0.25", ["0.26", "0.24", "0.27", "0.23"]),
        ("54.4", ["55.4", "53.4", "56.4", "52.4", "59.8", "49.0"]),
        (r"1,\!000", [r"1,\!001", "999", r"1,\!002", "998", r"1,\!100", "900"]),
        (r"2\sqrt{5}", [r"3\sqrt{5}", r"\sqrt{5}", r"4\sqrt{5}", r"2\sqrt{6}", r"2\sqrt{7}", r"2\sqrt{3}"]),
        (r"1 + \sqrt[3]{7}", [r"2 + \sqrt[3]{7}", r"3 + \sqrt[3]{7}", r"1 + \sqrt[3]{6}", r"1 + \sqrt[3]{9}",
                              r"1 + \sqrt[3]{5}"]),
        (r"2^{10}", ["3^{10}", "4^{10}", "2^{11}", "2^{9}"]),
        ("3,-3", ["4,-4", "2,-2", "5,-5", "1,-1"]),
        (r"(-\infty,2)\cup(2,\infty)", [rf"(-\infty,{end})\cup({end},\infty)" for end in (3, 1, 4, 0)]),
        ("(6,235^\\circ)", [f"({left},235^\\circ)" for left in (7, 5, 8, 4)]
         + [f"(6,{right}^\\circ)" for right in (236, 234, 237, 233, 259, 211)]),
    ],
)  # fmt: skip
def test_the_likely_changes_of_a_number(gold: str, expected: list[str]):
    assert changes(gold) == expected


def test_powers_in_a_sum_change_only_among_the_less_likely():
    assert r"x^{3}+1" not in changes("x^2+1")
    assert r"x^{3}+1" in [proposal.answer for proposal in propose_wider_changes("x^{2}+1")]


def test_subscripts_and_unit_powers_are_not_numbers_of_the_answer():
    assert [numeral.text for numeral in find_numerals(r"\log_2 x + 2400 \mbox{ cm}^2")] == ["2400"]


@given(value=st.integers(0, 10**9), places=st.integers(0, 4), separator=st.sampled_from(["", ",", r",\!", "{,}"]))
def test_writing_a_number_and_reading_it_is_the_identity(value: int, places: int, separator: str):
    digits, point = f"1{separator}000", "." + "0" * places if places else ""
    numeral = Numeral(0, 0, digits + point, "whole")
    (found,) = find_numerals(numeral.written(value))
    assert (found.scaled, found.places) == (value, places)
