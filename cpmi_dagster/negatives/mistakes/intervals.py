r"""Intervals and their unions: other brackets, another half of the line; and which of them are not in order.

[2, 5)           -> (2, 5) (bracket)                          (-\infty,\infty) -> (0,\infty) (half_line)
[1,\infty)       -> (-\infty,1] (half_line)
is_out_of_order("(1, 4) \cup [6, \infty)") False   is_out_of_order("[2,-5)") True   is_out_of_order("(1,1]") True
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from cpmi_dagster.negatives.mistakes.proposal import Proposal
from cpmi_dagster.negatives.mistakes.values import numeric_value

_OTHER_BRACKET = {"(": "[", "[": "(", ")": "]", "]": ")"}
_INTERVAL = re.compile(r"([(\[])([^()\[\],]*),([^()\[\],]*)([)\]])")
_ROOT_DEGREE = re.compile(r"\\sqrt\s*\[[^\[\]]*\]")
_SIZING = re.compile(r"\\(?:left|right)(?![A-Za-z])")
_CHAIN = re.compile(r"([^<>]*)(<|\\leq?(?![A-Za-z]))([^<>]*)(<|\\leq?(?![A-Za-z]))([^<>]*)")
_WHOLE_LINE = {"(-\\infty,\\infty)", "\\mathbb{R}"}
_PARTS_OF_LINE = ("(-\\infty,0)", "(0,\\infty)", "(-\\infty,0)\\cup(0,\\infty)", "[0,\\infty)")


class Ends(NamedTuple):
    """The ends of an interval and whether they belong to it; None where an end has no numeric value."""

    left: float | None
    right: float | None
    has_left: bool
    has_right: bool


def is_interval(answer: str) -> bool:
    """Whether the answer is an interval or a union of some; two numbers in round brackets count as a point."""
    bare = _ROOT_DEGREE.sub("", answer)
    is_set = any(mark in bare for mark in ("[", "]", "\\infty", "\\cup", "\\cap"))
    return is_set and "matrix" not in answer and _INTERVAL.search(bare) is not None


def is_out_of_order(answer: str) -> bool:
    """Whether an interval of the answer, or a chain of inequalities, does not go from a smaller to a larger number."""
    if chain := _CHAIN.fullmatch(answer):
        return not _is_less(numeric_value(chain.group(1)), numeric_value(chain.group(5)))
    return not all(_is_less(ends.left, ends.right) for ends in _all_ends(answer))


def are_apart(answer: str) -> bool:
    """Whether the intervals of a union follow one another and do not share an end point."""
    ends = _all_ends(answer)
    return all(
        _is_less(one.right, other.left) or (one.right == other.left and not (one.has_right or other.has_left))
        for one, other in pairwise(ends)
    )


def propose_bracket_changes(answer: str) -> Iterator[Proposal]:
    """An interval with one end open instead of closed, or closed instead of open; infinite ends stay open."""
    if not is_interval(answer):
        return
    for found in _INTERVAL.finditer(answer):
        for group, end in ((1, found.group(2)), (4, found.group(3))):
            if "infty" not in end:
                start, stop = found.span(group)
                changed = answer[:start] + _OTHER_BRACKET[found.group(group)] + answer[stop:]
                yield Proposal(changed, "bracket")


def propose_other_half_lines(answer: str) -> Iterator[Proposal]:
    """A half-line in the opposite direction; the whole line cut at zero."""
    if answer.replace(" ", "") in _WHOLE_LINE:
        yield from (Proposal(part, "half_line") for part in _PARTS_OF_LINE)
    found = _INTERVAL.fullmatch(_SIZING.sub("", answer).strip())
    if not found or (found.group(2).strip() == "-\\infty") == (found.group(3).strip() == "\\infty"):
        return
    opening, left, right, closing = (part.strip() for part in found.groups())
    gap = " " if ", " in answer else ""
    if right == "\\infty":
        yield Proposal(f"(-\\infty,{gap}{left}{']' if opening == '[' else ')'}", "half_line")
    else:
        yield Proposal(f"{'[' if closing == ']' else '('}{right},{gap}\\infty)", "half_line")


def _all_ends(answer: str) -> list[Ends]:
    if not is_interval(answer):
        return []
    intervals = _INTERVAL.finditer(_SIZING.sub("", answer))
    return [
        Ends(numeric_value(left), numeric_value(right), opening == "[", closing == "]")
        for opening, left, right, closing in (found.groups() for found in intervals)
    ]


def _is_less(one: float | None, other: float | None) -> bool:
    return one is None or other is None or one < other
