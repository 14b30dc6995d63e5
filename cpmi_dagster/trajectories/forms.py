r"""The forms a trajectory source may have, each brought into Math-Shepherd's.

    Math-Shepherd  {"input": "2 + 3? Step 1: 2 + 3 = 5. ки", "label": "2 + 3? Step 1: 2 + 3 = 5. +", "task": "GSM8K"}
    TRL            {"prompt": "2 + 3?", "completions": ["2 + 3 = 5."], "labels": [true]}
    PRM800K        {"question": {"problem": "2 + 3?"}, "label": {"steps": [
                       {"completions": [{"text": "2 + 3 = 5.", "rating": 1}], "chosen_completion": 0}]}}
    -> RawRow(input="2 + 3? Step 1: 2 + 3 = 5. ки", label="2 + 3? Step 1: 2 + 3 = 5. +", …)

    ProcessBench   {"id": "gsm8k-7", "problem": "2 + 3?", "steps": ["2 + 3 = 5."], "label": -1}
    any others     {"question": "2 + 3?", "steps": ["2 + 3 = 5."], "id": "a7", "gold_answer": 5, "labels": ["+"]}
    -> RawRow(input="2 + 3?\n2 + 3 = 5.", value=["+"], source_id="a7", question="2 + 3?", steps=["2 + 3 = 5."], …)

Rows of Math-Shepherd and TRL may have a `gold_answer` too. Rows of question and steps need no more than that: `id`,
`gold_answer`, `labels`, `task` and `split` may be left out. Their question and steps are taken as they are, without
markers and headers. So are those of ProcessBench, whose `label` (the first wrong step by people's judgement) is a truth
that labels are measured against, and no label itself.
"""

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.text import Identifier, Text, encodable, number_text
from cpmi_dagster.trajectories.step_segments import MARKER, clean, has_header

FORMS = (
    "input and label (Math-Shepherd); prompt, completions and labels (TRL); question and label (PRM800K); problem, "
    "steps and label (ProcessBench); or question and steps (any trajectories)"
)
RATING_OF_ERROR = -1
NO_ERROR = -1
SUBSET = re.compile(r"([a-z0-9]+)-\d+")
MARKS = {True: "+", False: "-", "+": "+", "-": "-"}


class RawRow(NamedTuple):
    """A row as `sources.math_shepherd` holds it; `defect` says why it cannot become a trajectory, if that is known.

    What follows `defect` is of rows of question and steps, and of ProcessBench, alone, but for the gold answer.
    """

    input: str
    label: str = ""
    task: str = ""
    value: Sequence[str] | None = None
    defect: str | None = None
    source_id: str | None = None
    question: str | None = None
    steps: Sequence[str] | None = None
    gold_answer: str | None = None
    split: str | None = None


def answer_text(value: Any) -> str | None:
    """A gold answer as text; a number is an answer too, a blank text is none.

    Raises:
        ValueError: it is neither, as a truth value, a list, or what is not a finite number.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return clean(encodable(value)) or None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and not isfinite(value))
    ):
        raise ValueError(f"a gold answer of the wrong kind, {type(value).__name__}; write text or a number")
    return number_text(value)


Answer = Annotated[str | None, BeforeValidator(answer_text)]


class MathShepherdRow(BaseModel):
    """Question and steps with `ки` behind every step; labels in the same text, in a list, or in both."""

    input: Text
    label: Text | None = None
    task: Text | None = None
    value: BoundedList[Text] | None = None
    gold_answer: Answer = None

    @model_validator(mode="after")
    def _is_labelled(self) -> "MathShepherdRow":
        if self.label is None and self.value is None:
            raise ValueError("the row has neither `label` nor `value`")
        return self

    def raw(self) -> RawRow:
        """The row as it is."""
        return RawRow(self.input, self.label or "", self.task or "", self.value, gold_answer=self.gold_answer)


class TrlRow(BaseModel):
    """The form of TRL's stepwise supervision: one completion and one label a step."""

    prompt: Text
    completions: BoundedList[Text]
    labels: BoundedList[bool]
    gold_answer: Answer = None
    task: Text | None = None

    @model_validator(mode="after")
    def _is_sound(self) -> "TrlRow":
        if len(self.completions) != len(self.labels):
            raise ValueError(f"{len(self.completions)} completions but {len(self.labels)} labels")
        if any(MARKER in text for text in (self.prompt, *self.completions)):
            raise ValueError(f"a text contains `{MARKER}`, which is reserved to mark the ends of steps")
        return self

    def raw(self) -> RawRow:
        """Prompt and completions with markers and, where they are missing, `Step i:` headers."""
        steps = [
            step if has_header(step) else f"Step {number}: {step}"
            for number, step in enumerate(self.completions, start=1)
        ]
        marks = ["+" if label else "-" for label in self.labels]
        texts = (_joined(self.prompt, steps, [MARKER] * len(steps)), _joined(self.prompt, steps, marks))
        return RawRow(*texts, clean(self.task or ""), gold_answer=self.gold_answer)


def _joined(prompt: str, steps: Sequence[str], marks: Sequence[str]) -> str:
    return f"{prompt} " + "\n".join(f"{step} {mark}" for step, mark in zip(steps, marks, strict=True))


class Completion(BaseModel):
    """A sampled or hand-written step of PRM800K; the rating is 1 (good), 0 (neutral), -1 (bad), or was not given."""

    text: Text
    rating: int | None = None


class RatedStep(BaseModel):
    """The completions that PRM800K's labeler saw at one step, and the one that the solution continues with."""

    completions: BoundedList[Completion] | None = None
    chosen_completion: int | None = None
    human_completion: Completion | None = None

    def taken(self) -> tuple[str, bool] | None:
        """Text and label of the completion that the solution continues with, else of the first bad one, if any."""
        completions = self.completions or []
        if self.chosen_completion is not None and 0 <= self.chosen_completion < len(completions):
            chosen = completions[self.chosen_completion]
            return (chosen.text, chosen.rating != RATING_OF_ERROR)
        if self.human_completion is not None:
            return (self.human_completion.text, True)
        return next(((one.text, False) for one in completions if one.rating == RATING_OF_ERROR), None)


class Prm800kQuestion(BaseModel):
    """The problem of a PRM800K row."""

    problem: Text


class Prm800kLabel(BaseModel):
    """The labelled steps of a PRM800K row."""

    steps: BoundedList[RatedStep]


class Prm800kRow(BaseModel):
    """A PRM800K row: the labeler's path through sampled steps, which ends where nothing right was found."""

    question: Prm800kQuestion
    label: Prm800kLabel

    def raw(self) -> RawRow:
        """The path as a labelled solution; neutral steps count as right."""
        path: list[tuple[str, bool]] = []
        for step in self.label.steps:
            taken = step.taken()
            if taken is None:
                break
            path.append(taken)
        steps, labels = [text for text, _ in path], [label for _, label in path]
        return TrlRow(prompt=self.question.problem, completions=steps, labels=labels).raw()


def _mark(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str) or value not in MARKS:
        raise ValueError("a label is true, false, 1, 0, `+` or `-`")
    return MARKS[value]


def _filled(text: str) -> str:
    if not clean(text):
        raise ValueError("it is empty")
    return text


Filled = Annotated[Text, AfterValidator(_filled)]


class QuestionRow(BaseModel):
    """A question and its steps, from whatever source; all else may be left out."""

    question: Filled
    steps: BoundedList[Filled] = Field(min_length=1)
    id: Identifier | None = None
    gold_answer: Answer = None
    labels: BoundedList[Annotated[str, BeforeValidator(_mark)]] | None = None
    task: Text | None = None
    split: Text | None = None

    @model_validator(mode="after")
    def _labels_fit(self) -> "QuestionRow":
        if self.labels is not None and len(self.labels) != len(self.steps):
            raise ValueError(f"{len(self.steps)} steps but {len(self.labels)} labels")
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


class ProcessBenchRow(BaseModel):
    """A solution in which people have marked the first wrong step, from 0; -1 where there is none."""

    problem: Filled
    steps: BoundedList[Filled] = Field(min_length=1)
    label: int = Field(ge=NO_ERROR, strict=True)
    id: Identifier | None = None

    @model_validator(mode="after")
    def _label_fits(self) -> "ProcessBenchRow":
        if self.label >= len(self.steps):
            raise ValueError(f"`label` is step {self.label} (from 0) of {len(self.steps)} steps")
        return self

    def raw(self) -> RawRow:
        """The row as it is; its task is the subset that its id names, as in `gsm8k-7`."""
        subset = SUBSET.fullmatch(str(self.id))
        row = QuestionRow(question=self.problem, steps=self.steps, id=self.id)
        return row.model_copy(update={"task": subset[1].upper() if subset else ""}).raw()

    def truth(self) -> list[bool | None]:
        """Whether each step is right: people have judged the steps up to the first wrong one, and none after it."""
        if self.label == NO_ERROR:
            return [True] * len(self.steps)
        return [True] * self.label + [False] + [None] * (len(self.steps) - self.label - 1)


def id_text(value: Any) -> str | None:
    """The id of a row of question and steps, as text; None for none, and for what is not an id."""
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return (clean(encodable(str(value))) or None) if is_id else None


def form_of(
    row: Mapping[str, Any],
) -> type[MathShepherdRow | TrlRow | Prm800kRow | ProcessBenchRow | QuestionRow] | None:
    """Which form a row has, by its columns; None for none of them."""
    if "input" in row:
        return MathShepherdRow
    if "prompt" in row and "completions" in row:
        return TrlRow
    if isinstance(row.get("question"), Mapping) and "label" in row:
        return Prm800kRow
    if "question" in row and "steps" in row:
        return QuestionRow
    return ProcessBenchRow if all(name in row for name in ("problem", "steps", "label")) else None
