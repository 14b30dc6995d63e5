r"""Makes text of data safe for files, terminals, Markdown and table cells.

printable("\x1b[2Jtitle")           ->  \u001b[2Jtitle            the terminal shows it and does not obey it
in_markdown("![x](//evil.example)")  ->  \!\[x\](//evil.example)    the browser shows it and does not fetch it
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BeforeValidator

# what `surrogateescape` makes of bytes that are not UTF-8
NOT_UTF8 = re.compile("[\udc80-\udcff]")
# control characters, marks of writing direction, line separators, lone surrogates
NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST_PLAIN = 32
MARKDOWN_SIGNS = re.compile(r"[\\&|`*_\[\]{}()<>#!~]")
# no backslash protects these in a table, whose rows are split at `|` first
MARKDOWN_REFERENCES = {"&": "&amp;", "\\": "&#92;", "|": "&#124;"}


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that is spelled most like the given one, or begins with it; None if none is close."""
    among = list(names)
    near = get_close_matches(name, among, n=1) or [other for other in among if name and other.startswith(name)]
    return next(iter(near), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A hint such as ` (did you mean mine.yaml?)`; empty if no other name is close."""
    near = closest(name, {*names} - {name})
    return f" (did you mean {near}?)" if near else ""


def encodable(text: Any) -> Any:
    r"""The text with lone surrogates replaced: `\ud800` in JSON is one, and so is a byte that is not UTF-8."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _identifier(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("it must be text or a whole number")
    return encodable(value)


Text = Annotated[str, BeforeValidator(encodable)]
Identifier = Annotated[str | int, BeforeValidator(_identifier)]


def number_text(value: Any) -> str:
    """A number, or its text, as people write it: 18 for `18.0`, 0.00001 for `1e-05`; unchanged if that is long."""
    try:
        plain = f"{Decimal(str(value)):f}"
    except ArithmeticError:  # a fraction
        return str(value)
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return str(value) if len(plain) > LONGEST_PLAIN else "0" if plain == "-0" else plain


def counted(count: int, what: str, several: str | None = None) -> str:
    """A count with its noun: `1 solution`, `1,024 solutions`, `2 trajectories`."""
    return f"{count:,} {what if count == 1 else several or f'{what}s'}"


def cut(text: str, characters: int) -> str:
    """The text, cut to a number of characters with `…` at the end if it is longer."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def printable(text: str) -> str:
    r"""The text with everything a terminal would obey written out as `\u001b`, which JSON reads back."""
    return NOT_SHOWN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def in_markdown(text: str) -> str:
    """The text as one line of Markdown that only shows it: no link, image, HTML or code."""
    line = printable(" ".join(text.split()))
    return MARKDOWN_SIGNS.sub(lambda sign: MARKDOWN_REFERENCES.get(sign[0], f"\\{sign[0]}"), line)
