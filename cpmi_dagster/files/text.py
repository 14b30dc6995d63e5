"""Text that every file format here can encode, and text shortened to fit a table."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

# what `surrogateescape` makes of bytes that are not UTF-8
NOT_UTF8 = re.compile("[\udc80-\udcff]")


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
        raise ValueError("it must be a text or a whole number")
    return encodable(value)


Text = Annotated[str, BeforeValidator(encodable)]
FilledText = Annotated[Text, AfterValidator(_filled)]
Identifier = Annotated[str | int, BeforeValidator(_identifier)]


def number_text(value: float) -> str:
    """A number as one would write it: 18 for 18 and for 18.0, which is what many formats make of it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def cut(text: str, characters: int) -> str:
    """The text where it fits; else its beginning and a `…`, in that many characters."""
    return text if len(text) <= characters else text[: characters - 1] + "…"
