r"""Numbers with their base written below: change one digit, or swap two.

422_8        -> 423_8, 412_8 (inner_number), 242_8 (digit_swap)
A5_{11}      -> A4_{11}, 95_{11} (inner_number): digits stay below the base
"""

import re
from collections.abc import Iterator

from cpmi_dagster.negatives.mistakes.proposal import Proposal

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LIKELY_STEPS = (1, -1)
WIDER_STEPS = (2, -2, 3, -3)
_IN_BASE = re.compile(r"([0-9A-Z]+)(\}?\s*_\{?([0-9]{1,2})\}?\.?)$")


def is_in_base(answer: str) -> bool:
    """Whether the answer is a number in a base written below it."""
    found = _IN_BASE.search(answer)
    return found is not None and all(digit in DIGITS[: int(found.group(3))] for digit in found.group(1))


def propose_digit_changes(answer: str) -> Iterator[Proposal]:
    """The number with one digit changed by one."""
    yield from _with_digit_changed(answer, LIKELY_STEPS)


def propose_wider_digit_changes(answer: str) -> Iterator[Proposal]:
    """The number with one digit changed by two or three, two neighbours swapped, or a digit more."""
    yield from _with_digit_changed(answer, WIDER_STEPS)
    before, digits, after, _ = _parts(answer)
    for place in range(len(digits) - 1):
        swapped = digits[:place] + digits[place + 1] + digits[place] + digits[place + 2 :]
        if swapped[0] != "0":
            yield Proposal(before + swapped + after, "digit_swap")
    yield from (Proposal(before + digits + digit + after, "inner_number") for digit in "01")


def _with_digit_changed(answer: str, steps: tuple[int, ...]) -> Iterator[Proposal]:
    before, digits, after, base = _parts(answer)
    for place, digit in enumerate(digits):
        for value in (DIGITS.index(digit) + step for step in steps):
            is_leading_zero = value == 0 and place == 0 and digits[0] != "0"
            if 0 <= value < base and not is_leading_zero:
                changed = digits[:place] + DIGITS[value] + digits[place + 1 :]
                yield Proposal(before + changed + after, "inner_number")


def _parts(answer: str) -> tuple[str, str, str, int]:
    """The text before the digits, the digits, the text after them, and the base."""
    found = _IN_BASE.search(answer)
    if found is None:
        raise ValueError(f"no number in a base: {answer!r}")
    return answer[: found.start()], found.group(1), found.group(2), int(found.group(3))
