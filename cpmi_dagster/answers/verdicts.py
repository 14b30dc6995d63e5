r"""Whether two answers are equivalent: by their forms, else by math-verify.

is_equivalent("\\frac{1}{2}", "0.5")  True      decide("(1, 2)", "(2, 1)")          False
decide("50\%", "50")                  True      decide("\sum_{k=1}^3 k", "6")       None
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import log10

from cpmi_dagster.answers import math_verify_pool
from cpmi_dagster.answers.forms import CONDITION, LIST, NAME, SET, TUPLE, Parts, Quantity, read_form
from cpmi_dagster.answers.plain_text import plain_text
from cpmi_dagster.answers.units import EAST_ASIAN, same_time_of_day, size_of, split_symbols
from cpmi_dagster.answers.values import Undecidable, is_rounded, read_value, real_value, same

EQUIVALENCE_VERSION = "1"
"""Raised by hand if some pair of answers is judged otherwise than before: tables that depend on it become stale."""
CACHED_VERDICTS = 1 << 16
MAX_CHARACTERS, ROUNDED_DECIMALS = 400, 6
MAX_DIGITS = 1_000
"""Of a power that math-verify may write out."""
INTERVALS = {"()", "(]", "[)", "[]"}
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_ASSIGNED = re.compile(rf"^{NAME}\s*=\s*(?=[^=]+$)(?![^{{]*\}})")
_NO_FORMULA = re.compile(
    r"<<|>>|(?<!\\)\{\s*\}|[-+*/=^(\[{\\_:]\s*$"  # something is missing
    r"|(?<![A-Za-z\\])(?!and\b)[A-Za-z]{3,}|\\(?:[pb]?mod|equiv|cong|mid)(?![A-Za-z])"  # prose, congruences
    rf"|[{EAST_ASIAN}]"
)
_TOWER = re.compile(r"([0-9]+)\s*\^\s*\{?\s*([0-9]+)\s*\^\s*\{?\s*([0-9]+)")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[A-Za-z]+\}")
_BARE_LOGARITHM = re.compile(r"\\log(?!\s*_)")


def is_equivalent(gold: str, candidate: str) -> bool:
    """Whether two answers are mathematically equivalent; symmetric, never raises, never hangs."""
    verdict = decide(gold, candidate)
    return _verify(*sorted(_plain_pair(gold, candidate))) if verdict is None else verdict


def equivalent(golds: Sequence[str], candidates: Sequence[str]) -> list[bool]:
    """`is_equivalent` of many pairs, in order; each distinct pair is compared once."""
    pairs = list(zip(golds, candidates, strict=True))
    verdicts = {pair: decide(*pair) for pair in dict.fromkeys(pairs)}
    undecided = [pair for pair, verdict in verdicts.items() if verdict is None]
    with ThreadPoolExecutor(math_verify_pool.MAX_WORKERS) as threads:
        verdicts.update(zip(undecided, threads.map(lambda pair: is_equivalent(*pair), undecided), strict=True))
    return [bool(verdicts[pair]) for pair in pairs]


def decide(gold: str, candidate: str) -> bool | None:
    """Whether two answers are equivalent by their forms; None if the forms do not decide."""
    if gold == candidate or gold.strip() == candidate.strip():
        return True
    if max(len(gold), len(candidate)) > MAX_CHARACTERS or not gold.strip() or not candidate.strip():
        return False
    gold_text, candidate_text = _plain_pair(gold, candidate)
    if gold_text == candidate_text != "":
        return True
    if _PLAIN_NUMBER.fullmatch(gold_text) and _PLAIN_NUMBER.fullmatch(candidate_text):
        return Decimal(gold_text) == Decimal(candidate_text)
    try:
        verdict = _compare(gold_text, candidate_text)
    except (Undecidable, RecursionError):
        verdict = None
    forms = read_form(gold_text), read_form(candidate_text)
    if not verdict and any(isinstance(form, Parts) and form.kind == "words" for form in forms):
        return _squeeze(gold_text) == _squeeze(candidate_text)
    if verdict is None and gold_text and gold_text.replace(" ", "") == candidate_text.replace(" ", ""):
        return True
    return verdict if verdict is not None or (is_formula(gold_text) and is_formula(candidate_text)) else False


def is_formula(text: str) -> bool:
    """Whether a plain text is one whole formula for math-verify: no prose, congruence, endless power, cut."""
    if _NO_FORMULA.search(_ENVIRONMENT.sub("", text)):
        return False
    if any(_is_endless(*map(float, tower)) for tower in _TOWER.findall(text)):
        return False
    return text.count("{") == text.count("}") and sum(map(text.count, "([")) == sum(map(text.count, ")]"))


def _is_endless(base: float, middle: float, top: float) -> bool:
    """Whether base ^ middle ^ top has more than `MAX_DIGITS` digits."""
    return min(base, middle) > 1 and top * log10(middle) + log10(log10(base)) > log10(MAX_DIGITS)


def _plain_pair(gold: str, candidate: str) -> tuple[str, str]:
    """Both as plain text; if only one is an assignment, as `x = n!` beside `n!`, its right side."""
    gold_text, candidate_text = plain_text(gold), plain_text(candidate)
    if ("=" in gold_text) != ("=" in candidate_text) and not CONDITION.search(gold_text + candidate_text):
        return _ASSIGNED.sub("", gold_text, count=1), _ASSIGNED.sub("", candidate_text, count=1)
    return gold_text, candidate_text


@lru_cache(maxsize=CACHED_VERDICTS)
def _verify(*pair: str) -> bool:
    return math_verify_pool.verify(*pair)


def _squeeze(text: str) -> str:
    """The letters and digits, in lower case."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


@lru_cache(maxsize=CACHED_VERDICTS)
def _compare(one: str, other: str) -> bool | None:
    """Whether two plain texts are equivalent by their forms; None if the forms do not decide."""
    if (is_same := same_time_of_day(one, other)) is not None:
        return is_same
    match gold := read_form(one), candidate := read_form(other):
        case (None, _) | (_, None):
            return None
        case Quantity(), Quantity():
            return _compare_quantities(gold, candidate)
        case Parts("choice", (letter, answer)), Parts("choice", (other_letter, other_answer)):
            return letter == other_letter and _compare(answer, other_answer)
        case Parts("choice", (letter, answer)), _:
            is_letter = isinstance(candidate, Quantity) and candidate.value.text.strip("() ").lower() == letter
            return is_letter or _compare(answer, other)
        case _, Parts("choice"):
            return _compare(other, one)
        case Parts("words", (text,)), Parts("words", (other_text,)):
            return _squeeze(text) == _squeeze(other_text)
        case Parts("condition"), Parts("condition"):
            return None
        case (Parts("condition"), Parts(kind, items)) | (Parts(kind, items), Parts("condition")):
            return None if kind == SET or (len(items) == 2 and kind in INTERVALS) else False
        case (Parts("condition"), Quantity(name=name)) | (Quantity(name=name), Parts("condition")):
            return None if name else False
        case Parts(), Parts():
            return _compare_collections(gold, candidate)
    return False


def _compare_collections(gold: Parts, candidate: Parts) -> bool | None:
    kinds = {gold.kind, candidate.kind}
    is_unordered = kinds <= {LIST, SET}
    if len(gold.items) != len(candidate.items) or not (is_unordered or len(kinds) == 1 or kinds == {TUPLE, LIST}):
        return False
    left, verdict = list(candidate.items), True
    for item in gold.items:
        verdicts = [_compare(item, other) for other in (left if is_unordered else left[:1])]
        if True in verdicts or not is_unordered:
            left.pop(verdicts.index(True) if True in verdicts else 0)
        if True not in verdicts:
            if None not in verdicts:
                return False
            verdict = None
    return verdict


def _compare_quantities(gold: Quantity, candidate: Quantity) -> bool | None:
    if not (gold.value.numbers and candidate.value.numbers):  # digits in a base
        units = {gold.unit, candidate.unit} - {""}
        return (
            gold.value.text == candidate.value.text
            and len(units) == 1
            and not (gold.is_percent or candidate.is_percent)
        )
    gold, candidate = _with_symbols_as_unit(gold, candidate), _with_symbols_as_unit(candidate, gold)
    measures = ["%" if quantity.is_percent else quantity.unit for quantity in (gold, candidate)]
    if all(measures) and measures[0] != measures[1]:
        one, other = size_of(gold.unit), size_of(candidate.unit)
        if one is None or other is None or one[0] != other[0]:
            return False
        return same(gold.value, candidate.value, one[1] / other[1])
    names = {quantity.name.casefold() for quantity in (gold, candidate)}
    if len(names) == 2 and "" not in names and "(" not in gold.name + candidate.name:
        are_constant = all(real_value(quantity.value) is not None for quantity in (gold, candidate))
        return False if are_constant else None  # `x = 2y` and `y = x/2` are one equation
    verdicts = [same(gold.value, candidate.value)]
    if gold.is_percent != candidate.is_percent:
        ratio, percentage = (candidate, gold) if gold.is_percent else (gold, candidate)
        verdicts.append(same(ratio.value, percentage.value, Fraction(100)))
    texts = gold.value.text, candidate.value.text
    if verdicts[0] is not True and _BARE_LOGARITHM.search("".join(texts)):
        first, second = (read_value(_BARE_LOGARITHM.sub(r"\\ln", text)) for text in texts)
        verdicts.append(same(first, second))
    if max(gold.decimals, candidate.decimals) >= ROUNDED_DECIMALS and 0 in (gold.decimals, candidate.decimals):
        decimal, exact = (gold, candidate) if gold.decimals else (candidate, gold)
        verdicts.append(is_rounded(decimal.value, decimal.decimals, exact.value))
    return True if True in verdicts else verdicts[0]


def _with_symbols_as_unit(quantity: Quantity, other: Quantity) -> Quantity:
    """Read the final letters as a unit beside a unit or a plain number: `5000 m` beside `5 km`, `20 m` beside `20`."""
    if quantity.unit or quantity.is_percent or (split := split_symbols(quantity.value.text)) is None:
        return quantity
    value, unit, is_apart = split
    is_number = not (other.is_percent or other.name) and real_value(other.value) is not None
    return quantity._replace(value=read_value(value), unit=unit) if other.unit or (is_apart and is_number) else quantity
