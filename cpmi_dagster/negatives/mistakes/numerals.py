r"""The numbers of an answer, the role of each, and how another number is written in its place.

3x^{2}+\frac{5}{8}  -> Numeral("3", inner), Numeral("2", exponent), Numeral("5", fraction), Numeral("8", fraction)
\$1,\!250.50        -> Numeral("1,\!250.50", whole), in cents: 125050; 125150 is written 1,\!251.50
(6,235^\circ)       -> Numeral("6", inner), Numeral("235", inner): between brackets a comma separates
"""

import re
from math import isqrt
from typing import Literal, NamedTuple

Role = Literal["whole", "fraction", "root", "exponent", "inner"]

LARGEST_RADICAND = 10**12
_NUMERAL = re.compile(r"[0-9]{1,3}(?:(?:,\\!|\{,\}|,)[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+")
_NUMERAL_IN_BRACKETS = re.compile(_NUMERAL.pattern.replace(r"|,)", ")", 1))
_BRACKETS = re.compile(r"[(\[]|\\\{")
_GROUPING = re.compile(r",\\!|\{,\}|,")
_FRACTION_PART = re.compile(r"(?:\\[dtc]?frac\{|\}\{)-?$")
_UNIT_POWER = re.compile(r"\\(?:text|mbox|mathrm)\{[^{}]*\}\s*\^\{?$")
_NO_ANSWER_PART = re.compile(r"(?:_\{?|\\sqrt\s*\[)$")
_FACTOR = re.compile(
    r"\s*(?:[A-Za-z](?![A-Za-z])|[abcnrsxyz]{2}(?![A-Za-z])|\\(?:pi|sqrt|sin|cos|tan|cot|sec|csc|log|ln|theta)(?![A-Za-z]))"
)
_ROOT = re.compile(r"\\sqrt(?:\s*\[([0-9]{1,2})\])?\{$")
_POWER_OF = re.compile(r"\s*(?:\^(?!\{?\\circ)|\()|\)\s*[(\w]")
_FRACTION_BEHIND = re.compile(r"\s*\\[dtc]?frac\{[0-9]+\}\{[0-9]+\}")
_DECORATION = re.compile(
    r"\\approx|\\?\$|\\?%|\^\{?\\circ\}?|\\(?:text|mbox|textnormal|mathrm)\{[^{}]*\}(?:\s*\^\{?[23]\}?)?|\\[ ,!]|[\s-]"
)


class Numeral(NamedTuple):
    """A number as it stands in an answer."""

    start: int
    end: int
    text: str
    role: Role

    @property
    def places(self) -> int:
        """Digits after the point."""
        return len(self.text.partition(".")[2])

    @property
    def scaled(self) -> int:
        """The number in units of its last place."""
        return int(_GROUPING.sub("", self.text).replace(".", ""))

    def written(self, scaled: int) -> str:
        """A number with as many decimals, leading zeros and thousands separators as this one."""
        separator = _GROUPING.search(self.text)
        whole, decimals = divmod(scaled, 10**self.places)
        text = f"{whole:,}".replace(",", separator.group()) if separator else str(whole)
        if self.text.startswith("0") and not self.places:
            text = text.zfill(len(self.text))
        if self.text.startswith("."):
            text = text.lstrip("0")
        return f"{text}.{decimals:0{self.places}d}" if self.places else text


def find_numerals(answer: str) -> list[Numeral]:
    """The numbers of an answer that may be changed; subscripts, degrees of roots and `= 0` are left alone."""
    found = []
    pattern = _NUMERAL_IN_BRACKETS if _BRACKETS.search(answer) else _NUMERAL
    for match in pattern.finditer(answer):
        before, after = answer[: match.start()], answer[match.end() :]
        is_right_side = match.group() == "0" and before.rstrip().endswith("=")
        if not (is_right_side or _NO_ANSWER_PART.search(before) or _UNIT_POWER.search(before)):
            found.append(Numeral(match.start(), match.end(), match.group(), _role(before, after)))
    return found


def with_numeral(answer: str, numeral: Numeral, scaled: int) -> str | None:
    """The answer with another number in the numeral's place, given in units of the numeral's last place.

    Returns:
        None where one would not write that number: a square under a root, a negative, a factor or power of 0, …
    """
    before, after = answer[: numeral.start], answer[numeral.end :]
    if scaled < _smallest(numeral.role, before, after) * 10**numeral.places:
        return None
    if numeral.role == "root" and _has_root(scaled, before):
        return None
    if scaled == 1 and not numeral.places and numeral.role != "exponent" and _FACTOR.match(after):
        return before + after.lstrip()
    return before + numeral.written(scaled) + after


def _has_root(radicand: int, before: str) -> bool:
    """Whether a radicand's root, of the degree written before it, is a whole number."""
    found = _ROOT.search(before)
    degree = int(found.group(1) or 2) if found else 2
    if degree == 2 or radicand > LARGEST_RADICAND:
        return isqrt(radicand) ** 2 == radicand
    return degree > 0 and round(radicand ** (1 / degree)) ** degree == radicand


def is_plain_number(answer: str) -> bool:
    """Whether the answer is one number, perhaps with a currency, percent, degree or unit."""
    numerals = find_numerals(answer)
    return len(numerals) == 1 and numerals[0].role == "whole"


def _role(before: str, after: str) -> Role:
    if not _DECORATION.sub("", before + after).strip("."):
        return "whole"
    if before.endswith(("^", "^{")):
        return "exponent"
    if _ROOT.search(before) and after.startswith("}"):
        return "root"
    in_braces = _FRACTION_PART.search(before) and after.startswith("}")
    beside_slash = re.match(r"\s*/\s*\d", after) or re.search(r"\d\s*/\s*$", before)
    return "fraction" if in_braces or beside_slash else "inner"


def _smallest(role: Role, before: str, after: str) -> int:
    """No 1 as a power, its base, a denominator or before a bracket; no 0 as a factor or behind a sign."""
    if role == "whole":
        return 0
    if role in {"root", "exponent"} or _POWER_OF.match(after) or before.endswith(("}{", "/")):
        return 2
    is_term = before.rstrip().endswith(("-", "+")) or re.match(r"\s*[-+]", after)
    is_factor = _FACTOR.match(after) or _FRACTION_BEHIND.match(after)
    is_part = re.match(r"\s*:", after) or re.search(r":\s*$", before)
    return 1 if role == "fraction" or is_term or is_factor or is_part else 0
