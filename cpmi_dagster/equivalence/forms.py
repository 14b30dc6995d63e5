r"""What kind of answer a text is.

"5225 \text{ cubic inches}"  -> Quantity({1: 5225}, unit="cubic inch")
"73\%"                       -> Quantity({1: 73}, percent=True)
"x = -2"                     -> Quantity({1: -2})              (an assignment is its right side)
"2x + y = 7"                 -> Equation(2x + y - 7)
"(3, \frac{\pi}{2})"         -> Collection("()", [3, π/2])
"1, -2" or "\{1, -2\}"       -> Collection("", [1, -2])
"\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}" -> Collection("matrix", [row, row])
"(-\infty, 2) \cup [3, 4)"   -> Collection("cup", [interval, interval])
"\text{Sunday}"              -> Words("sunday")
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from cpmi_dagster.equivalence.expressions import read_expression
from cpmi_dagster.equivalence.plain_text import plain_text
from cpmi_dagster.equivalence.polynomials import Polynomial, Undecidable, add, as_rational, scale
from cpmi_dagster.equivalence.units import split_unit

MAX_CHARACTERS = 400
CACHED_FORMS = 1 << 16
SET_OPERATIONS = ("cup", "cap")

_NUMBER_WORDS = {
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z]{1,3}(?:_\{?\w\}?)?(?:\([A-Za-z]\))?\s*$")
_MATRIX = re.compile(r"\\begin\{([pbB]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_LIST_COMMA = re.compile(r"\s*(?:,|;)?\s*(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])\s*|\s*[,;]\s*")
_WORDS = re.compile(r"[A-Za-z][A-Za-z '’.-]*")
_RELATION = re.compile(r"\\(?:le|ge|ne|in|equiv)(?![A-Za-z])|[<>|]|\\begin|\\dots")
_OPTION = re.compile(r"\(([A-Z])\)")
_DECIMALS = re.compile(r"\.(\d+)")
_IN_BASE = re.compile(r"(-?[0-9A-F.]+)_\{?(\d+|[A-Za-z]+)\}?")


@dataclass(frozen=True)
class Quantity:
    """A number or an expression, perhaps with a unit or a percent sign; `decimals` counts digits after the point."""

    value: Polynomial
    unit: str = ""
    percent: bool = False
    decimals: int = 0


@dataclass(frozen=True)
class Words:
    """Short text, in lower case."""

    text: str


@dataclass(frozen=True)
class InBase:
    """Digits with a base written below, e.g. `422_8`."""

    digits: str
    base: str


@dataclass(frozen=True)
class Equation:
    """An equation that is no assignment, as left side minus right side."""

    difference: Polynomial


@dataclass(frozen=True)
class Collection:
    """Several answers in one. `brackets` is `""` for lists and sets, whose order does not count, else its kind."""

    brackets: str
    items: tuple["Form", ...]


Form = Quantity | Words | InBase | Equation | Collection


@lru_cache(maxsize=CACHED_FORMS)
def read_form(answer: str) -> Form | None:
    """The form of an answer; None where it is none of those above."""
    if len(answer) > MAX_CHARACTERS:
        return None
    try:
        return _read(plain_text(answer))
    except (Undecidable, RecursionError):
        return None


def _read(text: str) -> Form:
    if not text:
        raise Undecidable("empty")
    readers: tuple[Callable[[str], Form | None], ...] = (
        _read_words, _read_matrix, _read_in_base, _read_union, _read_brackets, _read_list, _read_ratio, _read_sides,
    )  # fmt: skip
    for reader in readers:
        if (form := reader(text)) is not None:
            return form
    return _read_quantity(text)


def _read_words(text: str) -> Form | None:
    if option := _OPTION.fullmatch(text):
        return Words(option.group(1).lower())
    if not _WORDS.fullmatch(text) or len(text) == 1 or (len(text) <= 3 and text.islower() and text.isalpha()):
        return None
    words = text.lower().strip(" .'’-")
    return _read_quantity(_NUMBER_WORDS[words]) if words in _NUMBER_WORDS else _words_or_list(words)


def _words_or_list(words: str) -> Form:
    parts = [part for part in _LIST_COMMA.split(words) if part]
    return Words(" ".join(words.split())) if len(parts) < 2 else Collection("", tuple(Words(part) for part in parts))


def _read_matrix(text: str) -> Form | None:
    matrix = _MATRIX.fullmatch(text)
    if matrix is None:
        return None
    rows = [row for row in matrix.group(2).split("\\\\") if row.strip()]
    return Collection("matrix", tuple(_each("row", row.split("&")) for row in rows))


def _read_in_base(text: str) -> Form | None:
    in_base = _IN_BASE.fullmatch(text.replace(" ", ""))
    return InBase(in_base.group(1), in_base.group(2)) if in_base else None


def _read_union(text: str) -> Form | None:
    r"""A union, or an intersection, of sets."""
    kind = next((name for name in SET_OPERATIONS if f"\\{name}" in text), None)
    return _each(kind, text.split(f"\\{kind}")) if kind else None


def _read_brackets(text: str) -> Form | None:
    r"""A tuple or interval, or a set in `\{ \}`; brackets around a single value only group."""
    if text.startswith("\\{") and text.endswith("\\}"):
        return _each("", split_top_level(text[2:-2]))
    if text[0] not in "([" or text[-1] not in ")]":
        return None
    items = split_top_level(text[1:-1])
    return _each(text[0] + text[-1], items) if len(items) > 1 and _is_balanced(text[1:-1]) else None


def _read_list(text: str) -> Form | None:
    if "\\pm" in text:
        return _each("", [text.replace("\\pm", "+"), text.replace("\\pm", "-")])
    items = split_top_level(text)
    return _each("", items) if len(items) > 1 else None


def _read_ratio(text: str) -> Form | None:
    return _each(":", re.split(r"\s*(?::|\bto\b)\s*", text)) if re.search(r"\d\s*(?::|\bto\b)\s*\d", text) else None


def _read_sides(text: str) -> Form | None:
    """An assignment or a chain of equal numbers is its last side; other equations keep both sides."""
    if "=" not in text or _RELATION.search(text):
        return None
    *left, right = (side.strip() for side in text.split("="))
    if all(_ASSIGNMENT.match(side) for side in left):
        return _read(right)
    values = [read_expression(side) for side in [*left, right]]
    if all(as_rational(value) is not None for value in values):
        return _read(right)
    if len(values) > 2:
        raise Undecidable("chain of equations")
    return Equation(add(values[0], scale(values[1], -1)))


def _read_quantity(text: str) -> Form:
    value, unit = split_unit(text)
    percent = value.endswith("%")
    decimals = _DECIMALS.search(value)
    return Quantity(
        read_expression(value.removesuffix("%").strip()), unit, percent, len(decimals.group(1)) if decimals else 0
    )


def _each(brackets: str, texts: list[str]) -> Collection:
    return Collection(brackets, tuple(_read(text.strip()) for text in texts))


def split_top_level(text: str) -> list[str]:
    """Split at commas, semicolons, `and` and `or` that stand outside all brackets."""
    items, start = [], 0
    for separator in _LIST_COMMA.finditer(text):
        if _is_balanced(text[start : separator.start()]) and separator.group().strip():
            items.append(text[start : separator.start()])
            start = separator.end()
    items.append(text[start:])
    return [item for item in items if item.strip()]


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return False
    return depth == 0
