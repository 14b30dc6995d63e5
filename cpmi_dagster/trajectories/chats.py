r"""Read chats, written as by OpenAI or as by ShareGPT.

    {"role": "user", "content": "2 + 3?"}                                           OpenAI
    {"from": "human", "value": "2 + 3?"}                                            ShareGPT
    {"role": "assistant", "reasoning_content": "2 + 3 = 5.", "content": "So 5."}    ->  "2 + 3 = 5.\n\nSo 5."

The content may be a list of text parts. System messages are left out. Tool messages and further turns are refused,
because they contain no steps of a solution.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cpmi_dagster.files.text import cut, encodable
from cpmi_dagster.trajectories.fields import read_cell

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
ROLES = {
    **dict.fromkeys(("user", "human"), USER),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "model"), ASSISTANT),
    **dict.fromkeys(("system", "developer"), SYSTEM),
}
"""Roles by the names that chats use, in lower case."""
TURNS = {USER: "one message of the user (or human)", ASSISTANT: "one message of the assistant (or gpt)"}
ROLE, CONTENT, REASONING = ("role", "from"), ("content", "value"), ("reasoning_content", "reasoning", "thinking")
SHAPES = "with role and content, or with from and value"
MOST_SHOWN = 100
# a list as text in a CSV cell: of texts, or of messages
WRITTEN_LIST = re.compile(r"""\s*\[\s*['"{]""")
WRITTEN_MESSAGES = re.compile(rf"""\s*\[\s*\{{\s*['"](?:{"|".join((*ROLE, *CONTENT))})['"]\s*:""")


def is_chat(value: Any) -> bool:
    """Whether both user and assistant speak; raises a ValueError if the value is not a list of messages."""
    return {USER, ASSISTANT} <= {_role(role_of(message)) for message in messages_of(value)}


def messages_of(value: Any) -> Sequence[Mapping[str, Any]]:
    """The value as messages; raises a ValueError if it is not a list of objects."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"it is {type(value).__name__}; it must be a list of messages, {SHAPES}")
    for message in value:
        if not isinstance(message, Mapping):
            raise ValueError(f"a message is {type(message).__name__}; it must be an object {SHAPES}")
    return value


def read_chat(messages: Any, roles: Sequence[str] = (USER, ASSISTANT)) -> list[str]:
    """The texts of a chat with one message per role, in this order; system messages are left out.

    Raises:
        ValueError: the chat has other messages, or a message cannot be read.
    """
    said = [(role, message) for message in messages_of(messages) if _role(role := role_of(message)) != SYSTEM]
    if [_role(role) for role, _ in said] != list(roles):
        named = _names(role for role, _ in said) or "none"
        raise ValueError(
            f"it must be {' and then '.join(TURNS[role] for role in roles)}, and has {named}; give the question and "
            "the solution alone"
        )
    return [text_of(message) for _, message in said]


def _role(name: str) -> str | None:
    return ROLES.get(name.lower())


def role_of(message: Mapping[str, Any]) -> str:
    """The role of a message, as written there; raises a ValueError if there is none."""
    role = _first(message, ROLE)
    if not isinstance(role, str):
        raise _other_shape(message)
    return role


def is_of_user(message: Mapping[str, Any]) -> bool:
    """Whether a message is from the user; raises as `role_of`."""
    return _role(role_of(message)) == USER


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message: its reasoning, if that is a separate field, then its content.

    Raises:
        ValueError: the message has neither field, or one is not text.
    """
    if not any(name in message for name in (*CONTENT, *REASONING)):
        raise _other_shape(message)
    content, reasoning = _first(message, CONTENT), _first(message, REASONING)
    if isinstance(content, list | tuple):
        content = "".join(map(_text_of_part, content))
    for text in (content, reasoning):
        if not isinstance(text, str | None):
            raise ValueError(f"a message says {type(text).__name__}; it must be text, or a list of parts that are")
    content, reasoning = content or "", reasoning or ""
    # some servers repeat the reasoning in the content
    if reasoning.strip() in content:
        return content
    # thoughts announce no answer, and those without content behind them do not end
    return f"<think>\n{reasoning}\n</think>\n\n{content}" if content.strip() else f"<think>\n{reasoning}"


def _text_of_part(part: Any) -> str:
    fields = part if isinstance(part, Mapping) else {}
    kind, text = str(fields.get("type") or "text"), fields.get("text")
    if kind != "text" or not isinstance(text, str):
        named = f"`{_names([kind])}`" if kind != "text" else _names(fields) or type(part).__name__
        raise ValueError(f'a part of a message is {named}; it must be {{"type": "text", "text": "…"}}')
    return text


def _other_shape(message: Mapping[str, Any]) -> ValueError:
    fields = _names(name for name, value in message.items() if value is not None) or "no fields"
    return ValueError(f"a message has {fields}; it must be an object {SHAPES}")


def _names(names: Iterable[Any]) -> str:
    return cut(encodable(", ".join(map(str, names))), MOST_SHOWN)


def _first(message: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((message[name] for name in names if message.get(name) is not None), None)


def unwrap_text(value: Any, role: str) -> Any:
    """Unwrap a list of one text, or of one message of a role; other values are returned unchanged.

    Raises:
        ValueError: the value is any other list.
    """
    if isinstance(value, str):
        return _of_cell(value, role) if WRITTEN_LIST.match(value) else value
    if not isinstance(value, list | tuple):
        return value
    if len(value) == 1 and isinstance(value[0], str):
        return value[0]
    if value and all(isinstance(item, Mapping) for item in value):
        return read_chat(value, [role])[0]
    raise ValueError(f"it is a list of {len(value)}; give one text")


def _of_cell(text: str, role: str) -> Any:
    """Unwrap a list that a CSV cell holds as text; a text that only begins like a list is returned unchanged."""
    try:
        value = read_cell(text, "[")
    except ValueError:
        value = text
    if WRITTEN_MESSAGES.match(text):
        if isinstance(value, str):
            raise ValueError("a list of messages that cannot be read; write lists as JSON")
        return unwrap_text(value, role)
    holds_one_text = isinstance(value, list) and len(value) == 1 and isinstance(value[0], str)
    return value[0] if holds_one_text else text
