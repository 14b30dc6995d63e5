r"""Change one number of an answer.

18                 -> 19, 17 (plus_minus_1), 20, 16 (plus_minus_2)      180 -> 198, 162 (plus_minus_10_percent)
0.25               -> 0.24, 0.26, 0.27 (last_digit)
\frac{2}{3}        -> \frac{1}{3}, \frac{2}{5} (fraction_parts)
2\sqrt{5}          -> 2\sqrt{6} (root), 3\sqrt{5}, \sqrt{5} (inner_number)
2+\sqrt{3}, 2-\sqrt{3}  -> 3+\sqrt{3}, 3-\sqrt{3} (inner_number): in lists a number changes wherever it stands
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction

from cpmi_dagster.negatives.mistakes.intervals import is_interval
from cpmi_dagster.negatives.mistakes.lists import is_unordered
from cpmi_dagster.negatives.mistakes.numerals import Numeral, Role, find_numerals, with_numeral
from cpmi_dagster.negatives.mistakes.proposal import Proposal

Offset = tuple[int, str]

SMALL_STEPS = (1, -1, 2, -2)
LARGER_STEPS = (3, -3, 5, -5, 10, -10)
LIKELY_STEPS: dict[Role, tuple[int, ...]] = {
    "whole": SMALL_STEPS,
    "inner": SMALL_STEPS,
    "fraction": (1, -1),
    "root": SMALL_STEPS,
    "exponent": (1, -1),
}
WIDER_STEPS = {"fraction": (2, -2, 3, -3)}
TEN_PERCENT = 10
SMALL_DECIMAL = 2
CLOSE = 4
_SUM = re.compile(r"[\w)}]\s*(?:[-+=<>]|\\(?:le|ge)q?(?![a-z]))")
_NAMES = {"fraction": "fraction_parts", "root": "root", "exponent": "inner_number", "inner": "inner_number"}


def propose_number_changes(answer: str) -> Iterator[Proposal]:
    """The answer with one number changed by one, two or ten per cent, as the number's role and size allow."""
    for numerals in _linked(answer):
        if not (numerals[0].role == "exponent" and _SUM.search(answer)):
            yield from _with_offsets(answer, numerals, _likely_offsets(numerals[0]))


def propose_wider_changes(answer: str) -> Iterator[Proposal]:
    """The answer with a part of a fraction changed by two or three, a decimal in its last place, a power in a sum."""
    for numerals in _linked(answer):
        first = numerals[0]
        steps = WIDER_STEPS.get(first.role, SMALL_STEPS if first.places else ())
        if first.role == "exponent" and _SUM.search(answer):
            steps = LIKELY_STEPS["exponent"]
        name = "last_digit" if first.places else "inner_number"
        yield from _with_offsets(answer, numerals, [(step, name) for step in steps])


def propose_single_changes(answer: str) -> Iterator[Proposal]:
    """The answer with one number changed of several that are the same."""
    for numerals in _linked(answer):
        for numeral in numerals if len(numerals) > 1 else ():
            yield from _with_offsets(answer, [numeral], _likely_offsets(numeral))


def propose_larger_changes(answer: str) -> Iterator[Proposal]:
    """The answer with one number changed by more."""
    for numeral in find_numerals(answer):
        name = "last_digit" if numeral.places else "plus_minus"
        steps = (*SMALL_STEPS, *LARGER_STEPS)
        offsets = [(step, name if numeral.places else f"{name}_{abs(step)}") for step in steps]
        yield from _with_offsets(answer, [numeral], offsets)


def propose_negative_numbers(answer: str) -> Iterator[Proposal]:
    """For 0 and 1: the values below."""
    if answer in {"0", "1"}:
        yield from (Proposal(str(int(answer) - step), f"plus_minus_{step}") for step in (1, 2) if int(answer) < step)


def _linked(answer: str) -> Iterable[list[Numeral]]:
    """The numerals of an answer, in lists and intervals together with the others of the same text and role."""
    numerals = find_numerals(answer)
    if not (is_unordered(answer) or is_interval(answer)):
        return [[numeral] for numeral in numerals]
    groups: dict[tuple[str, Role], list[Numeral]] = defaultdict(list)
    for numeral in numerals:
        groups[numeral.text, numeral.role].append(numeral)
    return groups.values()


def _likely_offsets(numeral: Numeral) -> list[Offset]:
    """Offsets in units of the numeral's last place."""
    unit, scaled = 10**numeral.places, numeral.scaled
    steps = [(step * unit, f"plus_minus_{abs(step)}") for step in LIKELY_STEPS[numeral.role]]
    if numeral.places:
        steps = [(offset, name) for offset, name in steps if scaled + offset >= scaled / CLOSE and -offset < scaled]
    if numeral.places and scaled < SMALL_DECIMAL * unit:
        steps = [(step, "last_digit") for step in SMALL_STEPS]
    tenth = round(Fraction(scaled, TEN_PERCENT))
    if numeral.role in {"whole", "inner"} and tenth > max(SMALL_STEPS):
        steps += [(sign * tenth, "plus_minus_10_percent") for sign in (1, -1)]
    return steps


def _with_offsets(answer: str, numerals: list[Numeral], offsets: Iterable[Offset]) -> Iterator[Proposal]:
    """The answer with the numerals, which are the same number, moved by each offset that leaves one in use."""
    for offset, name in offsets:
        changed: str | None = answer
        for numeral in reversed(numerals):
            changed = with_numeral(changed, numeral, numeral.scaled + offset) if changed is not None else None
        if changed is not None:
            yield Proposal(changed, _NAMES.get(numerals[0].role, name))
