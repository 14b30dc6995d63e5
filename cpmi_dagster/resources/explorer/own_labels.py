"""The annotators' step labels: a file that `sources.step_truth` reads, a line per judged trajectory.

    {"trajectory_id": "t000000017", "text_hash": "9c1f…", "rewards": [0.93, 0.0, 0.41], "judged": [1],
     "reward_type": "cpmi", "by": {"ann": {"1": false, "2": true}, "bob": {"1": false, "2": false}}}

`by` has each annotator's verdict on each step, from 0. For a step in `judged`, `rewards` has the majority, 1 for right
and 0 for wrong; for another step or a tie, the soft label of `reward_type`, or null if there is none.
By `text_hash`, of question and steps, a judgement finds its solution if rows of the source have moved.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, FiniteFloat

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import whole_file
from cpmi_dagster.trajectories.question_key import text_hash

Verdict = Literal["right", "wrong", "clear"]
CLEAR = "clear"


class OwnLabel(BaseModel):
    """The verdicts on a trajectory; steps count from 0."""

    model_config = ConfigDict(frozen=True)

    trajectory_id: str
    text_hash: str | None = None
    rewards: BoundedList[FiniteFloat | None]
    judged: BoundedList[int]
    reward_type: str
    by: dict[str, dict[int, bool]]

    @property
    def line(self) -> str:
        """The label as a line of the file."""
        return f"{json.dumps(self.model_dump(), ensure_ascii=False)}\n"

    def is_of(self, question: str, steps: Sequence[str]) -> bool:
        """Whether the text that was judged is this one; true if the label does not say."""
        return self.text_hash in (None, text_hash(question, steps))

    def is_judged_by(self, annotator: str) -> bool:
        """Whether an annotator has named a wrong step, or called all right."""
        said = self.by.get(annotator, {})
        return False in said.values() or len(said) == len(self.rewards)

    @property
    def majority(self) -> dict[int, bool | None]:
        """The majority by judged step; None for a tie."""
        votes: Counter[int] = Counter()
        for said in self.by.values():
            votes.update({step: 1 if right else -1 for step, right in said.items()})
        return {step: vote > 0 if vote else None for step, vote in sorted(votes.items())}


def changes_of(verdict: Verdict, step: int) -> dict[int, bool | None]:
    """The changes by step of a verdict on one step."""
    return {step: None if verdict == CLEAR else verdict == "right"}


def changes_up_to(first_wrong: int | None, count: int) -> dict[int, bool | None]:
    """The changes by step of a first wrong step; None removes the verdicts on later steps."""
    wrong = count if first_wrong is None else first_wrong
    return {step: step < wrong if step <= wrong else None for step in range(count)}


class OwnLabels:
    """The file of labels, written with the first one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> dict[str, OwnLabel]:
        """The label by trajectory id, in the order of the file.

        Raises:
            SourceError: the file cannot be read, or a line is not a label.
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
        self, trajectory: Mapping[str, Any], annotator: str, changes: Mapping[int, bool | None], reward_type: str,
        soft_labels: Sequence[float | None],
    ) -> None:  # fmt: skip
        """Keep an annotator's verdicts on steps of a solution.

        Args:
            trajectory: trajectory_id, question, steps.
            changes: whether a step is right, by step; None removes a verdict.
            soft_labels: of all steps, for those without a majority; None if a step has none.

        Raises:
            SourceError: the file has a judgement of another text under this id, or as `all`.
        """
        trajectory_id, question, steps = (trajectory[name] for name in ("trajectory_id", "question", "steps"))
        with locked(self.path.with_name(f".{self.path.name}.lock")):
            labels = self.all()
            if trajectory_id in labels and not labels[trajectory_id].is_of(question, steps):
                raise SourceError(
                    f"{self.path} has a judgement of another solution as {trajectory_id}: the trajectories have "
                    "changed; name the file as sources.step_truth, which finds that by its text, and give --labels "
                    "another"
                )
            before = labels.pop(trajectory_id).by if trajectory_id in labels else {}
            now = {**before.get(annotator, {}), **changes}
            by = {**before, annotator: {step: right for step, right in now.items() if right is not None}}
            # the source may have fewer steps by now
            by = {name: {s: said[s] for s in sorted(said) if s < len(soft_labels)} for name, said in by.items()}
            by = {name: said for name, said in by.items() if said}
            if by:
                named = {"trajectory_id": trajectory_id, "text_hash": text_hash(question, steps)}
                label = OwnLabel(**named, rewards=[], judged=[], reward_type=reward_type, by=by)
                word = {each: float(right) for each, right in label.majority.items() if right is not None}
                rewards = [word.get(each, soft_label) for each, soft_label in enumerate(soft_labels)]
                labels[trajectory_id] = label.model_copy(update={"rewards": rewards, "judged": list(word)})
            with whole_file(self.path) as unfinished:
                unfinished.write_text("".join(label.line for label in labels.values()), encoding="utf-8")
