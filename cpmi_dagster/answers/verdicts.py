r"""Whether two answers are the same: by their forms, and by math-verify where these cannot decide.

is_equivalent("\\frac{1}{2}", "0.5")  True      decide("(1, 2)", "(2, 1)")          False
decide("50\%", "50")                  True      decide("\sum_{k=1}^3 k", "6")       None
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

from cpmi_dagster.answers.equivalence import math_verify
from cpmi_dagster.answers.equivalence.expressions import Undecidable, is_rounded, read_expression, real_value, same
from cpmi_dagster.answers.equivalence.forms import (
    INTERVALS,
    LIST,
    SET,
    TUPLE,
    Choice,
    Collection,
    Condition,
    Form,
    InBase,
    Quantity,
    Words,
    read_form,
)
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.equivalence.units import size_of, split_letter

CACHED_VERDICTS = 1 << 16
MAX_CHARACTERS = 400
ROUNDED_DECIMALS = 6
_UNFINISHED = re.compile(r"<<|>>|(?<!\\)\{\s*\}|[-+*/=^(\[{\\_:]\s*$")
_WORD = re.compile(r"(?<![A-Za-z\\])(?!and\b)[A-Za-z]{3,}")
_COMMAND_NAMES = re.compile(r"\\(?:begin|end)\s*\{[A-Za-z]+\}")
_PAIRS = (("{", "}"), ("([", ")]"))
_BARE_LOGARITHM = re.compile(r"\\log(?!\s*_)")
_CONGRUENCE = re.compile(r"\\(?:[pb]?mod|equiv|cong|mid)(?![A-Za-z])")


def is_equivalent(gold: str, candidate: str) -> bool:
    """Whether two answers are mathematically the same, either way round. Never raises on any text, never hangs."""
    verdict = decide(gold, candidate)
    return _verified(gold, candidate) if verdict is None else verdict


def equivalent(golds: Sequence[str], candidates: Sequence[str]) -> list[bool]:
    """`is_equivalent` of many pairs, in order; each different pair is compared once."""
    pairs = list(zip(golds, candidates, strict=True))
    verdicts = {pair: decide(*pair) for pair in dict.fromkeys(pairs)}
    undecided = [pair for pair, verdict in verdicts.items() if verdict is None]
    with ThreadPoolExecutor(math_verify.MAX_WORKERS) as threads:
        verdicts.update(zip(undecided, threads.map(lambda pair: _verified(*pair), undecided), strict=True))
    return [bool(verdicts[pair]) for pair in pairs]


def decide(gold: str, candidate: str) -> bool | None:
    """Whether two answers are the same: True or False where their forms decide it, else None."""
    if gold == candidate or gold.strip() == candidate.strip():
        return True
    if max(len(gold), len(candidate)) > MAX_CHARACTERS or not gold.strip() or not candidate.strip():
        return False
    one, other = plain_text(gold), plain_text(candidate)
    if one == other != "":
        return True
    first, second = read_form(one), read_form(other)
    try:
        verdict = None if first is None or second is None else compare(first, second)
    except (Undecidable, RecursionError):
        verdict = None
    if not verdict and (isinstance(first, Words) or isinstance(second, Words)):
        return squeeze(one) == squeeze(other)
    if verdict is None and one and one.replace(" ", "") == other.replace(" ", ""):
        return True
    return verdict if verdict is not None or (is_formula(one) and is_formula(other)) else False


def is_formula(text: str) -> bool:
    """Whether a plain text is one whole formula, which algebra can judge: no prose, no congruence, nothing cut off."""
    if _UNFINISHED.search(text) or _WORD.search(_COMMAND_NAMES.sub("", text)) or _CONGRUENCE.search(text):
        return False
    return all(sum(map(text.count, opening)) == sum(map(text.count, closing)) for opening, closing in _PAIRS)


def compare(gold: Form, candidate: Form) -> bool | None:
    """Whether two answers are the same: True or False where their forms decide it, else None."""
    match gold, candidate:
        case Quantity(), Quantity():
            return _compare_quantities(gold, candidate)
        case Choice(), Choice():
            return gold.letter == candidate.letter and compare(gold.answer, candidate.answer)
        case (Choice(letter, answer), other) | (other, Choice(letter, answer)):
            return compare(Words(letter), other) or compare(answer, other)
        case Words(), Words():
            return squeeze(gold.text) == squeeze(candidate.text)
        case (Words(text), Quantity() as other) | (Quantity() as other, Words(text)):
            return len(text) == 1 and other.text.strip("() ").lower() == text
        case Collection(), Collection():
            if len(gold.items) != len(candidate.items):
                return False
            kinds = {gold.brackets, candidate.brackets}
            if kinds <= {LIST, SET}:
                return _compare_unordered(gold.items, candidate.items)
            if len(kinds) > 1 and kinds != {TUPLE, LIST}:
                return False
            verdicts = {compare(first, second) for first, second in zip(gold.items, candidate.items, strict=True)}
            return False if False in verdicts else None if None in verdicts else True
        case InBase(), InBase():
            return gold == candidate
        case (InBase(digits), Quantity() as other) | (Quantity() as other, InBase(digits)):
            return not (other.unit or other.percent) and other.text == digits
        case Condition(), Condition():
            return None
        case (Condition(), Collection(brackets, items)) | (Collection(brackets, items), Condition()):
            return None if brackets == SET or (len(items) == 2 and brackets in INTERVALS) else False
        case (Condition(), Quantity(name=name)) | (Quantity(name=name), Condition()):
            return None if name else False
    return False


def squeeze(text: str) -> str:
    """Letters and digits only, in lower case."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _verified(gold: str, candidate: str) -> bool:
    """The verdict of math-verify on two answers in one order, whichever is the gold answer."""
    return _verified_pair(*sorted((plain_text(gold), plain_text(candidate))))


@lru_cache(maxsize=CACHED_VERDICTS)
def _verified_pair(one: str, other: str) -> bool:
    return math_verify.verify(one, other)


def _compare_quantities(gold: Quantity, candidate: Quantity) -> bool | None:
    if candidate.unit and not gold.unit:
        gold = _with_letter_as_unit(gold)
    elif gold.unit and not candidate.unit:
        candidate = _with_letter_as_unit(candidate)
    measures = ["%" if quantity.percent else quantity.unit for quantity in (gold, candidate)]
    if all(measures) and measures[0] != measures[1]:
        one, other = size_of(gold.unit), size_of(candidate.unit)
        if one is None or other is None or one[0] != other[0]:
            return False
        return same(tuple(number * one[1] / other[1] for number in gold.value), candidate.value)
    names = {quantity.name.casefold() for quantity in (gold, candidate)}
    if len(names) == 2 and "" not in names and "(" not in gold.name + candidate.name:
        are_constant = all(real_value(quantity.value) is not None for quantity in (gold, candidate))
        return False if are_constant else None  # `x = 2y` and `y = x/2` are one equation
    verdicts = [same(gold.value, candidate.value)]
    if gold.percent != candidate.percent:
        ratio, percentage = (candidate, gold) if gold.percent else (gold, candidate)
        verdicts.append(same(tuple(100 * number for number in ratio.value), percentage.value))
    if verdicts[0] is not True and _BARE_LOGARITHM.search(gold.text + candidate.text):
        natural = [_BARE_LOGARITHM.sub(r"\\ln", quantity.text) for quantity in (gold, candidate)]
        verdicts.append(same(*map(read_expression, natural)))
    if max(gold.decimals, candidate.decimals) >= ROUNDED_DECIMALS and 0 in (gold.decimals, candidate.decimals):
        decimal, exact = (gold, candidate) if gold.decimals else (candidate, gold)
        verdicts.append(is_rounded(decimal.value, decimal.decimals, exact.value))
    return True if True in verdicts else verdicts[0]


def _with_letter_as_unit(quantity: Quantity) -> Quantity:
    """`5000 m` beside `5 km`: the letter behind the number is a unit, too."""
    if (found := split_letter(quantity.text)) is None or quantity.percent:
        return quantity
    value, unit = found
    return replace(quantity, value=read_expression(value), unit=unit, text=value)


def _compare_unordered(golds: tuple[Form, ...], candidates: tuple[Form, ...]) -> bool | None:
    left, verdict = list(candidates), True
    for gold in golds:
        verdicts = [compare(gold, candidate) for candidate in left]
        if True in verdicts:
            left.pop(verdicts.index(True))
        elif None in verdicts:
            verdict = None
        else:
            return False
    return verdict
