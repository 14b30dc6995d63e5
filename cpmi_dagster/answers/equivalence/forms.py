r"""What kinds of answers there are, and which of them a text is.

"5225 cubic inches"          -> Quantity(5225, unit="cubic inch")
"73%", "x = -2"              -> Quantity(73, percent=True), Quantity(-2, name="x")
"(3, \frac{\pi}{2})"         -> Collection("()", [3, π/2])
"3 \pm \sqrt{2}"             -> Collection("", [3 + √2, 3 - √2])     "\{1, -2\}" -> Collection("{}", [1, -2])
"\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}" -> Collection("matrix", [row, row])
"Sunday", "True"             -> Words("sunday"), Words("yes")
"(B) 12", "B. Paris"         -> Choice("b", Quantity(12)), Choice("b", Words("paris"))
"2x + y = 7", "1 < x \le 4"  -> Condition()
"\sum_{k=1}^n k"             -> none of these
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product, takewhile

from cpmi_dagster.answers.equivalence.expressions import Undecidable, Value, read_expression, real_value
from cpmi_dagster.answers.equivalence.units import split_unit

LIST, SET, TUPLE, MATRIX, RATIO = "", "{}", "()", "matrix", ":"
INTERVALS = {"()", "(]", "[)", "[]"}
MAX_SIGNS = 3
CACHED_FORMS = 1 << 16


@dataclass(frozen=True)
class Quantity:
    """A number or an expression, perhaps with a unit or a percent sign, or assigned to a name.

    `text` is what the value was read from; `decimals` counts its digits after the point.
    """

    value: Value
    unit: str = ""
    percent: bool = False
    decimals: int = 0
    text: str = ""
    name: str = ""


@dataclass(frozen=True)
class Words:
    """Short text, in lower case."""

    text: str


@dataclass(frozen=True)
class Choice:
    """A choice's letter, in lower case, with what the choice says."""

    letter: str
    answer: "Form"


@dataclass(frozen=True)
class InBase:
    """Digits with a base written below, e.g. `422_8`."""

    digits: str
    base: str


@dataclass(frozen=True)
class Condition:
    """An equation that is not an assignment, an inequality, or a union of sets: left to math-verify."""


@dataclass(frozen=True)
class Collection:
    """Several answers in one. `brackets` is `""` for a bare list, `"{}"` for a set, else its kind."""

    brackets: str
    items: tuple["Form", ...]


Form = Quantity | Words | Choice | InBase | Condition | Collection

_NUMBER_WORDS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
]  # fmt: skip
_SAME_VERDICT = {
    "true": "yes", "false": "no", "uncertain": "unknown", "undetermined": "unknown", "cannot be determined": "unknown",
}  # fmt: skip
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_NAME = re.compile(
    r"(?:[A-Za-z]{1,3}|\\[A-Za-z]+)(?:_\{?\w\}?)?(?:\(\w{1,3}\))?|\\?\(\s*[A-Za-z](?:\s*,\s*[A-Za-z])*\s*\)"
)
_MEMBERSHIP = re.compile(r"[A-Za-z]\s*\\in(?![A-Za-z])\s*")
_MATRIX = re.compile(
    r"(?P<factor>[^&\[]*?)\\begin\{([pbB]?matrix|array)\}(?:\{[lcr|]*\})?(?P<entries>.*)\\end\{\2\}", re.DOTALL
)
_LIST_COMMA = re.compile(r" ?[,;]? ?(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]) ?| ?[,;] ?")
_WORDS = re.compile(r"[A-Za-z](?:[A-Za-z '’.]|(?<=[A-Za-z]{2})-(?=[A-Za-z]{2}))*")
_UNREADABLE_SIDES = re.compile(r"\\(?:in|equiv)(?![A-Za-z])|\\begin|\\dots|\|")
_CHOICE = re.compile(r"(?:\(([A-J])\)|([A-J])[).:])\s+(\S.*)", re.DOTALL)
_IN_BASE = re.compile(r"(-?[0-9A-F.]+) ?_ ?\{? ?(-?\d+|[A-Za-z]+) ?\}?")
_SIGNS = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")
_SIGN_OF = {("\\pm", "+"): "+", ("\\pm", "-"): "-", ("\\mp", "+"): "-", ("\\mp", "-"): "+"}
_RATIO_OF_NUMBERS = re.compile(r"\d\s*(?::|\bto\b)\s*\d")
_RATIO = re.compile(r"\s*(?::|\bto\b)\s*")
_CONDITION = re.compile(r"\\(?:le|ge|ne|cup|cap)(?![A-Za-z])|[<>]")


@lru_cache(maxsize=CACHED_FORMS)
def read_form(text: str) -> Form | None:
    """The form of an answer, as `plain_text` leaves it; None where it has none of the supported forms."""
    try:
        return _read(text)
    except (Undecidable, RecursionError):
        return None


def _read(text: str) -> Form:
    if not text:
        raise Undecidable("empty")
    if _PLAIN_NUMBER.fullmatch(text):
        return _read_quantity(text)
    if choice := _CHOICE.fullmatch(text):
        return Choice((choice[1] or choice[2]).lower(), _read(choice[3]))
    words = " ".join(text.lower().strip(" .'’-").split())
    if words in _NUMBER_WORDS:
        return _read_quantity(str(_NUMBER_WORDS.index(words)))
    if words in {"yes", "no"} or words in _SAME_VERDICT:
        return Words(_SAME_VERDICT.get(words, words))
    is_name = len(text) == 1 or (len(text) <= 3 and text.islower() and text.isalpha())
    if _WORDS.fullmatch(text) and not is_name:
        parts = [part for part in _LIST_COMMA.split(words) if part]
        return Words(words) if len(parts) < 2 else Collection(LIST, tuple(map(Words, parts)))
    if _CONDITION.search(text):
        return Condition()
    if matrix := _MATRIX.fullmatch(text):
        rows = [row.split("&") for row in matrix["entries"].split("\\\\") if row.strip()]
        if factor := matrix["factor"].strip():
            rows = [[f"{'-1' if factor == '-' else factor}({entry})" for entry in row] for row in rows]
        return Collection(MATRIX, tuple(_each("row", row) for row in rows))
    if in_base := _IN_BASE.fullmatch(text):
        return InBase(in_base[1], in_base[2])
    if member := _MEMBERSHIP.match(text):
        return _read(text[member.end() :])
    if text == "\\emptyset":
        return Collection(SET, ())
    if text.startswith("\\{") and text.endswith("\\}"):
        return _each(SET, _split(text[2:-2]))
    if text[0] in "([" and text[-1] in ")]" and _is_balanced(inside := text[1:-1]):
        if len(items := _split(inside)) > 1:
            return _each(text[0] + text[-1], items)
        if _MATRIX.fullmatch(inside.strip()):
            return _read(inside.strip())
    if len(items := _split(text)) > 1:
        return _each(LIST, items)
    if _RATIO_OF_NUMBERS.search(text):
        return _each(RATIO, _RATIO.split(text))
    if "=" in text and not _UNREADABLE_SIDES.search(text):
        return _read_sides([side.strip() for side in text.split("=")])
    count = len(_SIGNS.findall(text))
    if count > MAX_SIGNS:
        raise Undecidable("too many signs")
    if not count:
        return _read_quantity(text)
    # of each sign by itself, or of all at once where a `\mp` goes with them
    choices = [(sign,) * count for sign in "+-"] if "\\mp" in text else product("+-", repeat=count)
    chosen = [iter(choice) for choice in choices]
    return _each(LIST, [_SIGNS.sub(lambda sign, signs=signs: _SIGN_OF[sign[0], next(signs)], text) for signs in chosen])


def _read_quantity(text: str) -> Quantity:
    value, unit = split_unit(text)
    number = value.removesuffix("%").strip()
    decimals = re.search(r"\.(\d+)", number)
    return Quantity(read_expression(number), unit, value.endswith("%"), len(decimals[1]) if decimals else 0, number)


def _read_sides(sides: list[str]) -> Form:
    """An assignment or a chain of equal numbers is its last side; another equation is a condition."""
    if len(sides) == 2 and _NAME.fullmatch(sides[1]) and not _NAME.fullmatch(sides[0]):
        sides.reverse()
    names = list(takewhile(_NAME.fullmatch, sides[:-1]))
    forms = [_read(side) for side in sides[len(names) :]]
    values = [form.value for form in forms if isinstance(form, Quantity)]
    last = forms[-1]
    if len(forms) == 1 or (len(values) == len(forms) and all(real_value(value) is not None for value in values)):
        return replace(last, name=names[-1]) if names and isinstance(last, Quantity) else last
    if len(values) != 2 or len(sides) != 2:
        raise Undecidable("chain of equations")
    return Condition()


def _each(brackets: str, texts: list[str]) -> Collection:
    r"""A collection of texts; the lists among them, as `\pm` makes them, give it their items."""
    forms = [_read(text.strip()) for text in texts]
    if brackets in {LIST, SET}:
        nested = (form.items if isinstance(form, Collection) and form.brackets == LIST else (form,) for form in forms)
        forms = [item for items in nested for item in items]
    return Collection(brackets, tuple(forms))


def _split(text: str) -> list[str]:
    """The parts between commas, semicolons, `and` and `or` that stand outside all brackets."""
    items, start = [], 0
    for separator in _LIST_COMMA.finditer(text):
        if _is_balanced(text[start : separator.start()]) and separator[0].strip():
            items.append(text[start : separator.start()])
            start = separator.end()
    return [item for item in [*items, text[start:]] if item.strip()]


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return False
    return depth == 0
