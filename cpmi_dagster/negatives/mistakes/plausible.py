r"""Which edits are implausible, and which would have been simplified further.

is_nonsense("[2,-5)", gold="[2,5)")                  True: an interval the wrong way round
is_nonsense("2, 2", gold="2, -2")                    True: a solution listed twice
is_nonsense(r"\text{October 32}", gold=…)            True: no such day
is_unpolished(r"\frac{2}{4}", gold=r"\frac{1}{4}")   True
"""

import re
from calendar import monthrange
from functools import partial

from cpmi_dagster.negatives.mistakes.fraction_changes import count_unreduced, has_improper_mixed_number
from cpmi_dagster.negatives.mistakes.intervals import are_apart, is_out_of_order
from cpmi_dagster.negatives.mistakes.lists import list_entries
from cpmi_dagster.negatives.mistakes.numerals import find_numerals, is_plain_number
from cpmi_dagster.negatives.mistakes.values import numeric_value
from cpmi_dagster.negatives.mistakes.words import MONTHS

LEAP_YEAR = 2024
MINUTES = 60
HOURS = 12
_CLOCK = re.compile(r"([0-9]{1,2})((?:(?:\\!)?:(?:\\!)?[0-9]{2})+)(?:\s|\\ )*(\\(?:text|mbox)\{\s*[ap]\.?m)?")
_DATE = re.compile(r"(" + "|".join(MONTHS) + r") ([0-9]{1,2})(?![0-9])")
_POWERS = re.compile(r"([a-z])(?:\^\{([0-9]+)\})?(?![A-Za-z])")


def is_nonsense(answer: str, gold: str) -> bool:
    """Whether an edit has a fault of form that the gold answer does not have."""
    faults = (is_out_of_order, _lists_twice, _is_no_time, _is_no_date, has_improper_mixed_number, _repeats_a_power)
    return any(has_fault(answer) and not has_fault(gold) for has_fault in faults)


def is_unpolished(answer: str, gold: str) -> bool:
    """Whether an edit has more to simplify than the gold answer, overlaps, loses its order, or counts nothing."""
    if count_unreduced(answer) > count_unreduced(gold):
        return True
    if any(
        is_tidy(gold) and not is_tidy(answer)
        for is_tidy in (are_apart, _is_sorted, partial(_is_sorted, descending=True))
    ):
        return True
    return is_plain_number(answer) and not find_numerals(answer)[0].scaled and answer != "0"


def _lists_twice(answer: str) -> bool:
    entries = [entry.replace(" ", "") for entry in list_entries(answer)]
    return len(set(entries)) < len(entries)


def _is_sorted(answer: str, descending: bool = False) -> bool:
    """Whether the numbers of a list are sorted; a list with other entries than numbers counts as sorted."""
    entries = [numeric_value(entry) for entry in list_entries(answer)]
    values = [value for value in entries if value is not None]
    return len(values) < len(entries) or values == sorted(values, reverse=descending)


def _is_no_time(answer: str) -> bool:
    """Whether a time of day has a minute of 60 or more, or an hour of 0 or of more than 12 with a.m. or p.m."""
    found = _CLOCK.search(answer)
    if found is None:
        return False
    late = any(int(part) >= MINUTES for part in re.findall(r"[0-9]{2}", found.group(2)))
    return late or (found.group(3) is not None and not 1 <= int(found.group(1)) <= HOURS)


def _is_no_date(answer: str) -> bool:
    found = _DATE.search(answer)
    if found is None:
        return False
    _, days = monthrange(LEAP_YEAR, 1 + MONTHS.index(found[1]))
    return not 1 <= int(found[2]) <= days


def _repeats_a_power(answer: str) -> bool:
    """Whether a sum without brackets has two terms in the same power of its only letter."""
    if "(" in answer or "\\" in answer or not re.search(r"[-+]", answer):
        return False
    powers = _POWERS.findall(answer)
    return len({letter for letter, _ in powers}) == 1 and len({power or "1" for _, power in powers}) < len(powers)
