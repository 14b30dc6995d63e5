"""Text that every file format here can encode, and text shortened to fit a table."""

from typing import Annotated, Any

from pydantic import BeforeValidator


def encodable(text: Any) -> Any:
    r"""The text with lone surrogates replaced: `\ud800` in JSON is one, and so is a byte that is not UTF-8."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


Text = Annotated[str, BeforeValidator(encodable)]


def cut(text: str, characters: int) -> str:
    """The text where it fits; else its beginning and a `…`, in that many characters."""
    return text if len(text) <= characters else text[: characters - 1] + "…"
