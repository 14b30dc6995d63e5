r"""Unions of intervals as sets of numbers: overlapping or touching ones are one.

    "(0,2) \cup [1,3]"      -> [((0, +1), (3, 0))]
    "(0,1) \cup (1,2)"      -> [((0, +1), (1, -1)), ((1, +1), (2, -1))]

An end is a pair (value, step): step 0 is the value itself, +1 just above it, -1 just below it. So `(0` starts at
(0, +1), `2)` ends at (2, -1), and pairs are ordered as the ends are.
"""

from fractions import Fraction
from math import inf

from cpmi_dagster.answers.equivalence.forms import SET, UNION, Collection, Form, Quantity, Relation
from cpmi_dagster.answers.equivalence.polynomials import as_rational, real_value
from cpmi_dagster.answers.equivalence.relations import INFINITY, MINUS_INFINITY, as_set

End = tuple[int | float | Fraction, int]
Interval = tuple[End, End]
BRACKETS = {"()", "(]", "[)", "[]"}


def intervals(form: Form) -> list[Interval] | None:
    """The separate intervals a form covers, in order; None where it is not a set of real numbers."""
    found = _pieces(form)
    return None if found is None else _merged(sorted(piece for piece in found if piece[0] <= piece[1]))


def _pieces(form: Form | None) -> list[Interval] | None:
    if isinstance(form, Relation):
        return _pieces(as_set(form))
    if not isinstance(form, Collection):
        return None
    if form.brackets == UNION:
        parts = [_pieces(item) for item in form.items]
        return None if None in parts else [piece for part in parts for piece in part or ()]
    values = [_value(item) for item in form.items]
    reals = [value for value in values if value is not None]
    if len(reals) < len(values):
        return None
    if form.brackets == SET:
        return [((value, 0), (value, 0)) for value in reals]
    if form.brackets in BRACKETS and len(reals) == 2:
        return [((reals[0], int(form.brackets[0] == "(")), (reals[1], -int(form.brackets[1] == ")")))]
    return None


def _value(form: Form) -> int | float | Fraction | None:
    if not isinstance(form, Quantity):
        return None
    if form.value in (INFINITY.value, MINUS_INFINITY.value):
        return inf if form.value == INFINITY.value else -inf
    rational = as_rational(form.value)
    return real_value(form.value) if rational is None else rational


def _merged(pieces: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in pieces:
        if merged and start <= (merged[-1][1][0], merged[-1][1][1] + 1):
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
