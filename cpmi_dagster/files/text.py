r"""Text of data made fit for where it goes: file formats, terminals, Markdown, the cell of a table.

printable("\x1b[2Jtitle")           ->  \u001b[2Jtitle            shown, and not obeyed by the terminal
in_markdown("![x](//evil.example)")  ->  \!\[x\](//evil.example)    shown, and not fetched by the browser
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

# what `surrogateescape` makes of bytes that are not UTF-8
NOT_UTF8 = re.compile("[\udc80-\udcff]")
# control characters, marks that reverse the direction of writing, other ends of lines, halves of characters
NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST_PLAIN = 32
MARKDOWN_SIGNS = re.compile(r"[\\&|`*_\[\]{}()<>#!~]")
# a backslash before these would not hold in a table, where rows are cut at `|` first
MARKDOWN_REFERENCES = {"&": "&amp;", "\\": "&#92;", "|": "&#124;"}


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that is spelled most like another; None if none is like it."""
    return next(iter(get_close_matches(name, list(names), n=1)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The name that may have been meant, as in ` (did you mean mine.yaml?)`; or nothing."""
    found = closest(name, names)
    return f" (did you mean {found}?)" if found else ""


def encodable(text: Any) -> Any:
    r"""The text with lone surrogates replaced: `\ud800` in JSON is one, and so is a byte that is not UTF-8."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


def _identifier(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("it must be text or a whole number")
    return encodable(value)


Text = Annotated[str, BeforeValidator(encodable)]
FilledText = Annotated[Text, AfterValidator(_filled)]
Identifier = Annotated[str | int, BeforeValidator(_identifier)]


def number_text(value: Any) -> str:
    """A number as one would write it: 18 for `18.0`, 0.00001 for `1e-05`; as it is if that would be long.

    Args:
        value: a number of any type, or its text.
    """
    try:
        plain = f"{Decimal(str(value)):f}"
    except ArithmeticError:  # a fraction
        return str(value)
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return str(value) if len(plain) > LONGEST_PLAIN else "0" if plain == "-0" else plain


def counted(count: int, what: str, several: str | None = None) -> str:
    """A number of things: `1 solution`, `1,024 solutions`, `2 trajectories`."""
    return f"{count:,} {what if count == 1 else several or f'{what}s'}"


def cut(text: str, characters: int) -> str:
    """The text where it fits; else its beginning and a `…`, in that many characters."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def printable(text: str) -> str:
    r"""The text as a terminal may show it: what it would obey is written out as `\u001b`, which JSON reads back."""
    return NOT_SHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_markdown(text: str) -> str:
    """The text as one line of Markdown that shows it and means nothing: no link, image, HTML or code."""
    line = printable(" ".join(text.split()))
    return MARKDOWN_SIGNS.sub(lambda sign: MARKDOWN_REFERENCES.get(sign[0], f"\\{sign[0]}"), line)
