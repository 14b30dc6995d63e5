r"""Read an answer: text to the form it has.

"x = \frac{1}{2}"        -> Quantity(1/2, name="x")
"3 \pm \sqrt{2}"         -> Collection("", [3 + √2, 3 - √2])
"x < -2 \text{ or } x>3" -> Collection("cup", [Relation, Relation])
"\sum_{k=1}^n k"         -> None
"""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product, takewhile

from cpmi_dagster.answers.equivalence.expressions import read_expression
from cpmi_dagster.answers.equivalence.forms import (
    INTERSECTION,
    LIST,
    MATRIX,
    SET,
    UNION,
    Choice,
    Collection,
    Equation,
    Form,
    InBase,
    Quantity,
    Relation,
    Words,
)
from cpmi_dagster.answers.equivalence.polynomials import (
    Polynomial,
    Undecidable,
    add,
    as_rational,
    number,
    real_value,
    scale,
)
from cpmi_dagster.answers.equivalence.relations import letters, read_relation
from cpmi_dagster.answers.equivalence.units import split_unit

MAX_SIGNS = 3
CACHED_FORMS = 1 << 16

_NUMBER_WORDS = {
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip
_SAME_VERDICT = {
    "yes": "yes", "true": "yes", "no": "no", "false": "no", "unknown": "unknown", "uncertain": "unknown",
    "undetermined": "unknown", "cannot be determined": "unknown",
}  # fmt: skip
_NUMBER = re.compile(r"(-?)(?:([0-9]{1,18}(?:\.[0-9]{1,18})?)|\\frac\{([0-9]{1,18})\}\{([0-9]{1,18})\})")
_NAME = re.compile(
    r"(?:[A-Za-z]{1,3}|\\[A-Za-z]+)(?:_\{?\w\}?)?(?:\(\w{1,3}\))?|\\?\(\s*[A-Za-z](?:\s*,\s*[A-Za-z])*\s*\)"
)
_MEMBERSHIP = re.compile(r"[A-Za-z]\s*\\in(?![A-Za-z])\s*")
_MATRIX = re.compile(
    r"(?P<factor>[^&\[]*?)\\begin\{([pbB]?matrix|array)\}(?:\{[lcr|]*\})?(?P<entries>.*)\\end\{\2\}", re.DOTALL
)
_LIST_COMMA = re.compile(r"\s*(?:,|;)?\s*(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])\s*|\s*[,;]\s*")
_JOINT = re.compile(r"(?<![A-Za-z\\])(and|or)(?![A-Za-z])")
_WORDS = re.compile(r"[A-Za-z](?:[A-Za-z '’.]|(?<=[A-Za-z]{2})-(?=[A-Za-z]{2}))*")
_UNREADABLE_SIDES = re.compile(r"\\(?:in|equiv)(?![A-Za-z])|\\begin|\\dots|\|")
_OPTION = re.compile(r"\(([A-Z])\)")
_CHOICE = re.compile(r"(?:\(([A-J])\)|([A-J])[).:])\s+(\S.*)", re.DOTALL)
_SET_BUILDER = re.compile(r"\s*([A-Za-z])\s*(?:\\in\s*\(-\\infty,\\infty\)\s*)?(?:\\mid|\||:)\s*(.+)", re.DOTALL)
_DECIMALS = re.compile(r"\.(\d+)")
_IN_BASE = re.compile(r"(-?[0-9A-F.]+)_\{?(-?\d+|[A-Za-z]+)\}?")
_SIGNS = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")
_SIGN_OF = {("\\pm", "+"): "+", ("\\pm", "-"): "-", ("\\mp", "+"): "-", ("\\mp", "-"): "+"}
_RATIO_OF_NUMBERS = re.compile(r"\d\s*(?::|\bto\b)\s*\d")
_RATIO = re.compile(r"\s*(?::|\bto\b)\s*")


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
    if found := _NUMBER.fullmatch(text):
        return _simple_number(text, *found.groups())
    readers: tuple[Callable[[str], Form | None], ...] = (
        _read_choice, _read_words, _read_matrix, _read_in_base, _read_membership, _read_operation, _read_brackets,
        _read_list, _read_ratio, read_relation, _read_sides, _read_signs,
    )  # fmt: skip
    for reader in readers:
        if (form := reader(text)) is not None:
            return form
    return _read_quantity(text)


def _simple_number(text: str, sign: str, decimal: str | None, top: str | None, bottom: str | None) -> Quantity:
    if decimal:
        value = Fraction(decimal) if "." in decimal else int(decimal)
    elif top and int(bottom or 0):
        value = Fraction(int(top), int(bottom or 0))
    else:
        raise Undecidable("division by zero")
    return Quantity(number(-value if sign else value), decimals=len((decimal or "").partition(".")[2]), text=text)


def _read_words(text: str) -> Form | None:
    if option := _OPTION.fullmatch(text):
        return Words(option.group(1).lower())
    words = " ".join(text.lower().strip(" .'’-").split())
    if words in _NUMBER_WORDS:
        return _read_quantity(_NUMBER_WORDS[words])
    if words in _SAME_VERDICT:
        return Words(_SAME_VERDICT[words])
    if not _WORDS.fullmatch(text) or len(text) == 1 or (len(text) <= 3 and text.islower() and text.isalpha()):
        return None
    parts = [part for part in _LIST_COMMA.split(words) if part]
    return Words(words) if len(parts) < 2 else Collection(LIST, tuple(Words(part) for part in parts))


def _read_choice(text: str) -> Form | None:
    """A choice's letter in front of what the choice says."""
    choice = _CHOICE.fullmatch(text)
    return Choice((choice[1] or choice[2]).lower(), _read(choice[3])) if choice else None


def _read_matrix(text: str) -> Form | None:
    matrix = _MATRIX.fullmatch(text) if "\\begin" in text else None
    if matrix is None:
        return None
    entries = [row.split("&") for row in matrix.group("entries").split("\\\\") if row.strip()]
    if factor := matrix.group("factor").strip():
        entries = [[f"{'-1' if factor == '-' else factor}({entry})" for entry in row] for row in entries]
    return Collection(MATRIX, tuple(_each("row", row) for row in entries))


def _read_in_base(text: str) -> Form | None:
    in_base = _IN_BASE.fullmatch(text.replace(" ", "")) if "_" in text else None
    return InBase(in_base.group(1), in_base.group(2)) if in_base else None


def _read_membership(text: str) -> Form | None:
    r"""`x \in S` is S."""
    member = _MEMBERSHIP.match(text) if "\\in" in text else None
    return _read(text[member.end() :]) if member else None


def _read_operation(text: str) -> Form | None:
    """A union, or an intersection, of sets."""
    operation = next((name for name in (UNION, INTERSECTION) if f"\\{name}" in text), None)
    return _each(operation, text.split(f"\\{operation}")) if operation else None


def _read_brackets(text: str) -> Form | None:
    r"""A tuple or interval, or a set in `\{ \}`; brackets around a single value only group."""
    if text == "\\emptyset":
        return Collection(SET, ())
    if text.startswith("\\{") and text.endswith("\\}"):
        return _read_set(text[2:-2])
    if text[0] not in "([" or text[-1] not in ")]" or not _is_balanced(text[1:-1]):
        return None
    items = split_top_level(text[1:-1])
    if len(items) > 1:
        return _each(text[0] + text[-1], items)
    return _read_matrix(text[1:-1].strip())


def _read_set(inside: str) -> Form:
    """The elements of a set, or the inequality that they satisfy."""
    builder = _SET_BUILDER.fullmatch(inside)
    elements = _flat(_each(SET, split_top_level(builder[2] if builder else inside)))
    first = elements.items[0] if len(elements.items) == 1 else None
    if builder and not (isinstance(first, Relation) and letters(first) == {builder[1]}):
        raise Undecidable("set of what satisfies a condition")
    return first if isinstance(first, Relation) else elements


def _read_list(text: str) -> Form | None:
    """Several answers; inequalities joined by `or` allow what either allows, by `and` what both do."""
    items = split_top_level(text)
    if len(items) < 2:
        return None
    form = _flat(_each(LIST, items))
    joints = set(_JOINT.findall(text))
    if len(joints) != 1 or not all(isinstance(item, Relation) for item in form.items):
        return form
    return Collection(UNION if joints == {"or"} else INTERSECTION, form.items)


def _read_signs(text: str) -> Form | None:
    r"""The values of `\pm`: of each by itself, or of all at once where a `\mp` goes with them."""
    count = len(_SIGNS.findall(text))
    if not count:
        return None
    if count > MAX_SIGNS:
        raise Undecidable("too many signs")
    choices = [(sign,) * count for sign in "+-"] if "\\mp" in text else product("+-", repeat=count)
    return _flat(_each(LIST, [_with_signs(text, list(choice)) for choice in choices]))


def _with_signs(text: str, signs: list[str]) -> str:
    r"""The text with `+` or `-` for each `\pm`, and the opposite for each `\mp`."""
    return _SIGNS.sub(lambda sign: _SIGN_OF[sign.group(), signs.pop(0)], text)


def _read_ratio(text: str) -> Form | None:
    return _each(":", _RATIO.split(text)) if _RATIO_OF_NUMBERS.search(text) else None


def _read_sides(text: str) -> Form | None:
    """An assignment or a chain of equal numbers is its last side; other equations keep both sides."""
    if "=" not in text or _UNREADABLE_SIDES.search(text):
        return None
    sides = [side.strip() for side in text.split("=")]
    if len(sides) == 2 and _NAME.fullmatch(sides[1]) and not _NAME.fullmatch(sides[0]):
        sides.reverse()
    names = list(takewhile(_NAME.fullmatch, sides[:-1]))
    forms = [_read(side) for side in sides[len(names) :]]
    values = [form.value for form in forms if isinstance(form, Quantity)]
    last = forms[-1]
    if len(forms) == 1 or (len(values) == len(forms) and all(map(_is_constant, values))):
        return replace(last, name=names[-1]) if names and isinstance(last, Quantity) else last
    if len(values) != 2 or len(sides) != 2:
        raise Undecidable("chain of equations")
    return Equation(add(values[0], scale(values[1], -1)))


def _is_constant(value: Polynomial) -> bool:
    return as_rational(value) is not None or real_value(value) is not None


def _read_quantity(text: str) -> Form:
    value, unit = split_unit(text)
    percent = value.endswith("%")
    value = value.removesuffix("%").strip()
    decimals = _DECIMALS.search(value)
    return Quantity(read_expression(value), unit, percent, len(decimals.group(1)) if decimals else 0, value)


def _each(brackets: str, texts: list[str]) -> Collection:
    return Collection(brackets, tuple(_read(text.strip()) for text in texts))


def _flat(collection: Collection) -> Collection:
    r"""Lists among the items, as `\pm` makes them, are items themselves."""
    items: list[Form] = []
    for item in collection.items:
        items.extend(item.items if isinstance(item, Collection) and item.brackets == LIST else [item])
    return Collection(collection.brackets, tuple(items))


def split_top_level(text: str) -> list[str]:
    """Split at commas, semicolons, `and` and `or` outside all brackets."""
    if not ("," in text or ";" in text or "and" in text or "or" in text):
        return [text] if text.strip() else []
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
