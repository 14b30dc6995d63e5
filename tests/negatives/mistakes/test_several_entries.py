"""Intervals, lists, points and ratios."""

import pytest

from cpmi_dagster.negatives.mistakes.intervals import (
    are_apart,
    is_interval,
    is_out_of_order,
    propose_bracket_changes,
    propose_other_half_lines,
)
from cpmi_dagster.negatives.mistakes.lists import list_entries, propose_entry_swaps, propose_missing_entries
from cpmi_dagster.negatives.mistakes.values import numeric_value


@pytest.mark.parametrize(
    ("text", "value"),
    [(r"\frac{3\pi}{4}", 2.356194), (r"-\infty", float("-inf")), (r"1-\sqrt{5}", -1.236068), ("x+1", None), ("", None)],
)
def test_the_value_of_an_end(text: str, value: float | None):
    assert numeric_value(text) == (value if value is None else pytest.approx(value, abs=1e-6))


@pytest.mark.parametrize(
    "answer",
    [
        "[2,5)",
        r"(-\infty, -\frac{9}{2} ) \cup [0, \sqrt{2}]",
        r"\left[ \frac{\pi}{4}, 3 \right]",
        "[a,b]",
        "(5,2)",
        "7",
    ],
)
def test_intervals_in_order(answer: str):
    assert not is_out_of_order(answer)


@pytest.mark.parametrize("answer", ["[2,-5)", "(1,1]", r"(-\infty,2)\cup[3,1)", r"82 \leq g(x) \leq -80"])
def test_intervals_the_wrong_way_round(answer: str):
    assert is_out_of_order(answer)


def test_parts_of_a_union_are_apart_when_they_share_no_point():
    assert are_apart(r"(-\infty,2)\cup(2,\infty)")
    assert not are_apart(r"(-\infty,2]\cup(2,\infty)")
    assert not are_apart(r"(-\infty,3)\cup(2,\infty)")


def test_two_numbers_in_round_brackets_are_a_point():
    assert not is_interval("(1,2)")
    assert not is_interval(r"(1,\sqrt[3]{2})")


def test_infinite_ends_stay_open():
    assert [proposal.answer for proposal in propose_bracket_changes(r"(-\infty, 3]")] == [r"(-\infty, 3)"]


def test_a_half_line_turns_round():
    assert [proposal.answer for proposal in propose_other_half_lines(r"[1, \infty)")] == [r"(-\infty, 1]"]
    assert [proposal.answer for proposal in propose_other_half_lines("(1,2]")] == []


@pytest.mark.parametrize(
    ("answer", "entries"),
    [
        ("1, -2, 5", ["1", "-2", "5"]),
        (r"\{4,5,7\}", ["4", "5", "7"]),
        ("(3, -2)", []),
        ("31,250", []),
        (r"2, 3, \text{ and } 4", ["2", "3", "4"]),
        (r"1,\!000, 2", ["1000", "2"]),
        (r"5,\,-11,\;2i", ["5", "-11", "2i"]),
        ("(1,2), (3,4)", ["(1,2)", "(3,4)"]),
    ],
)
def test_entries_of_lists(answer: str, entries: list[str]):
    assert list_entries(answer) == entries


def test_one_entry_of_three_is_left_out():
    assert [proposal.answer for proposal in propose_missing_entries(r"\{4, 5, 7\}")] == [
        r"\{5, 7\}", r"\{4, 7\}", r"\{4, 5\}",
    ]  # fmt: skip
    assert list(propose_missing_entries("4, 5")) == []


def test_pairs_and_ratios_are_swapped_but_not_times_or_polar_points():
    assert [proposal.answer for proposal in propose_entry_swaps("(3, -2)")] == ["(-2, 3)"]
    assert [proposal.answer for proposal in propose_entry_swaps("3:5")] == ["5:3"]
    assert list(propose_entry_swaps("9:24")) == []
    assert list(propose_entry_swaps(r"(6,235^\circ)")) == []
