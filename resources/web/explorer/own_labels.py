"""The reader's own step labels: a file that `sources.step_labels` reads, one line a trajectory that has been judged.

    {"trajectory_id": "t000000017", "rewards": [0.93, 0.0, 0.41], "judged": [1], "reward_type": "cpmi"}

Steps in `judged` have the reader's word, 1 for right and 0 for wrong; the others the soft label that was shown.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, FiniteFloat

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.bounded_reading import BoundedList
from cpmi_dagster.files.json_lines import parse_line
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import whole_file

Verdict = Literal["right", "wrong", "clear"]


class OwnLabel(BaseModel):
    """What the reader says of a trajectory; steps count from 0."""

    model_config = ConfigDict(frozen=True)

    trajectory_id: str
    rewards: BoundedList[FiniteFloat]
    judged: BoundedList[int]
    reward_type: str

    def verdict(self, step: int) -> Verdict | None:
        """What the reader says of a step."""
        return None if step not in self.judged else "right" if self.rewards[step] else "wrong"


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
        if not self.path.exists():
            return {}
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SourceError(f"{self.path} cannot be read ({reason}); give another file with --labels") from error
        labels = [self._label(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        return {label.trajectory_id: label for label in labels}

    def judge(self, trajectory_id: str, step: int, verdict: Verdict, reward_type: str, shown: Sequence[float]) -> None:
        """Keep what the reader says of a step.

        Args:
            step: from 0.
            verdict: `clear` takes back what was said before.
            shown: the soft labels of all steps, which those have that the reader has not judged.
        """
        with locked(self.path.with_name(f".{self.path.name}.lock")):
            labels = self.all()
            before = labels.get(trajectory_id)
            said = {each: before.rewards[each] for each in before.judged if each < len(shown)} if before else {}
            said.pop(step, None)
            if verdict != "clear":
                said[step] = float(verdict == "right")
            rewards = [float(said.get(each, label)) for each, label in enumerate(shown)]
            labels[trajectory_id] = OwnLabel(
                trajectory_id=trajectory_id, rewards=rewards, judged=sorted(said), reward_type=reward_type
            )
            if not said:
                del labels[trajectory_id]
            lines = lines_of(label.model_dump() for label in labels.values())
            with whole_file(self.path) as unfinished:
                unfinished.write_text("".join(lines), encoding="utf-8")

    def _label(self, number: int, line: str) -> OwnLabel:
        try:
            label = parse_line(line, OwnLabel, f"{self.path}, line {number}")
        except SourceError as error:
            raise SourceError(f"{error}, or give another file with --labels") from error
        if any(not 0 <= step < len(label.rewards) for step in label.judged):
            raise SourceError(f"{self.path}, line {number}: `judged` names a step that has no reward; correct the line")
        return label


def whole_set(rows: Iterable[Mapping[str, Any]], labels: Mapping[str, OwnLabel]) -> Iterator[str]:
    """Lines that label every trajectory, as a profile needs them: the reader's word where there is one.

    Args:
        rows: trajectory_id and rewards, the soft labels of a reward type.
        labels: the reader's.
    """
    for row in rows:
        label = labels.get(row["trajectory_id"])
        judged = label.judged if label else []
        rewards = [
            label.rewards[step] if label and step in judged else reward for step, reward in enumerate(row["rewards"])
        ]
        yield from lines_of([{"trajectory_id": row["trajectory_id"], "rewards": rewards, "judged": judged}])


def lines_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Rows as JSON Lines."""
    return (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
