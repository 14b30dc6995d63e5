r"""Edits of a gold answer, each with one change (section 5.1).

18            19 (plus_minus_1), 16 (plus_minus_2)       180           198 (plus_minus_10_percent)
\frac{2}{3}   \frac{1}{3} (fraction_parts)              \frac{2}{3}   \frac{3}{2} (fraction_swap)
2\sqrt{5}     2\sqrt{6} (root)                          0.25          0.26 (last_digit)
x^2-3x        x^2+3x (operator_substitution)            (3, -2)       (3, 2) (sign_inversion)
x^2-3x        x^2-4x (inner_number)                     \pi           2\pi (multiple)
\text{(B)}    \text{(C)} (letter)                       \text{odd}    \text{even} (word)
\text{Evelyn} \text{Alice} (phrase)

Reducible fractions and roots that the gold answer does not have, and values that are no probability, come last.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise
from string import ascii_uppercase
from typing import NamedTuple

from cpmi_dagster.answers.forms import Quantity, read_form
from cpmi_dagster.answers.plain_text import plain_text
from cpmi_dagster.answers.values import real_value

LIKELY, LESS_LIKELY, LAST_RESORT, FAULTY = range(4)

Edit = tuple[int, str, str]
"""Rank (0 is likely), edited answer, name of the heuristic."""


@lru_cache(maxsize=1 << 14)
def rank_edits(answer: str, is_probability: bool) -> list[list[list[tuple[str, str]]]]:
    """The edits of an answer and their heuristics, by tier, likely ones first, and within a tier by heuristic."""
    faults = _count_faults(answer, is_probability)
    tiers: dict[int, dict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
    seen = {answer}
    makers = (_change_numbers, _invert_signs, _swap_fractions, _exchange_operators, _multiply, _exchange_words)
    edits = chain.from_iterable(make(answer) for make in makers)
    for rank, edited, heuristic in sorted(edits, key=lambda edit: edit[0]):
        if edited not in seen and _has_digits_of_base(edited):
            seen.add(edited)
            more = sum(map(int.__gt__, _count_faults(edited, is_probability), faults))
            tiers[rank + FAULTY * more][heuristic].append((edited, heuristic))
    return [list(tiers[rank].values()) for rank in sorted(tiers)]


_GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_ARGUMENT = rf"(?:{_GROUP}|[0-9A-Za-z]|\\pi(?![A-Za-z]))"
_FRACTION = re.compile(
    rf"(\\[dtc]?frac\s*)({_ARGUMENT})(\s*)({_ARGUMENT})|(?<![0-9.])([0-9]+)(\s*/\s*)([0-9]+)(?![0-9.])"
)
_ROOT = re.compile(r"\\sqrt(?:\s*\[([2-9])\])?\s*(?:\{([0-9]{1,9})\}|([0-9]))")
_IN_BASE = re.compile(r"([0-9A-Z]+)\}?\s*_\{?([0-9]{1,2})\}?\.?$")


def _count_faults(answer: str, is_probability: bool) -> tuple[int, ...]:
    """Numbers of reducible fractions and roots, and 1 if the answer should be a probability but is none."""
    fractions = [[part.strip("{}") for part in match.groups("")] for match in _FRACTION.finditer(answer)]
    parts = [(top or left, bottom or right) for _, top, _, bottom, left, _, right in fractions]
    roots = [(int(braced or digit), int(degree or 2)) for degree, braced, digit in _ROOT.findall(answer)]
    form = read_form(plain_text(answer)) if is_probability else None
    value = real_value(form.value) if isinstance(form, Quantity) and form.value.numbers else None
    return (
        sum(top.isdecimal() and bottom.isdecimal() and math.gcd(int(top), int(bottom)) > 1 for top, bottom in parts),
        sum(any(root % factor**degree == 0 for factor in range(2, min(root, 100) + 1)) for root, degree in roots),
        int(value is not None and not 0 <= value <= (100 if isinstance(form, Quantity) and form.is_percent else 1)),
    )


def _has_digits_of_base(answer: str) -> bool:
    match = _IN_BASE.search(answer)
    return match is None or all(int(digit, 36) < int(match[2]) for digit in match[1])


_WITH_COMMAS = r"[0-9]{1,3}(?:(?:,\\!|\{,\}|,)[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]*\.[0-9]+|[0-9]+"
_NUMBER = re.compile(_WITH_COMMAS.replace(r"|,)", ")"))
_NUMBER_WITH_COMMAS = re.compile(_WITH_COMMAS)
_UNIT = re.compile(
    r",\\!|\{,\}|\\?[$%]|\^\{?\\circ\}?|\\(?:text|mbox|textnormal|mathrm)\{[^{}]*\}(?:\s*\^\{?[23]\}?)?"
    r"|\\(?:left|right|approx)(?![A-Za-z])|\\[ ,!;]|\s"
)
_NO_ANSWER_PART = re.compile(r"(?:_\{?|\\sqrt\s*\[|\\(?:text|mbox|mathrm)\{[^{}]*\}\s*\^\{?)$")
_BARE_ARGUMENT = re.compile(rf"(?:\\[dtc]?frac\s*(?:{_ARGUMENT}\s*)?|\\sqrt\s*|\^)$")
_BEFORE = [
    ("exponent", re.compile(r"\^\{?-?$")),
    ("root", re.compile(r"\\sqrt(?:\s*\[[^\[\]]*\])?\s*\{?$")),
    ("bottom", re.compile(rf"(?:\\[dtc]?frac\s*{_ARGUMENT}\s*\{{?|/\s*)$")),
    ("fraction", re.compile(r"\\[dtc]?frac\s*\{?-?$")),
]
_FUNCTION = r"\\(?:sin|cos|tan|cot|sec|csc|log|ln)(?![a-z])"
_SYMBOL = rf"(?:[a-z](?![A-Za-z])|[a-z]{{2,3}}(?![A-Za-z])|\\(?:pi|theta|alpha|sqrt)(?![a-z])|{_FUNCTION})"
_FACTOR = re.compile(rf"\s*(?:{_SYMBOL}|[A-Z](?![A-Za-z]))")
_SCIENTIFIC = re.compile(r"(?:\\times|\\cdot|[*×·xX])\s*10\s*(?=\^|\*\*|[⁰¹²³⁴-⁹⁻])")
_MORE_OF_TERM = re.compile(rf"\s*(?:[-+:/]|\\[dtc]?frac)|{_FACTOR.pattern}")


class _Number(NamedTuple):
    """A number in an answer.

    Attributes:
        start: position of its first digit.
        role: `whole` (the whole answer), `fraction` (numerator), `bottom` (denominator), `root`, `exponent` or `inner`.
        least: the smallest number that makes sense there.
    """

    start: int
    text: str
    role: str
    least: int

    @property
    def unit(self) -> int:
        """How many units of the last place make 1."""
        return 10 ** len(self.text.partition(".")[2])

    @property
    def scaled(self) -> int:
        """The number in units of its last place."""
        return int(re.sub(r"[^0-9]", "", self.text))

    def write(self, scaled: int) -> str:
        """Write another number with the same decimals, leading zeros and thousands separators."""
        separator = re.search(r"[^0-9.]+", self.text)
        whole, decimals = divmod(scaled, self.unit)
        text = f"{whole:,}".replace(",", separator.group()) if separator else str(whole)
        if self.unit > 1:
            return f"{text.lstrip('0') if self.text[0] == '.' else text}.{str(decimals).zfill(len(str(self.unit)) - 1)}"
        return text.zfill(len(self.text)) if self.text[0] == "0" else text


def _change_numbers(answer: str) -> Iterator[Edit]:
    for number in _find_numbers(answer):
        for rank, offset, heuristic in _list_offsets(number):
            if (edited := _move(answer, number, offset)) is not None:
                yield rank, edited, heuristic


def _list_offsets(number: _Number) -> Iterator[tuple[int, int, str]]:
    """Rank of a change, the change in units of the last place, and the heuristic."""
    is_part = number.role in {"fraction", "bottom", "exponent"}
    is_small_decimal = number.unit > 1 and number.scaled < 2 * number.unit
    unit = 1 if is_small_decimal else number.unit
    names = {"fraction": "fraction_parts", "bottom": "fraction_parts", "root": "root", "whole": ""}
    name = names.get(number.role, "inner_number") or ("last_digit" if is_small_decimal else "")
    tenth = (number.scaled + 5) // 10
    for sign in (1, -1):
        for step in (1, 2):
            yield LESS_LIKELY if is_part and step > 1 else LIKELY, sign * step * unit, name or f"plus_minus_{step}"
        if number.role in {"whole", "inner"} and tenth > 2:
            yield LIKELY, sign * tenth, name or "plus_minus_10_percent"
        for step in (3, 5, 10):
            yield LAST_RESORT, sign * step * unit, name or f"plus_minus_{step}"


def _move(answer: str, number: _Number, offset: int) -> str | None:
    """The answer with one number changed; None if the result makes no sense."""
    scaled = number.scaled + offset
    if scaled < number.least:
        return None
    text, before, after = number.write(scaled), answer[: number.start], answer[number.start + len(number.text) :]
    if text == "1" and number.role == "inner" and _FACTOR.match(after) and not re.match(r"[eE][-+]?[0-9]", after):
        return before + after.lstrip()
    return before + (f"{{{text}}}" if len(text) > 1 and _BARE_ARGUMENT.search(before) else text) + after


def _find_numbers(answer: str) -> Iterator[_Number]:
    r"""The numbers of an answer, except subscripts, root indices, powers of units and the 10 of `\times 10^3`."""
    pattern = _NUMBER if re.search(r"[(\[]|\\\{", answer) else _NUMBER_WITH_COMMAS
    end, bases = 0, {match.end() for match in _SCIENTIFIC.finditer(answer)}
    while match := pattern.search(answer, end):
        before = answer[: match.start()]
        is_argument = match[0][0] != "." and _BARE_ARGUMENT.search(before) is not None
        end = match.start() + 1 if is_argument else match.end()
        if not _NO_ANSWER_PART.search(before) and match.end() not in bases:
            role, least = _role(before, answer[end:], is_argument)
            yield _Number(match.start(), answer[match.start() : end], role, least)


def _role(before: str, after: str, is_argument: bool) -> tuple[str, int]:
    """Role and smallest sensible value of a number: no denominator or power of 1, no factor of 0."""
    if not _UNIT.sub("", before + after).strip(".-"):
        return "whole", int(before.rstrip().endswith("-"))
    role = next((role for role, pattern in _BEFORE if pattern.search(before)), "inner")
    least = 2 if role in {"exponent", "root", "bottom"} or re.match(r"\s*(?:\^(?!\{?\\circ)|\()", after) else 0
    is_whole_argument = is_argument or after.startswith("}") or before.rstrip().endswith("/")
    if re.match(r"\s*/\s*[0-9]", after):
        role = "fraction"
    elif not is_whole_argument and role != "exponent":
        role = "inner"
    is_term = role == "fraction" or before.rstrip().endswith(("-", "+", ":")) or _MORE_OF_TERM.match(after)
    return role, least or int(bool(is_term))


_ENTRY = re.compile(
    r"(?:^|(?<=[(\[,&=])|(?<=\\\{)|(?<=matrix\})|(?<=\\\\))(?:\s|\\[,; ])*(?:\\[dtc]?frac\s*\{(?=-))?"
    rf"(?P<sign>-?)\s*(?!0(?![.0-9]))(?=\.?[0-9]|\\[dtc]?frac|{_SYMBOL})"
)
_SIGNED = re.compile(r"[-+=&(]|(?<!\\),(?!\\!|\}|[0-9]{3}(?![0-9]))|(?<![A-Za-z\\])[a-z](?![A-Za-z])")
_RELATION = re.compile(r"[<>]|\\(?:le|ge)q?(?![A-Za-z])")
_BINARY = re.compile(r"(?<=[0-9A-Za-z)}\]])\s*([+-])(?=\s*[0-9A-Za-z\\({.])")
_NO_OPERAND = re.compile(
    r"(?:matrix\}|\\(?!pi|theta|alpha|circ|infty)[A-Za-z]+|(?<![A-Za-z])(?:or|and)\s*\}?|\{[lcr|]+\})\s*$"
)
_EXCHANGES = {"<": "\\le", ">": "\\ge", "\\le": "<", "\\ge": ">", "\\leq": "<", "\\geq": ">"}
_TERM = re.compile(rf"(?:^|(?<=[-+=(\[,&{{]))\s*(?={_SYMBOL})(?!\w+(?:\(\w\))?\s*=)")
_NO_TERM = re.compile(rf"(?:\\(?:text|mbox|mathrm)|matrix|array|(?:\w|{_FUNCTION})\s*(?:\\left\s*)?\($)")


def _invert_signs(answer: str) -> Iterator[Edit]:
    """Invert the sign of the answer, or of one entry of a tuple, list or matrix."""
    rank = LIKELY if _SIGNED.search(answer) else FAULTY
    for match in _ENTRY.finditer(answer) if ":" not in answer else ():
        before, after = answer[: match.start("sign")], answer[match.end() :]
        is_side = re.match(r"[A-Za-z()]+\s*=", after) or (not before and re.search(rf"=|{_RELATION.pattern}", answer))
        is_factor = before.rstrip().endswith(("(", "[")) and ("," not in answer or re.match(r"[^(),]*\)", after))
        if not (is_side or is_factor):
            yield rank, before + ("" if match["sign"] else "-") + after, "sign_inversion"


def _exchange_operators(answer: str) -> Iterator[Edit]:
    """Exchange one `+` and `-`, or one strict and non-strict relation; replace the real line by a half line."""
    for match in _BINARY.finditer(answer):
        before, after = answer[: match.start(1)], answer[match.end() :]
        if not _NO_OPERAND.search(before):
            yield LIKELY, before + ("-" if match[1] == "+" else "+") + after, "operator_substitution"
    for match in _RELATION.finditer(answer):
        other, after = _EXCHANGES[match[0]], answer[match.end() :]
        gap = " " if other[-1].isalpha() and after[:1].isalnum() else ""
        yield LIKELY, answer[: match.start()] + other + gap + after, "operator_substitution"
    if answer.replace(" ", "") == "(-\\infty,\\infty)":
        halves = ("(-\\infty,0)", "(0,\\infty)", "(-\\infty,0)\\cup(0,\\infty)", "[0,\\infty)")
        yield from ((LIKELY, half, "half_line") for half in halves)


def _swap_fractions(answer: str) -> Iterator[Edit]:
    """Invert one fraction, except in mixed numbers and with a numerator of 1."""
    for match in _FRACTION.finditer(answer):
        before, after = answer[: match.start()], answer[match.end() :]
        *command, top, between, bottom = (part for part in match.groups() if part is not None)
        if top.strip("{}") not in {"", "1"} and "-" not in top[:2] and not before.rstrip()[-1:].isdecimal():
            bottom = f"{{{bottom}}}" if command and bottom.isalpha() else bottom
            swapped = "".join([before, *command, bottom, between, top, after])
            yield LESS_LIKELY if "\\" in top else LIKELY, swapped, "fraction_swap"


def _multiply(answer: str) -> Iterator[Edit]:
    """Put a factor before a term without one, in a list before every such term; add a digit to a number in a base."""
    if match := _IN_BASE.search(answer):
        yield from (
            (LAST_RESORT, answer[: match.end(1)] + digit + answer[match.end(1) :], "inner_number") for digit in "01"
        )
    if _NO_TERM.search(answer) or answer.lower() in GROUP_OF:
        return
    places = [match.end() for match in _TERM.finditer(answer) if not _NO_TERM.search(answer[: match.end()])]
    for some in [places] if "," in answer else [[place] for place in places]:
        pieces = [answer[start:end] for start, end in pairwise([0, *some, len(answer)])]
        for factor in "2345":
            yield LESS_LIKELY if factor < "4" else LAST_RESORT, factor.join(pieces), "multiple"


_WORDS = [str.split(group, ", ") for group in (
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
    "Alice, Ben, Carla, David, Evelyn, Frank, Maria, Sam, Angela, Briana",
)]  # fmt: skip
_PHRASES = ("none", "all of them", "cannot be determined", "no solution", "undefined")
GROUP_OF = {word.lower(): group for group in reversed(_WORDS) for word in group}
_TEXT = re.compile(r"\\(?:text\w*|mbox|mathrm|mathbf)\{([^{}]*)\}")
_WORD = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")
_LETTER = re.compile(r"(?<![a-z\\])[A-Z](?![a-z])")


def _exchange_words(answer: str) -> Iterator[Edit]:
    """Exchange one letter, word or name for another of its kind, or a phrase for a stock phrase."""
    if not re.search(r"[0-9a-z+=^_-]", re.sub(r"\\[A-Za-z]+", "", answer)):
        letters = _LETTER.findall(answer)
        last = max(5, 1 + ascii_uppercase.find(max(letters, default="A")))
        others = [option for option in ascii_uppercase[:last] if option not in letters][-5:]
        for match in _LETTER.finditer(answer):
            yield from ((LIKELY, answer[: match.start()] + other + answer[match.end() :], "letter") for other in others)
    spans = [match.span(1) for match in _TEXT.finditer(answer)] or ([] if "\\" in answer else [(0, len(answer))])
    for match in (match for start, end in spans for match in _WORD.finditer(answer, start, end)):
        word, before, after = match[0], answer[: match.start()], answer[match.end() :]
        group, rank, heuristic = GROUP_OF.get(word.lower(), ()), LIKELY, "word"
        if not group and len(word) > 2 and not word.isupper() and not re.search(r"[0-9]", answer):
            is_name = word[0].isupper() and " " not in word
            group, rank, heuristic = GROUP_OF["alice"] if is_name else _PHRASES, LESS_LIKELY, "phrase"
        for other in group:
            yield rank, before + (other.capitalize() if word[0].isupper() else other) + after, heuristic
