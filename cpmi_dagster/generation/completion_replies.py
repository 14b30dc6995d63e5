"""Replies of a completions server: completions, refusals, prompts that leave no room; no key stays in them.

200 {"choices": [{"text": "24\\n", "finish_reason": "stop"}], "usage": {"completion_tokens": 3}}   a completion
200 {"choices": []}                                                                            malformed
400 {"error": {"message": "This model's maximum context length is 4096 tokens. …"}}            no room
401 {"error": {"message": "Incorrect API key provided: sk-ve****cret"}}                        a refusal

A server may send back the request's headers, the key whole or in part, or the key in another spelling: they are hidden
before what it says becomes an error, a log or a row of Dagster's database.
"""

import base64
import json
import re
from typing import Any
from urllib.parse import quote

from cpmi_dagster.files.text import cut, printable

LONGEST_MESSAGE = 301
REFUSED_LENGTH = {400, 413, 422}
NO_ROOM = re.compile(
    r"context[ _]?(?:length|size|window)|max_model_len|maximum (?:model|sequence) length|inputs.{0,40}max_new_tokens",
    re.IGNORECASE,
)
# vLLM and SGLang finish an aborted text with `abort` or `error`
UNFINISHED = {None, "abort", "error"}
SURROGATE = re.compile("[\ud800-\udfff]")
MOST_TOKENS = 2**40
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


class MalformedReply(ValueError):
    """A reply with a success status that is not the completion asked for."""


def checked_reply(text: str, samples: int) -> dict[str, Any]:
    """The reply as JSON, its first `samples` choices in the order of their index; fewer where the server gave fewer.

    Raises:
        MalformedReply: it is not a JSON object, has no choices, or a choice is without text or not finished.
    """
    try:
        reply = json.loads(text)
    except ValueError:
        raise MalformedReply(f"a reply that is not JSON: {_short(text)!r}") from None
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices:
        raise MalformedReply(f"a reply with no choices where {samples} were asked for: {server_message(text)}")
    for choice in choices:
        if not isinstance(choice, dict) or not isinstance(choice.get("text"), str):
            raise MalformedReply("a choice without text")
        if not choice["text"].isascii() and SURROGATE.search(choice["text"]):
            raise MalformedReply("a text with an incomplete character")
        if choice.get("finish_reason") in UNFINISHED:
            raise MalformedReply(f"a text that was not finished (finish_reason {choice.get('finish_reason')})")
    ordered = sorted(choices, key=lambda choice: choice["index"] if isinstance(choice.get("index"), int) else 0)
    return {**reply, "choices": ordered[:samples]}


def server_message(text: str) -> str:
    """The message of a reply, on one line: its `error`, `message` or `detail`, else all of it."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        found = text
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    return _short(found if isinstance(found, str) else json.dumps(found))


def has_no_room(status: int, message: str) -> bool:
    """Whether a request was refused because prompt and continuation do not fit in the model's context."""
    return status in REFUSED_LENGTH and NO_ROOM.search(message) is not None


def refusal_advice(status: int, message: str) -> str:
    """What to do about a request that a server refuses."""
    if status in (401, 403):
        return "give the name of the variable that holds a valid key in `api_key_variable`"
    if status == 404:
        return "check `endpoint`, the URL before /completions, and the model's `served_name`"
    if "top_k" in message:
        return "set `top_k: 0` in the sampling settings for a server that does not know it"
    return "check the model's settings, and what the server writes about it"


def reported_count(reply: dict[str, Any], name: str) -> int | None:
    """A count of the reply's `usage`; None where the server reports none, or an impossible one."""
    usage = reply.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and 0 <= count < MOST_TOKENS else None


def choice_tokens(choice: dict[str, Any]) -> int | None:
    """Tokens of one choice where the server lists them: `token_ids` (vLLM) or `logprobs`; else None."""
    logprobs = choice.get("logprobs")
    listed = logprobs if isinstance(logprobs, dict) else {}
    for tokens in (choice.get("token_ids"), listed.get("tokens"), listed.get("content")):
        if isinstance(tokens, list) and tokens:
            return len(tokens)
    return None


def without_key(text: str, key: str | None) -> str:
    """The text with the key hidden, whole or in pieces, as it is, in a URL, in JSON or in base64; and such headers."""
    if key:
        coded = (base64.b64encode(form.encode()).decode().rstrip("=") for form in (key, f"Bearer {key}", f":{key}"))
        spellings = {key, quote(key, safe=""), json.dumps(key)[1:-1], *coded}
        for spelling in sorted(spellings, key=len, reverse=True):
            text = _without_pieces(text, spelling)
    return BEARER.sub(rf"\1 {HIDDEN}", CREDENTIALS.sub(rf"\g<name>{HIDDEN}", text))


def _without_pieces(text: str, key: str) -> str:
    """The text with every run of characters hidden that is in the key too, whole or long enough, in either case."""
    length = min(SHORTEST_PIECE, len(key))
    # a few characters change their length with their case
    lowered = text.lower() if len(text.lower()) == len(text) else text
    hidden: set[int] = set()
    for start in range(len(text) - length + 1):
        if lowered[start : start + length] in key.lower():
            hidden.update(range(start, start + length))
    shown = "".join("\0" if place in hidden else sign for place, sign in enumerate(text))
    return re.sub("\0+", HIDDEN, shown)


def _short(text: str) -> str:
    return cut(printable(" ".join(text.split())), LONGEST_MESSAGE)
