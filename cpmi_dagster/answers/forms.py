r"""The form of an answer: a quantity, or one or more parts.

"5225 cubic inches"     -> Quantity(5225, unit="cubic inch")   "(3, \pi)"        -> Parts("()", ("3", "\pi"))
"73%", "x = -2"         -> with is_percent, with name="x"      "3 \pm \sqrt{2}"  -> Parts("", ("3 + …", "3 - …"))
"Sunday"                -> Parts("words", ("sunday",))         "B. Paris"        -> Parts("choice", ("b", "Paris"))
"2x + y = 7", "x \le 4" -> Parts("condition", ())              "\sum_{k=1}^n k"  -> None
"""

import re
from functools import lru_cache
from itertools import product, takewhile
from typing import NamedTuple

from cpmi_dagster.answers.units import add_measures, split_unit
from cpmi_dagster.answers.values import Undecidable, Value, read_value, real_value

LIST, SET, TUPLE, RATIO = "", "{}", "()", ":"
MAX_SIGNS, CACHED_FORMS = 3, 1 << 16


class Quantity(NamedTuple):
    """A number or an expression with its unit; `decimals` counts the digits after the point.

    `422_8` is a value without numbers and with the unit `base 8`.
    """

    value: Value
    unit: str = ""
    is_percent: bool = False
    decimals: int = 0
    name: str = ""


class Parts(NamedTuple):
    """Plain texts of the parts of an answer.

    The kind is `words`, `choice` (letter and text), `condition`, `matrix 2` (two columns), `:` (ratio), or the brackets
    of a collection: empty for a bare list, `{}` for a set, `()`, `[)` and so on.
    """

    kind: str
    items: tuple[str, ...]


NAME = r"(?:(?:[A-Za-z]{1,3}|\\[A-Za-z]+)(?:_\{?\w\}?)?(?:\(\w{1,3}\))?|\\?\(\s*[A-Za-z](?:\s*,\s*[A-Za-z])*\s*\))"
CONDITION = re.compile(r"\\(?:le|ge|ne|cup|cap)(?![A-Za-z])|[<>]")
_NUMBER_WORDS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
]  # fmt: skip
_SAME_VERDICT = {
    "yes": "yes", "no": "no", "true": "yes", "false": "no", "uncertain": "unknown", "undetermined": "unknown",
    "cannot be determined": "unknown",
}  # fmt: skip
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


@lru_cache(maxsize=CACHED_FORMS)
def read_form(text: str) -> Quantity | Parts | None:
    """The form of a plain text; None if only algebra can read it."""
    try:
        return _read_words(text) or _read(text)
    except (Undecidable, RecursionError):
        return None


def _read_words(text: str) -> Quantity | Parts | None:
    if choice := _CHOICE.fullmatch(text):
        return Parts("choice", ((choice[1] or choice[2]).lower(), choice[3]))
    words = " ".join(text.lower().strip(" .'’-").split())
    if words in _NUMBER_WORDS:
        return _read_quantity(str(_NUMBER_WORDS.index(words)))
    if words in _SAME_VERDICT:
        return Parts("words", (_SAME_VERDICT[words],))
    is_name = len(text) == 1 or (len(text) <= 3 and text.islower() and text.isalpha())
    if is_name or not _WORDS.fullmatch(text):
        return None
    parts = tuple(part for part in _LIST_COMMA.split(words) if part)
    if len(parts) > 1:  # `A and C` are variables or choices
        return Parts(LIST, parts) if max(map(len, parts)) > 1 else None
    return Parts("words", parts)


def _read(text: str) -> Quantity | Parts:
    if CONDITION.search(text):
        return Parts("condition", ())
    if total := add_measures(text):
        return Quantity(read_value(total[0]), total[1])
    if matrix := _MATRIX.fullmatch(text):
        rows = [row.split("&") for row in matrix["entries"].split("\\\\") if row.strip()]
        factor = matrix["factor"].strip().replace("-", "-1 ")
        entries = [f"{factor}({entry})" if factor else entry for row in rows for entry in row]
        return _collect(f"matrix {len(rows[0])}", entries)
    if in_base := _IN_BASE.fullmatch(text):
        return Quantity(Value(in_base[1], ()), f"base {in_base[2]}")
    if member := _MEMBERSHIP.match(text):
        return _read(text[member.end() :])
    if text == "\\emptyset":
        return Parts(SET, ())
    if text.startswith("\\{") and text.endswith("\\}"):
        return _collect(SET, _split(text[2:-2]))
    if text[:1] in {"(", "["} and text[-1] in ")]" and _is_balanced(inside := text[1:-1]):
        if len(items := _split(inside)) > 1:
            return _collect(text[0] + text[-1], items)
        if _MATRIX.fullmatch(inside.strip()):
            return _read(inside.strip())
    if len(items := _split(text)) > 1:
        return _collect(LIST, items)
    if _RATIO_OF_NUMBERS.search(text):
        return _collect(RATIO, _RATIO.split(text))
    if "=" in text and not _UNREADABLE_SIDES.search(text):
        return _read_sides([side.strip() for side in text.split("=")])
    if signs := _SIGNS.findall(text):
        if len(signs) > MAX_SIGNS:
            raise Undecidable("too many signs")
        # with `\mp` all signs change together, else each by itself
        choices = [sign * len(signs) for sign in "+-"] if "\\mp" in signs else product("+-", repeat=len(signs))
        chosen = map(iter, choices)
        return _collect(LIST, [_SIGNS.sub(lambda sign, of=of: _SIGN_OF[sign[0], next(of)], text) for of in chosen])
    return _read_quantity(text)


def _read_quantity(text: str) -> Quantity:
    value, unit = split_unit(text)
    number = value.removesuffix("%").strip()
    decimals = re.search(r"\.(\d+)", number)
    return Quantity(read_value(number), unit, value.endswith("%"), len(decimals[1]) if decimals else 0)


def _read_sides(sides: list[str]) -> Quantity | Parts:
    """The last side of an assignment or a chain of equal numbers; any other equation is a condition."""
    if len(sides) == 2 and re.fullmatch(NAME, sides[1]) and not re.fullmatch(NAME, sides[0]):
        sides.reverse()
    names = list(takewhile(re.compile(NAME).fullmatch, sides[:-1]))
    forms = [_read(side) for side in sides[len(names) :]]
    values = [form.value for form in forms if isinstance(form, Quantity) and form.value.numbers]
    last = forms[-1]
    if len(forms) == 1 or (len(values) == len(forms) and all(real_value(value) is not None for value in values)):
        return last._replace(name=names[-1]) if names and isinstance(last, Quantity) else last
    if len(values) != 2 or len(sides) != 2:
        raise Undecidable("chain of equations")
    return Parts("condition", ())


def _collect(kind: str, texts: list[str]) -> Parts:
    r"""A collection of texts; nested lists, such as `\pm` gives, are flattened."""
    items: list[str] = []
    for text in map(str.strip, texts):
        if (form := read_form(text)) is None:
            raise Undecidable(f"cannot read {text!r}")
        items += form.items if isinstance(form, Parts) and form.kind == LIST and kind in {LIST, SET} else [text]
    return Parts(kind, tuple(items))


def _split(text: str) -> list[str]:
    """Split at commas, semicolons, `and` and `or` outside brackets."""
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
