r"""Compare two forms: True or False where that is certain, None where only algebra can tell.

Quantity(1/2), Quantity(0.5)                     -> True
Collection("()", [1, 2]), Collection("()", [2, 1]) -> False
Relation(x ≥ 2), Collection("[)", [2, ∞])        -> True
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from cpmi_dagster.answers.equivalence import points
from cpmi_dagster.answers.equivalence.expressions import read_expression
from cpmi_dagster.answers.equivalence.forms import (
    INTERSECTION,
    LIST,
    SET,
    TUPLE,
    UNION,
    Choice,
    Collection,
    Equation,
    Form,
    InBase,
    Quantity,
    Relation,
    Words,
)
from cpmi_dagster.answers.equivalence.intervals import BRACKETS, intervals
from cpmi_dagster.answers.equivalence.polynomials import (
    Polynomial,
    add,
    as_rational,
    is_opaque,
    multiply,
    scale,
)
from cpmi_dagster.answers.equivalence.relations import as_set, letters, same_relations
from cpmi_dagster.answers.equivalence.units import size_of, split_letter

ROUNDED_DECIMALS = 6
_UNORDERED = {LIST, SET}
_OPERATIONS = {UNION, INTERSECTION}


def compare(gold: Form, candidate: Form) -> bool | None:
    """Whether two answers are the same: True or False where their forms decide it, else None."""
    match gold, candidate:
        case Quantity(), Quantity():
            return _compare_quantities(gold, candidate)
        case (Choice(), _) | (_, Choice()):
            return _compare_choices(gold, candidate)
        case Words(), Words():
            return squeeze(gold.text) == squeeze(candidate.text)
        case (Words(text), Quantity() as other) | (Quantity() as other, Words(text)):
            return len(text) == 1 and other.text.strip("() ").lower() == text
        case (Words(), _) | (_, Words()):
            return False
        case (Relation(), _) | (_, Relation()):
            return _compare_relations(gold, candidate)
        case Collection(), Collection():
            return _compare_collections(gold, candidate)
        case InBase(), InBase():
            return gold == candidate
        case (InBase(digits), Quantity() as other) | (Quantity() as other, InBase(digits)):
            return not (other.unit or other.percent) and other.text == digits
        case (Equation(), _) | (_, Equation()):
            return _compare_equations(gold, candidate)
    return False


def _compare_quantities(gold: Quantity, candidate: Quantity) -> bool | None:
    if candidate.unit and not gold.unit:
        gold = _with_letter_as_unit(gold)
    elif gold.unit and not candidate.unit:
        candidate = _with_letter_as_unit(candidate)
    if _measure(gold) and _measure(candidate) and _measure(gold) != _measure(candidate):
        return _are_same_size(gold, candidate)
    if gold.name and candidate.name and _are_different_names(gold.name, candidate.name):
        return _compare_equations(gold, candidate)
    equal = gold.value == candidate.value
    if gold.percent != candidate.percent:
        ratio, percentage = (candidate, gold) if gold.percent else (gold, candidate)
        equal = equal or scale(ratio.value, 100) == percentage.value
    if equal:
        return True
    if max(gold.decimals, candidate.decimals) >= ROUNDED_DECIMALS and 0 in (gold.decimals, candidate.decimals):
        decimal, exact = (gold, candidate) if gold.decimals else (candidate, gold)
        if (value := as_rational(decimal.value)) is not None and not _is_whole(exact.value):
            return points.is_rounded(value, decimal.decimals, exact.text)
    if is_opaque(gold.value) or is_opaque(candidate.value):
        return points.agree(gold.text, candidate.text)
    return False


def _measure(quantity: Quantity) -> str:
    """The unit; an empty one agrees with every other."""
    return "%" if quantity.percent else quantity.unit


def _with_letter_as_unit(quantity: Quantity) -> Quantity:
    """`5000 m` beside `5 km`: the letter behind the number is a unit, too."""
    if (found := split_letter(quantity.text)) is None or quantity.percent:
        return quantity
    value, unit = found
    return replace(quantity, value=read_expression(value), unit=unit, text=value)


def _are_same_size(gold: Quantity, candidate: Quantity) -> bool:
    """Whether quantities in different units are the same; never where the units measure different things."""
    one, other = size_of(gold.unit), size_of(candidate.unit)
    if one is None or other is None or one[0] != other[0]:
        return False
    return scale(gold.value, one[1]) == scale(candidate.value, other[1])


def _are_different_names(name: str, other: str) -> bool:
    """The lines `x = 3` and `y = 3` differ; `y = 3` and `f(x) = 3` are one."""
    return name.casefold() != other.casefold() and "(" not in name + other


def _is_whole(value: Polynomial) -> bool:
    rational = as_rational(value)
    return rational is not None and rational.denominator == 1


def _compare_collections(gold: Collection, candidate: Collection) -> bool | None:
    kinds = {gold.brackets, candidate.brackets}
    if UNION in kinds and (covered := intervals(gold)) is not None and (other := intervals(candidate)) is not None:
        return covered == other
    if len(gold.items) != len(candidate.items):
        return None if all(_may_be_union(form) for form in (gold, candidate)) else False
    if kinds <= _UNORDERED or (len(kinds) == 1 and kinds <= _OPERATIONS):
        return _compare_unordered(gold.items, candidate.items)
    if len(kinds) > 1 and kinds != {TUPLE, LIST}:
        return False
    return _all(compare(first, second) for first, second in zip(gold.items, candidate.items, strict=True))


def _may_be_union(form: Collection) -> bool:
    return form.brackets in _OPERATIONS or (form.brackets in BRACKETS and len(form.items) == 2)


def _compare_unordered(golds: tuple[Form, ...], candidates: tuple[Form, ...]) -> bool | None:
    left = list(candidates)
    undecided = False
    for gold in golds:
        verdicts = [compare(gold, candidate) for candidate in left]
        if True in verdicts:
            left.pop(verdicts.index(True))
        elif None in verdicts:
            undecided = True
        else:
            return False
    return None if undecided else True


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    distinct = set(verdicts)
    return False if False in distinct else None if None in distinct else True


def squeeze(text: str) -> str:
    """Letters and digits only, in lower case."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _compare_choices(gold: Form, candidate: Form) -> bool | None:
    """A choice's letter, its answer, or both say which it is."""
    if isinstance(gold, Choice) and isinstance(candidate, Choice):
        return gold.letter == candidate.letter and compare(gold.answer, candidate.answer)
    choice, other = (gold, candidate) if isinstance(gold, Choice) else (candidate, gold)
    assert isinstance(choice, Choice)
    return compare(Words(choice.letter), other) or compare(choice.answer, other)


def _compare_relations(gold: Form, candidate: Form) -> bool | None:
    if isinstance(gold, Relation) and isinstance(candidate, Relation) and same_relations(gold, candidate):
        return True
    unknowns = [letters(form) for form in (gold, candidate) if isinstance(form, Relation)]
    first, second = (as_set(form) if isinstance(form, Relation) else form for form in (gold, candidate))
    if isinstance(first, Collection) and isinstance(second, Collection):
        return unknowns[0] == unknowns[-1] and compare(first, second)
    if len(unknowns) == 2:
        return None
    other = candidate if isinstance(gold, Relation) else gold
    return None if isinstance(other, Collection) and _may_be_union(other) and len(unknowns[0]) == 1 else False


def _compare_equations(gold: Form, candidate: Form) -> bool | None:
    """Equations are the same up to a factor; an assignment is one too."""
    first, second = _as_equation(gold), _as_equation(candidate)
    if first is None or second is None:
        return False
    left, right = _without_fractions(first.difference), _without_fractions(second.difference)
    if left.keys() == right.keys() and left:
        monomial = next(iter(left))
        if scale(left, Fraction(right[monomial]) / left[monomial]) == right:
            return True
    return None if is_opaque(left) or is_opaque(right) else left == right


def _as_equation(form: Form) -> Equation | None:
    if isinstance(form, Quantity) and form.name:
        return Equation(add(read_expression(form.name), scale(form.value, -1)))
    return form if isinstance(form, Equation) else None


def _without_fractions(difference: Polynomial) -> Polynomial:
    """An equation times the letters in its denominators."""
    least: dict[str, int] = {}
    for _, symbols in difference:
        for name, exponent in symbols:
            least[name] = min(least.get(name, 0), exponent)
    denominators = tuple(sorted((name, -exponent) for name, exponent in least.items() if exponent < 0))
    return multiply(difference, {(1, denominators): 1}) if denominators else difference
