"""The reader's own step labels: a file that `sources.step_truth` reads, one line a trajectory that has been judged.

    {"trajectory_id": "t000000017", "rewards": [0.93, 0.0, 0.41], "judged": [1], "reward_type": "cpmi",
     "by": {"ann": {"1": false, "2": true}, "bob": {"1": false, "2": false}}}

`by` has what each annotator says of each step, from 0. Steps in `judged` have the word of most of them in `rewards`, 1
for right and 0 for wrong. The others, among them those of which as many say right as wrong, have their soft label of
`reward_type`, or null if there is none.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, FiniteFloat

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import whole_file

Verdict = Literal["right", "wrong", "clear"]
CLEAR = "clear"


class OwnLabel(BaseModel):
    """What annotators say of a trajectory; steps count from 0."""

    model_config = ConfigDict(frozen=True)

    trajectory_id: str
    rewards: BoundedList[FiniteFloat | None]
    judged: BoundedList[int]
    reward_type: str
    by: dict[str, dict[int, bool]]

    @property
    def line(self) -> str:
        """The label as a line of the file."""
        return f"{json.dumps(self.model_dump(), ensure_ascii=False)}\n"

    def is_judged_by(self, annotator: str) -> bool:
        """Whether an annotator has said which step is the first wrong one, or that all are right."""
        said = self.by.get(annotator, {})
        return False in said.values() or len(said) == len(self.rewards)

    @property
    def majority(self) -> dict[int, bool | None]:
        """By step that anybody has judged, what most annotators say; None if as many say right as wrong."""
        votes: Counter[int] = Counter()
        for said in self.by.values():
            votes.update({step: 1 if right else -1 for step, right in said.items()})
        return {step: vote > 0 if vote else None for step, vote in sorted(votes.items())}


def changes_of(verdict: Verdict, step: int) -> dict[int, bool | None]:
    """What a verdict on one step says."""
    return {step: None if verdict == CLEAR else verdict == "right"}


def changes_up_to(first_wrong: int | None, count: int) -> dict[int, bool | None]:
    """What the first wrong step of a solution says of each: nothing of the steps after it; None if all are right."""
    wrong = count if first_wrong is None else first_wrong
    return {step: step < wrong if step <= wrong else None for step in range(count)}


class OwnLabels:
    """The file of the reader's labels.

    Args:
        path: made with the first label.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> dict[str, OwnLabel]:
        """Every label by its trajectory, in the order of the file.

        Raises:
            SourceError: the file cannot be read, or a line is not one of this file's.
        """
        labels: dict[str, OwnLabel] = {}
        if not self.path.exists():
            return labels
        try:
            for place, label in read_json_lines(self.path, OwnLabel, "labels of the explorer"):
                if any(not 0 <= step < len(label.rewards) for step in [*label.judged, *label.majority]):
                    raise SourceError(f"{place}: `judged` or `by` names a step that has no reward; correct the line")
                labels[label.trajectory_id] = label
        except (OSError, SourceError) as error:
            raise SourceError(f"{error}, or give another file with --labels") from error
        return labels

    def judge(
        self, trajectory_id: str, annotator: str, changes: Mapping[int, bool | None], reward_type: str,
        soft_labels: Sequence[float | None],
    ) -> None:  # fmt: skip
        """Keep what an annotator says of some steps of a solution.

        Args:
            changes: by step, from 0, whether it is right; None takes back what was said before.
            soft_labels: of all steps, which those keep that have no judgement; None if there is none.
        """
        with locked(self.path.with_name(f".{self.path.name}.lock")):
            labels = self.all()
            before = labels.pop(trajectory_id).by if trajectory_id in labels else {}
            now = {**before.get(annotator, {}), **changes}
            by = {**before, annotator: {step: right for step, right in now.items() if right is not None}}
            # steps that the source no longer has are left out
            by = {name: {s: said[s] for s in sorted(said) if s < len(soft_labels)} for name, said in by.items()}
            by = {name: said for name, said in by.items() if said}
            if by:
                label = OwnLabel(trajectory_id=trajectory_id, rewards=[], judged=[], reward_type=reward_type, by=by)
                word = {each: float(right) for each, right in label.majority.items() if right is not None}
                rewards = [word.get(each, soft_label) for each, soft_label in enumerate(soft_labels)]
                labels[trajectory_id] = label.model_copy(update={"rewards": rewards, "judged": list(word)})
            with whole_file(self.path) as unfinished:
                unfinished.write_text("".join(label.line for label in labels.values()), encoding="utf-8")
