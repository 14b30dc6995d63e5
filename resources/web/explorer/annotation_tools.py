"""Judged steps, and steps to judge, in the form in which an annotation tool imports them.

Argilla, https://docs.argilla.io/latest/how_to_guides/import_export/ (`dataset.records.from_json`): a record a step

    {"id": "t000000017-1", "fields": {"question": "…", "before": "…", "step": "…"},
     "metadata": {"trajectory_id": "t000000017", "step_index": 1, "annotators": ["ann: right", "bob: right"]},
     "suggestions": {"verdict": {"value": "right", "score": 1.0, "agent": "majority"}}}

Label Studio, https://labelstud.io/guide/task_format: a task a step, an annotation for each annotator

    {"data": {"trajectory_id": "t000000017", "step_index": 1, "question": "…", "before": "…", "step": "…"},
     "annotations": [{"result": [{"from_name": "verdict", "to_name": "step", "type": "choices",
                                  "value": {"choices": ["right"]}}, …]}]}

Both tools know annotators by accounts of their own; our names go into metadata, and into a text of the annotation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

NOTHING_BEFORE = "(this is the first step)"


@dataclass(frozen=True)
class AskedStep:
    """A step of which it is asked whether it is right, and what annotators have said so far."""

    trajectory_id: str
    step_index: int
    question: str
    before: str
    step: str
    said: Mapping[str, bool]
    majority: bool | None

    @property
    def texts(self) -> dict[str, str]:
        """What an annotator reads; a tool may refuse an empty text."""
        return {"question": self.question, "before": self.before or NOTHING_BEFORE, "step": self.step}

    @property
    def place(self) -> dict[str, str | int]:
        """Where the step is."""
        return {"trajectory_id": self.trajectory_id, "step_index": self.step_index}


def argilla_record(asked: AskedStep) -> dict[str, Any]:
    """A step as a record of Argilla; what most say is its suggestion, for responses are of accounts there."""
    record: dict[str, Any] = {
        "id": f"{asked.trajectory_id}-{asked.step_index}",
        "fields": asked.texts,
        "metadata": {**asked.place, "annotators": [f"{name}: {_word(right)}" for name, right in asked.said.items()]},
    }
    if asked.majority is not None:
        score = list(asked.said.values()).count(asked.majority) / len(asked.said)
        record["suggestions"] = {"verdict": {"value": _word(asked.majority), "score": score, "agent": "majority"}}
    return record


def label_studio_task(asked: AskedStep) -> dict[str, Any]:
    """A step as a task of Label Studio."""
    return {
        "data": {**asked.place, **asked.texts},
        "annotations": [
            {
                "result": [
                    _result("verdict", "choices", {"choices": [_word(right)]}),
                    _result("annotator", "textarea", {"text": [name]}),
                ]
            }
            for name, right in asked.said.items()
        ],
    }


FORMS: dict[str, Callable[[AskedStep], dict[str, Any]]] = {
    "argilla": argilla_record,
    "label-studio": label_studio_task,
}
"""By name of the file."""


def _result(control: str, kind: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"from_name": control, "to_name": "step", "type": kind, "value": value}


def _word(right: bool) -> str:
    return "right" if right else "wrong"
