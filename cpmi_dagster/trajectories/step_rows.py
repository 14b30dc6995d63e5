"""Rows whose steps are apart already: Math-Shepherd's and TRL's, which are labelled, and those of any other origin.

    Math-Shepherd  {"input": "2 + 3? Step 1: 2 + 3 = 5. ки", "label": "2 + 3? Step 1: 2 + 3 = 5. +", "task": "GSM8K"}
    TRL            {"prompt": "2 + 3?", "completions": ["2 + 3 = 5."], "labels": [true]}
    -> RawRow(input="2 + 3? Step 1: 2 + 3 = 5. ки", label="2 + 3? Step 1: 2 + 3 = 5. +", …)

    any others     {"question": "2 + 3?", "steps": ["2 + 3 = 5."], "id": "a7", "gold_answer": 5, "labels": ["+"]}
    -> RawRow(input="2 + 3?\n2 + 3 = 5.", value=["+"], source_id="a7", question="2 + 3?", steps=["2 + 3 = 5."], …)

    questions      {"question": "2 + 3?", "answer": "2 + 3 = 5\n#### 5"}
    -> RawRow(input="2 + 3?", question="2 + 3?", gold_answer="5", …)     without steps: the policy is asked

Question and steps of the others are taken as they are, without markers and headers.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, model_validator

from cpmi_dagster.files.text import Identifier, Text
from cpmi_dagster.trajectories.chats import Question
from cpmi_dagster.trajectories.row_fields import NO_MARK, Answer, Filled, Listed, Mark, RawRow, given_answer, id_text
from cpmi_dagster.trajectories.step_segments import MARKER, clean, has_header


def _is_sure(value: Any) -> Any:
    """Where some are 0.75, a 1.0 is an estimate and no label."""
    if isinstance(value, float):
        raise ValueError(NO_MARK)
    return value


class MathShepherdRow(BaseModel):
    """Question and steps with `ки` behind every step; labels in the same text, in a list, or in both."""

    input: Text
    label: Text | None = None
    task: Text | None = None
    value: Listed[Annotated[Mark, BeforeValidator(_is_sure)]] | None = None
    id: Identifier | None = None
    gold_answer: Answer = None

    @model_validator(mode="after")
    def _is_labelled(self) -> "MathShepherdRow":
        if self.label is None and self.value is None:
            raise ValueError("the row has neither `label` nor `value`")
        return self

    def raw(self) -> RawRow:
        """The row as it is."""
        texts = (self.input, self.label or "", self.task or "")
        return RawRow(*texts, self.value, source_id=id_text(self.id), gold_answer=self.gold_answer)


class TrlRow(BaseModel):
    """The form of TRL's stepwise supervision: one completion and one label a step."""

    prompt: Question
    completions: Listed[Text]
    labels: Listed[Mark] = Field(validation_alias=AliasChoices("labels", "label"))
    id: Identifier | None = None
    gold_answer: Answer = None
    task: Text | None = None

    @model_validator(mode="after")
    def _is_sound(self) -> "TrlRow":
        if len(self.completions) != len(self.labels):
            raise ValueError(f"{len(self.completions)} `completions` but {len(self.labels)} `labels`")
        if any(MARKER in text for text in (self.prompt, *self.completions)):
            raise ValueError(f"a text contains `{MARKER}`, which is reserved to mark the ends of steps")
        return self

    def raw(self) -> RawRow:
        """Prompt and completions with markers and, where they are missing, `Step i:` headers."""
        steps = [
            step if has_header(step) else f"Step {number}: {step}"
            for number, step in enumerate(self.completions, start=1)
        ]
        texts = (_joined(self.prompt, steps, [MARKER] * len(steps)), _joined(self.prompt, steps, self.labels))
        task = clean(self.task or "")
        return RawRow(*texts, task, source_id=id_text(self.id), gold_answer=self.gold_answer)


def _joined(prompt: str, steps: Sequence[str], marks: Sequence[str]) -> str:
    return f"{prompt} " + "\n".join(f"{step} {mark}" for step, mark in zip(steps, marks, strict=True))


QUESTION = ("question", "problem", "prompt")
"""What rows call their question."""


class QuestionAlone(BaseModel):
    """A question without a solution; its gold answer is given, or read as of reference problems."""

    question: Question = Field(validation_alias=AliasChoices(*QUESTION))
    id: Identifier | None = None
    gold_answer: Answer = None
    answer: Any = None
    solution: Any = None
    task: Text | None = None
    split: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_what_is_filled(cls, row: Any) -> Any:
        """Where no gold answer is given, that of the answer and the solution."""
        given = {name: value for name, value in row.items() if value is not None}
        gold = {} if "gold_answer" in given else {"gold_answer": given_answer(row.get("solution"), row.get("answer"))}
        return given | gold

    def raw(self) -> RawRow:
        """The row without steps."""
        return RawRow(
            self.question,
            task=clean(self.task or ""),
            source_id=id_text(self.id),
            question=self.question,
            gold_answer=self.gold_answer,
            split=clean(self.split or "") or None,
        )


class QuestionRow(BaseModel):
    """A question and its steps, from whatever source; all else may be left out."""

    question: Question = Field(validation_alias=AliasChoices(*QUESTION))
    steps: Listed[Filled] = Field(min_length=1)
    id: Identifier | None = None
    gold_answer: Answer = None
    labels: Listed[Mark] | None = None
    task: Text | None = None
    split: Text | None = None

    @model_validator(mode="after")
    def _labels_fit(self) -> "QuestionRow":
        if self.labels is not None and len(self.labels) != len(self.steps):
            raise ValueError(f"{len(self.steps)} steps but {len(self.labels)} `labels`")
        return self

    def raw(self) -> RawRow:
        """The row as it is, with question and steps joined as its input."""
        return RawRow(
            "\n".join([self.question, *self.steps]),
            task=clean(self.task or ""),
            value=self.labels,
            source_id=id_text(self.id),
            question=self.question,
            steps=self.steps,
            gold_answer=self.gold_answer,
            split=clean(self.split or "") or None,
        )
