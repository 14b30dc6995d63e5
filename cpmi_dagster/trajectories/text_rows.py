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
from cpmi_dagster.trajectories.row_fields import Filled, listed
from cpmi_dagster.trajectories.solution_text import AUTO, split_steps
from cpmi_dagster.trajectories.step_rows import QuestionRow

ROLES = ["user", "assistant"]


def _split(text: Any, info: ValidationInfo) -> Any:
    if not isinstance(text, str):
        raise ValueError("it must be text")
    return split_steps(encodable(text), info.context or AUTO)


class SolutionRow(QuestionRow):
    """A question and its solution; validated in the context of how the text is split into steps."""

    steps: Annotated[BoundedList[Filled], BeforeValidator(_split)] = Field(
        min_length=1, validation_alias=AliasChoices("solution", "response", "completion")
    )


def message_text(message: Mapping[str, Any]) -> Any:
    """The content of a message; of one in parts, the texts of these."""
    content = message.get("content")
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "".join(str(part.get("text") or "") for part in content)
    return content


class ChatRow(SolutionRow):
    """A chat of one question and one solution; what a system message says is left out."""

    @model_validator(mode="before")
    @classmethod
    def _of_messages(cls, row: Mapping[str, Any]) -> dict[str, Any]:
        messages = listed(row["messages"])
        if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
            raise ValueError("`messages` must be a list of objects with role and content")
        said = [message for message in messages if message.get("role") != "system"]
        roles = [message.get("role") for message in said]
        if roles != ROLES:
            named = ", ".join(map(str, roles[:4])) or "none"
            raise ValueError(
                f"`messages` must be one of the user and then one of the assistant, and has {named}; give the question "
                "and the solution alone"
            )
        question, solution = map(message_text, said)
        return {**row, "question": question, "solution": solution}
