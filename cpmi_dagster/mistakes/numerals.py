r"""Change one number of an answer.

18                 -> 19, 17 (plus_minus_1), 20, 16 (plus_minus_2), 20 (plus_minus_10_percent)
\frac{2}{3}        -> \frac{3}{3}, \frac{2}{4} (fraction_parts), \frac{3}{2} (fraction_swap)
2\sqrt{5}          -> 2\sqrt{6} (root), 3\sqrt{5} (inner_number)
\$1,\!250.50       -> \$1,\!251.50 (plus_minus_1)
422_8              -> 423_8: the base stays, digits stay below it
"""

import re
from collections.abc import Iterator
from math import isqrt
from typing import Literal, NamedTuple

from cpmi_dagster.mistakes.proposal import Proposal

Role = Literal["whole", "fraction", "root", "exponent", "inner"]

SMALL_STEPS = (1, -1, 2, -2)
LARGER_STEPS = (3, -3, 5, -5, 10, -10)
STEPS: dict[Role, tuple[int, ...]] = {
    "whole": SMALL_STEPS,
    "inner": SMALL_STEPS,
    "fraction": (1, -1),
    "root": SMALL_STEPS,
    "exponent": (1, -1),
}
TEN_PERCENT = 10
_NUMERAL = re.compile(r"[0-9]{1,3}(?:(?:,\\!|\{,\}|,)[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+")
_GROUPING = re.compile(r",\\!|\{,\}|,")
_BARE_FRACTION = re.compile(r"(\\[dtc]?frac)\s*(\d|\{[^{}]*\})\s*(\d|\{[^{}]*\})")
_BARE_ROOT = re.compile(r"\\sqrt\s*(\d)")
_FRACTION_PART = re.compile(r"(?:\\[dtc]?frac\{|\}\{)-?$")
_UNIT_POWER = re.compile(r"\\(?:text|mbox|mathrm)\{[^{}]*\}\s*\^\{?$")
_FACTOR_BEFORE = re.compile(
    r"\s*(?:[A-Za-z](?![A-Za-z])|\\(?:pi|sqrt|sin|cos|tan|cot|sec|csc|log|ln|theta)(?![A-Za-z]))"
)
_FRACTION = re.compile(r"(\\[dtc]?frac)\{(-?)([^{}]+)\}\{([^{}]+)\}|(?<![\d.])([0-9]+)(\s*/\s*)([0-9]+)(?![\d.])")
_NAMES = {"fraction": "fraction_parts", "root": "root", "exponent": "inner_number", "inner": "inner_number"}
_DECORATION = re.compile(r"\\?\$|\\?%|\^\{?\\circ\}?|\\(?:text|mbox|textnormal|mathrm)\{[^{}]*\}|\\[ ,!]|[\s-]")
_BASE = re.compile(r"_\{?([0-9]+)\}?$")


class Numeral(NamedTuple):
    """A number as it stands in an answer."""

    start: int
    end: int
    text: str
    role: Role


def brace_arguments(answer: str) -> str:
    r"""`\frac12` as `\frac{1}{2}` and `\sqrt2` as `\sqrt{2}`, so that edited numbers may grow."""
    return _BARE_ROOT.sub(r"\\sqrt{\1}", _BARE_FRACTION.sub(_braced, answer))


def _braced(fraction: re.Match[str]) -> str:
    command, *parts = fraction.groups()
    return command + "".join(part if part[0] == "{" else f"{{{part}}}" for part in parts)


def find_numerals(answer: str) -> list[Numeral]:
    """The numbers of an answer that may be changed, with the part they play; subscripts are left alone."""
    found = []
    for match in _NUMERAL.finditer(answer):
        before, after = answer[: match.start()], answer[match.end() :]
        is_right_side = match.group() == "0" and before.rstrip().endswith("=")
        if is_right_side or before.endswith(("_", "_{")) or _UNIT_POWER.search(before):
            continue
        found.append(Numeral(match.start(), match.end(), match.group(), _role(before, after)))
    return found


def propose_number_changes(answer: str) -> Iterator[Proposal]:
    """The answer with one number changed by one, two or ten per cent, as the number's role allows.

    Args:
        answer: Gold answer, as `brace_arguments` leaves it.
    """
    for numeral in find_numerals(answer):
        yield from _with_numeral(answer, numeral, _small_offsets(numeral))


def propose_larger_changes(answer: str) -> Iterator[Proposal]:
    """The answer with one number changed by more, or in its last digit."""
    for numeral in find_numerals(answer):
        unit = 10 ** _places(numeral)
        offsets = [(step, "last_digit") for step in SMALL_STEPS] if unit > 1 else []
        offsets += [(step * unit, f"plus_minus_{abs(step)}") for step in (*SMALL_STEPS, *LARGER_STEPS)]
        yield from _with_numeral(answer, numeral, offsets)


def propose_fraction_swaps(answer: str) -> Iterator[Proposal]:
    """The answer with one fraction turned upside down."""
    for found in _FRACTION.finditer(answer):
        command, sign, top, bottom, plain_top, slash, plain_bottom = found.groups()
        if "1" in {top, plain_top}:
            continue
        swapped = f"{command}{{{sign}{bottom}}}{{{top}}}" if command else f"{plain_bottom}{slash}{plain_top}"
        yield Proposal(answer[: found.start()] + swapped + answer[found.end() :], "fraction_swap")


def is_plain_number(answer: str) -> bool:
    """Whether the answer is one number, perhaps with a currency, percent, degree or unit."""
    numerals = find_numerals(answer)
    return len(numerals) == 1 and numerals[0].role == "whole"


def _role(before: str, after: str) -> Role:
    if not _DECORATION.sub("", before + after).strip("."):
        return "whole"
    if before.endswith(("^", "^{")):
        return "exponent"
    if before.endswith("\\sqrt{") and after.startswith("}"):
        return "root"
    in_braces = _FRACTION_PART.search(before) and after.startswith("}")
    beside_slash = re.match(r"\s*/\s*\d", after) or re.search(r"\d\s*/\s*$", before)
    return "fraction" if in_braces or beside_slash else "inner"


def _small_offsets(numeral: Numeral) -> list[tuple[int, str]]:
    unit, scaled = 10 ** _places(numeral), _scaled(numeral)
    offsets = [(step * unit, f"plus_minus_{abs(step)}") for step in STEPS[numeral.role]]
    tenth = round(scaled / TEN_PERCENT)
    if numeral.role in {"whole", "inner"} and tenth > 0:
        offsets += [(sign * tenth, "plus_minus_10_percent") for sign in (1, -1)]
    return offsets


def _with_numeral(answer: str, numeral: Numeral, offsets: list[tuple[int, str]]) -> Iterator[Proposal]:
    """The answer with the numeral moved by each offset that leaves a number one would write there."""
    before, after = answer[: numeral.start], answer[numeral.end :]
    unit, scaled, base = 10 ** _places(numeral), _scaled(numeral), _BASE.search(answer)
    smallest = 0 if numeral.role == "whole" else _smallest(numeral.role, before, after) * unit
    for offset, name in offsets:
        value = scaled + offset
        if value < smallest or (numeral.role == "root" and isqrt(value) ** 2 == value):
            continue
        changed = _written(value, numeral)
        if base and any(not digit.isdigit() or int(digit) >= int(base.group(1)) for digit in changed):
            continue
        yield Proposal(before + changed + after, _NAMES.get(numeral.role, name))


def _smallest(role: Role, before: str, after: str) -> int:
    """No 1 before a letter or as a denominator, no 0 behind a minus sign."""
    if role in {"root", "exponent"} or _FACTOR_BEFORE.match(after) or before.endswith(("}{", "/")):
        return 2
    return 1 if role == "fraction" or before.rstrip().endswith(("-", "+")) or re.match(r"\s*[-+]", after) else 0


def _places(numeral: Numeral) -> int:
    return len(numeral.text.partition(".")[2])


def _scaled(numeral: Numeral) -> int:
    """The number in units of its last decimal place."""
    return int(_GROUPING.sub("", numeral.text).replace(".", ""))


def _written(scaled: int, numeral: Numeral) -> str:
    """A number with as many decimals, leading zeros and thousands separators as the one it replaces."""
    separator, places = _GROUPING.search(numeral.text), _places(numeral)
    whole, decimals = divmod(scaled, 10**places)
    text = f"{whole:,}".replace(",", separator.group()) if separator else str(whole)
    if numeral.text.startswith("0") and not places:
        text = text.zfill(len(numeral.text))
    if numeral.text.startswith("."):
        text = text.lstrip("0")
    return f"{text}.{decimals:0{places}d}" if places else text
