"""Rows whose solution is one text: a chat, or a question with its solution; the text is split into steps as it is read.

{"messages": [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": "2 + 3 = 5.\\n\\nSo 5."}]}
{"problem": "2 + 3?", "solution": "2 + 3 = 5.\\n\\nSo 5."}          or prompt, and response or completion
-> RawRow(question="2 + 3?", steps=["2 + 3 = 5.", "So 5."], …)
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, ValidationInfo, model_validator

from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.text import encodable
from cpmi_dagster.trajectories.chats import ASSISTANT, USER, one_text, read_chat
from cpmi_dagster.trajectories.row_fields import Filled, listed
from cpmi_dagster.trajectories.solution_text import AUTO, split_steps
from cpmi_dagster.trajectories.step_rows import QuestionRow
from cpmi_dagster.trajectories.step_segments import clean

CHAT = ("messages", "conversations")
"""What rows call their messages."""
SOLUTION = ("solution", "response", "completion")
"""What rows call their solution that is one text."""


def _split(text: Any, info: ValidationInfo) -> Any:
    text = one_text(text, ASSISTANT)
    if not isinstance(text, str):
        raise ValueError("it must be text")
    return split_steps(encodable(text), info.context or AUTO)


class SolutionRow(QuestionRow):
    """A question and its solution; validated in the context of how the text is split into steps."""

    steps: Annotated[BoundedList[Filled], BeforeValidator(_split)] = Field(
        min_length=1, validation_alias=AliasChoices(*SOLUTION)
    )


class ChatRow(SolutionRow):
    """A chat of one question and one solution; what a system message says is left out."""

    @model_validator(mode="before")
    @classmethod
    def _of_messages(cls, row: Mapping[str, Any]) -> dict[str, Any]:
        name = next((name for name in CHAT if row.get(name) is not None), CHAT[0])
        try:
            texts = dict(zip((USER, ASSISTANT), read_chat(listed(row.get(name))), strict=True))
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from error
        for role, text in texts.items():
            if not clean(text):
                raise ValueError(f"`{name}`: the message of the {role} is empty")
        return {**row, "question": texts[USER], "solution": texts[ASSISTANT]}
