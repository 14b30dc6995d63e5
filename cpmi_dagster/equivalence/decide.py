r"""Compare the forms of two answers: True or False where that is certain, None where only algebra can tell.

decide("\frac{1}{2}", "0.5")  True        decide("(1, 2)", "(2, 1)")   False
decide("50\%", "50")          True        decide("\sin x", "\cos x")   None
"""

import re
from collections.abc import Iterable

from cpmi_dagster.equivalence.forms import (
    MAX_CHARACTERS,
    SET_OPERATIONS,
    Collection,
    Equation,
    Form,
    InBase,
    Quantity,
    Words,
    read_form,
)
from cpmi_dagster.equivalence.plain_text import plain_text
from cpmi_dagster.equivalence.polynomials import Polynomial, as_rational, is_opaque, scale

ROUNDED_DECIMALS = 4
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_UNFINISHED = re.compile(r"<<|>>|[-+*/=^(\[{\\_]\s*$")
_ORDERED_WITHOUT_BRACKETS = {"()", ""}


def decide(gold: str, candidate: str) -> bool | None:
    """Whether two answers are the same.

    Args:
        gold: Reference answer.
        candidate: Answer to be judged.

    Returns:
        True or False where the answers' forms decide it, else None.
    """
    if gold.strip() == candidate.strip():
        return True
    if not gold.strip() or not candidate.strip() or max(len(gold), len(candidate)) > MAX_CHARACTERS:
        return False
    if _INTEGER.fullmatch(gold) and _INTEGER.fullmatch(candidate):
        return int(gold) == int(candidate)
    first, second = read_form(gold), read_form(candidate)
    if first is None or second is None:
        return _compare_texts(gold, candidate)
    if isinstance(first, Words) or isinstance(second, Words):
        return _compare_words(first, second) or _squeeze(plain_text(gold)) == _squeeze(plain_text(candidate))
    return _compare(first, second)


def _compare_texts(gold: str, candidate: str) -> bool | None:
    """Answers of no known form: the same text is the same answer, and a broken-off text is no answer."""
    if plain_text(gold).replace(" ", "") == plain_text(candidate).replace(" ", ""):
        return True
    return False if _is_broken(gold) or _is_broken(candidate) else None


def _is_broken(answer: str) -> bool:
    return bool(_UNFINISHED.search(answer)) or any(
        answer.count(opening) != answer.count(closing) for opening, closing in ("{}", "()")
    )


def _compare(gold: Form, candidate: Form) -> bool | None:
    if isinstance(gold, Quantity) and isinstance(candidate, Quantity):
        return _compare_quantities(gold, candidate)
    if isinstance(gold, Collection) and isinstance(candidate, Collection):
        return _compare_collections(gold, candidate)
    if isinstance(gold, Words) or isinstance(candidate, Words):
        return _compare_words(gold, candidate)
    if isinstance(gold, InBase) or isinstance(candidate, InBase):
        return _compare_in_base(gold, candidate)
    if isinstance(gold, Equation) and isinstance(candidate, Equation):
        return _are_proportional(gold.difference, candidate.difference)
    return None if isinstance(gold, Equation) or isinstance(candidate, Equation) else False


def _compare_quantities(gold: Quantity, candidate: Quantity) -> bool | None:
    if gold.unit and candidate.unit and gold.unit != candidate.unit:
        return False
    equal = gold.value == candidate.value
    if gold.percent != candidate.percent:
        ratio, percentage = (candidate, gold) if gold.percent else (gold, candidate)
        equal = equal or scale(ratio.value, 100) == percentage.value
    if equal:
        return True
    if is_opaque(gold.value) or is_opaque(candidate.value):
        return None
    return None if _may_be_rounded(gold, candidate) or _may_be_rounded(candidate, gold) else False


def _may_be_rounded(rounded: Quantity, exact: Quantity) -> bool:
    """A long decimal beside a value without a finite decimal form may stand for it."""
    return rounded.decimals >= ROUNDED_DECIMALS and exact.decimals == 0 and not _is_whole(exact.value)


def _is_whole(value: Polynomial) -> bool:
    rational = as_rational(value)
    return rational is not None and rational.denominator == 1


def _compare_collections(gold: Collection, candidate: Collection) -> bool | None:
    are_operations = [form.brackets in SET_OPERATIONS for form in (gold, candidate)]
    if len(gold.items) != len(candidate.items):
        return None if any(are_operations) else False
    if gold.brackets == candidate.brackets and (all(are_operations) or not gold.brackets):
        return _compare_unordered(gold.items, candidate.items)
    if gold.brackets != candidate.brackets and {gold.brackets, candidate.brackets} != _ORDERED_WITHOUT_BRACKETS:
        return False
    return _all(_compare(first, second) for first, second in zip(gold.items, candidate.items, strict=True))


def _compare_unordered(golds: tuple[Form, ...], candidates: tuple[Form, ...]) -> bool | None:
    left = list(candidates)
    undecided = False
    for gold in golds:
        verdicts = [_compare(gold, candidate) for candidate in left]
        if True in verdicts:
            left.pop(verdicts.index(True))
        elif None in verdicts:
            undecided = True
        else:
            return False
    return None if undecided else True


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    found = list(verdicts)
    if False in found:
        return False
    return None if None in found else True


def _compare_words(gold: Form, candidate: Form) -> bool:
    if isinstance(gold, Words) and isinstance(candidate, Words):
        return _squeeze(gold.text) == _squeeze(candidate.text)
    words, other = (gold, candidate) if isinstance(gold, Words) else (candidate, gold)
    assert isinstance(words, Words)
    return isinstance(other, Quantity) and _is_letters(other.value, words.text)


def _squeeze(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _is_letters(value: Polynomial, text: str) -> bool:
    """A single letter was read as a variable; it may be an option letter."""
    if len(value) != 1 or len(text) != 1:
        return False
    (((radicand, symbols), coefficient),) = value.items()
    return radicand == 1 and coefficient == 1 and len(symbols) == 1 and symbols[0][0].lower() == text


def _compare_in_base(gold: Form, candidate: Form) -> bool | None:
    if isinstance(gold, InBase) and isinstance(candidate, InBase):
        return gold == candidate
    based, other = (gold, candidate) if isinstance(gold, InBase) else (candidate, gold)
    assert isinstance(based, InBase)
    rational = as_rational(other.value) if isinstance(other, Quantity) else None
    return rational is not None and str(rational) == based.digits


def _are_proportional(left: Polynomial, right: Polynomial) -> bool | None:
    if left.keys() != right.keys() or not left:
        return None if is_opaque(left) or is_opaque(right) else left == right
    monomial = next(iter(left))
    return scale(left, right[monomial] / left[monomial]) == right
