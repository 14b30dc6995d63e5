"""Keys are kept out of what servers say, before it becomes an error, a log or a row of Dagster's database.

A server may send back the request's headers, the key whole or in part, or the key in another spelling:

    "Incorrect API key provided: sk-very-secret"      ->  "Incorrect API key provided: ***"
    {"headers": {"Authorization": "Bearer sk-ve…"}}    ->  {"headers": {"Authorization": "***"}}
    "no such key: sk%2Dvery%2Dsecret"                  ->  "no such key: ***"
"""

import base64
import json
import re
from urllib.parse import quote

HIDDEN = "***"
# so much of a key in one piece is hidden
SHORTEST_PIECE = 6
CREDENTIALS = re.compile(
    r"""(?P<name>
            \\?["']? (?:proxy-|x-)? (?:authorization|api[-_\ ]?key|auth[-_]?token|access[-_]?token|cookie) \\?["']?
            \s*[:=]\s* \\?["']?
        )
        (?:(?:bearer|basic|token)\s+)? [^\s"'\\,;}]+""",
    re.IGNORECASE | re.VERBOSE,
)
BEARER = re.compile(r"\b(bearer|basic)\s+[^\s\"',;}\\]{6,}", re.IGNORECASE)


def without_key(text: str, key: str | None) -> str:
    """The text with the key, its pieces and its spellings hidden, and the values of headers that hold one."""
    for spelling in _spellings(key) if key else ():
        text = _without_pieces(text, spelling)
    return BEARER.sub(rf"\1 {HIDDEN}", CREDENTIALS.sub(rf"\g<name>{HIDDEN}", text))


def _spellings(key: str) -> list[str]:
    """The key as it is, in a URL, in JSON and in base64; longest first."""
    coded = (base64.b64encode(text.encode()).decode().rstrip("=") for text in (key, f"Bearer {key}", f":{key}"))
    return sorted({key, quote(key, safe=""), json.dumps(key)[1:-1], *coded}, key=len, reverse=True)


def _without_pieces(text: str, key: str) -> str:
    """The text with every run of characters hidden that is in the key too, whole or long enough, in either case."""
    length = min(SHORTEST_PIECE, len(key))
    lowered, known = text.lower(), key.lower()
    # a few characters change their length with their case
    if len(lowered) != len(text):
        lowered = text
    pieces = {known[start : start + length] for start in range(len(known) - length + 1)}
    hidden = [False] * len(text)
    for start in range(len(text) - length + 1):
        if lowered[start : start + length] in pieces:
            hidden[start : start + length] = [True] * length
    shown = "".join("\0" if is_hidden else sign for is_hidden, sign in zip(hidden, text, strict=True))
    return re.sub("\0+", HIDDEN, shown)
