"""Rows whose steps people have judged: the first wrong step (ProcessBench), or a rating of each (PRM800K).

    {"id": "gsm8k-7", "problem": "2 + 3?", "steps": ["2 + 3 = 5.", "So 6."], "label": 1}
    {"question": {"problem": "2 + 3?", "ground_truth_answer": "5"}, "label": {"steps": [
        {"completions": [{"text": "2 + 3 = 5.", "rating": 1}], "chosen_completion": 0},
        {"completions": [{"text": "So 6.", "rating": -1}], "chosen_completion": null}]}}
    -> RawRow(question="2 + 3?", steps=["2 + 3 = 5.", "So 6."], …)      truth: [True, False]

What people say is a truth that labels are measured against (`sources.step_truth`), and no label itself.
"""

import re

from pydantic import BaseModel, Field, field_validator, model_validator

from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.text import Identifier, Text
from cpmi_dagster.trajectories.chats import Question
from cpmi_dagster.trajectories.row_fields import Answer, Filled, Listed, RawRow
from cpmi_dagster.trajectories.step_rows import QuestionRow

RATING_OF_ERROR = -1
NO_ERROR = -1
SUBSET = re.compile(r"([a-z0-9]+)-\d+")
WHOLE_NUMBER = re.compile(r"-?\d{1,9}(?:\.0+)?")


class ProcessBenchRow(BaseModel):
    """A solution in which people have marked the first wrong step, from 0; -1 where there is none."""

    problem: Question
    steps: Listed[Filled] = Field(min_length=1)
    label: int = Field(ge=NO_ERROR, strict=True)
    id: Identifier | None = None
    gold_answer: Answer = None

    @field_validator("label", mode="before")
    @classmethod
    def _of_a_cell(cls, label: object) -> object:
        """A cell of CSV holds it as text, and a column of pandas that lacks some as 1.0."""
        if isinstance(label, str | float) and WHOLE_NUMBER.fullmatch(str(label)):
            return int(float(label))
        return label

    @model_validator(mode="after")
    def _label_fits(self) -> "ProcessBenchRow":
        if self.label >= len(self.steps):
            raise ValueError(f"`label` is step {self.label} (from 0) of {len(self.steps)} steps")
        return self

    def raw(self) -> RawRow:
        """The row as it is; its task is the subset that its id names, as in `gsm8k-7`."""
        subset = SUBSET.fullmatch(str(self.id))
        task = subset[1].upper() if subset else ""
        return QuestionRow(
            question=self.problem, steps=self.steps, id=self.id, gold_answer=self.gold_answer, task=task
        ).raw()

    def truth(self) -> list[bool | None]:
        """Whether each step is right: people have judged the steps up to the first wrong one, and none after it."""
        if self.label == NO_ERROR:
            return [True] * len(self.steps)
        return [True] * self.label + [False] + [None] * (len(self.steps) - self.label - 1)


class Completion(BaseModel):
    """A sampled or hand-written step of PRM800K; the rating is 1 (good), 0 (neutral), -1 (bad), or was not given."""

    text: Text
    rating: int | None = None


class RatedStep(BaseModel):
    """The completions that PRM800K's annotator saw at one step, and the one that the solution continues with."""

    completions: BoundedList[Completion] | None = None
    chosen_completion: int | None = None
    human_completion: Completion | None = None

    def taken(self) -> tuple[str, bool] | None:
        """Text and truth of the completion that the solution continues with, else of the first bad one, if any."""
        completions = self.completions or []
        if self.chosen_completion is not None and 0 <= self.chosen_completion < len(completions):
            chosen = completions[self.chosen_completion]
            return (chosen.text, chosen.rating != RATING_OF_ERROR)
        if self.human_completion is not None:
            return (self.human_completion.text, True)
        return next(((one.text, False) for one in completions if one.rating == RATING_OF_ERROR), None)


class Prm800kQuestion(BaseModel):
    """The problem of a PRM800K row, and its answer."""

    problem: Filled
    ground_truth_answer: Answer = None


class Prm800kLabel(BaseModel):
    """The rated steps of a PRM800K row."""

    steps: BoundedList[RatedStep]


class Prm800kRow(BaseModel):
    """A PRM800K row: the annotator's path through sampled steps, which ends where nothing right was found."""

    question: Prm800kQuestion
    label: Prm800kLabel
    id: Identifier | None = None
    gold_answer: Answer = None

    @model_validator(mode="after")
    def _has_a_path(self) -> "Prm800kRow":
        if not self._path():
            raise ValueError("no step of it was chosen, written or rated -1")
        return self

    def _path(self) -> list[tuple[str, bool]]:
        path: list[tuple[str, bool]] = []
        for step in self.label.steps:
            if (taken := step.taken()) is None:
                break
            path.append(taken)
        return path

    def raw(self) -> RawRow:
        """The path as a solution."""
        return QuestionRow(
            question=self.question.problem,
            steps=[text for text, _ in self._path()],
            id=self.id,
            gold_answer=self.gold_answer or self.question.ground_truth_answer,
        ).raw()

    def truth(self) -> list[bool | None]:
        """Whether each step is right; neutral steps count as right."""
        return [is_right for _, is_right in self._path()]
