r"""The parts of an answer, and faults of form that a student would see.

\frac{2}{4}, \sqrt{12}   can be simplified             1, 5, 3   not sorted             2, 2   an entry listed twice
(1, 1]                   an empty interval             2\frac{5}{4}   not a mixed number       October 32   no such day
"""

import math
import re
from calendar import monthrange
from itertools import pairwise

LEAP_YEAR = 2024
WORDS = [str.split(group, ", ") for group in (
    "January, February, March, April, May, June, July, August, September, October, November, December",
    "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve",
    "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    "north, northeast, east, southeast, south, southwest, west, northwest",
    "odd, even, neither, both, cannot be determined",
    "yes, no, maybe, sometimes, cannot be determined",
    "true, false, undefined, sometimes, cannot be determined",
    "circle, ellipse, parabola, hyperbola, line, two lines, point, empty",
    "triangle, square, rectangle, rhombus, trapezoid, pentagon, hexagon, octagon",
    "red, orange, yellow, green, blue, purple, gray, white, black, brown, pink",
)]  # fmt: skip
RATIO = re.compile(r"([0-9]+)(\s*:\s*)([0-9]+)")
_DATE = re.compile(rf"({'|'.join(WORDS[0])}) ([0-9]{{1,2}})(?![0-9])")
_NO_TIME = re.compile(r":(?:\\!)?[6-9][0-9](?![0-9])")
GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
ARGUMENT = rf"(?:{GROUP}|[0-9A-Za-z]|\\pi(?![A-Za-z]))"
FRACTION = re.compile(rf"(\\[dtc]?frac\s*)({ARGUMENT})(\s*)({ARGUMENT})|(?<![0-9.])([0-9]+)(\s*/\s*)([0-9]+)(?![0-9.])")
"""A fraction: its command and the blanks between the parts, or a slash between them."""
FUNCTION = r"\\(?:sin|cos|tan|cot|sec|csc|log|ln)(?![a-z])"
SYMBOL = rf"(?:[a-z](?![A-Za-z])|[a-z]{{2,3}}(?![A-Za-z])|\\(?:pi|theta|alpha|sqrt)(?![a-z])|{FUNCTION})"
UNIT = re.compile(
    r",\\!|\{,\}|\\?[$%]|\^\{?\\circ\}?|\\(?:text|mbox|textnormal|mathrm)\{[^{}]*\}(?:\s*\^\{?[23]\}?)?"
    r"|\\(?:left|right|approx)(?![A-Za-z])|\\[ ,!;]|\s"
)
_VALUE = re.compile(
    rf"(-?)([0-9]*\.?[0-9]*)(?:\\[dtc]?frac({ARGUMENT})({ARGUMENT})|/([0-9]+))?(?:(\\pi)|\\sqrt\{{?([0-9]{{1,9}})\}}?)?"
)
_SEPARATOR = re.compile(r"(\\[{}]|[(\[{)\]}]|,(?!\\!)|\\text\{[\s,]*(?:and|or)\s*\})")
_SET = re.compile(r"(\\\{|\\(?:text\w*|mbox)\{(?=[^{}]*\}$))(.*?)(\\?\})", re.DOTALL)
_SET_MARK = re.compile(r"\\infty|\\cup|(?<!\\sqrt)\[|(?<!\\sqrt\[[0-9])\]")
_ROOT = re.compile(r"\\sqrt(?:\s*\[([2-9])\])?\s*(?:\{([0-9]{1,9})\}|([0-9]))")
INTERVAL = re.compile(r"([(\[])([^()\[\],]*),([^()\[\],]*)([)\]])")


def _bare(argument: str) -> str:
    """An argument without the braces around it."""
    return argument[1:-1].strip() if argument.startswith("{") else argument


def entries_of(answer: str) -> list[str]:
    r"""The parts between the commas, `\text{and}` and `\text{or}` that stand outside all brackets."""
    entries, depth = [""], 0
    for piece in _SEPARATOR.split(answer):
        if depth == 0 and (piece == "," or piece.startswith("\\text{")):
            entries.append("")
            continue
        depth += piece in {"(", "[", "{", "\\{"}
        depth -= piece in {")", "]", "}", "\\}"}
        entries[-1] += piece
    return entries


def value_of(text: str) -> float | None:
    r"""The value of a number, fraction or multiple of π or of a root, a unit left out; None for anything else."""
    bare = UNIT.sub("", text)
    if bare.lstrip("-") == "\\infty":
        return -math.inf if bare.startswith("-") else math.inf
    found = _VALUE.fullmatch(bare)
    if found is None or not re.search(r"[0-9]|\\pi", bare):
        return None
    sign, whole, top, bottom, divisor, pi, radicand = found.groups()
    value = float(whole) if whole.strip(".") else 0.0 if top else 1.0
    if top:
        numerator, denominator = value_of(_bare(top)), value_of(_bare(bottom))
        if numerator is None or not denominator:
            return None
        value += numerator / denominator
    value *= (math.pi if pi else 1) * float(radicand or 1) ** 0.5 / (float(divisor or 1) or math.inf)
    return (-value if sign else value) / (100 if "%" in text else 1)


def find_faults(answer: str, is_probability: bool) -> tuple[int, ...]:
    """How often an answer has each fault: something to simplify, out of order, repeated, or that there is not."""
    value = value_of(answer) if is_probability else None
    roots = [(int(braced or digit), int(degree or 2)) for degree, braced, digit in _ROOT.findall(answer)]
    ratio, date = RATIO.fullmatch(answer), _DATE.search(answer)
    entries = [entry.strip() for entry in entries_of(set_parts(answer)[1])]
    values = [value for value in map(value_of, entries) if value is not None]
    return (
        sum(_is_faulty_fraction(answer, found) for found in FRACTION.finditer(answer)),
        sum(any(root % factor**degree == 0 for factor in range(2, min(root, 100) + 1)) for root, degree in roots),
        ratio is not None and math.gcd(int(ratio[1]), int(ratio[3])) > 1,
        len(set(entries)) < len(entries),
        len(values) == len(entries) and values != sorted(values),
        is_interval(answer) and _is_out_of_order(answer),
        date is not None and not 1 <= int(date[2]) <= monthrange(LEAP_YEAR, WORDS[0].index(date[1]) + 1)[1],
        _NO_TIME.search(answer) is not None,
        value is not None and not 0 <= value <= 1,
    )


def _is_out_of_order(answer: str) -> bool:
    """Whether an interval does not go from a smaller to a larger number, or overlaps or touches the next."""
    intervals = [found.groups() for found in INTERVAL.finditer(answer)]
    pairs = [(value_of(left), value_of(right), False) for _, left, right, _ in intervals]
    pairs += [(value_of(one[2]), value_of(other[1]), one[3] + other[0] == ")(") for one, other in pairwise(intervals)]
    known = [(one, other, may_touch) for one, other, may_touch in pairs if one is not None and other is not None]
    return any(one > other or (one == other and not may_touch) for one, other, may_touch in known)


def _is_faulty_fraction(answer: str, found: re.Match[str]) -> bool:
    """Whether a fraction can be reduced, or stands behind a whole number and is not less than 1."""
    *_, top, _, bottom = (_bare(part) for part in found.groups() if part is not None)
    is_mixed = answer[: found.start()].rstrip()[-1:].isdecimal() and (top + bottom).isdecimal()
    return math.gcd(_content(top), _content(bottom)) > 1 or (is_mixed and int(top) >= int(bottom))


def _content(part: str) -> int:
    r"""The greatest common divisor of a sum's coefficients: 2 for `4-6\sqrt{5}`."""
    terms = re.split(r"[-+]", re.sub(rf"{GROUP}|\([^()]*\)", "", part))
    leading = [re.match(r"\s*([0-9]+)(?![0-9.])", term) for term in terms if term.strip()]
    return math.gcd(*(int(found[1]) if found else 1 for found in leading)) if leading else 1


def is_interval(answer: str) -> bool:
    """Whether an answer is an interval or a union of some; two numbers in round brackets are a point."""
    return "matrix" not in answer and bool(_SET_MARK.search(answer) and INTERVAL.search(answer))


def set_parts(answer: str) -> tuple[str, str, str]:
    r"""The inside of `\{…\}` or `\text{…}` between what opens and closes it; of other answers all of it."""
    found = _SET.fullmatch(answer)
    return (found[1], found[2], found[3]) if found else ("", answer, "")
