"""The reader's own step labels: a file that `sources.step_truth` reads, one line a trajectory that has been judged.

    {"trajectory_id": "t000000017", "rewards": [0.93, 0.0, 0.41], "judged": [1], "reward_type": "cpmi",
     "by": {"ann": {"1": false, "2": true}, "bob": {"1": false, "2": false}}}

`by` has what each annotator says of each step, from 0. Steps in `judged` have the word of most of them in `rewards`, 1
for right and 0 for wrong. The others, among them those of which as many say right as wrong, have their soft label of
`reward_type`, or null where there is none. A line without `by` is of a single annotator, who has no name.
"""

import json
from collections import Counter
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
UNNAMED = "unnamed"
"""The annotator of judgements that have no name."""


class OwnLabel(BaseModel):
    """What annotators say of a trajectory; steps count from 0."""

    model_config = ConfigDict(frozen=True)

    trajectory_id: str
    rewards: BoundedList[FiniteFloat | None]
    judged: BoundedList[int]
    reward_type: str
    by: dict[str, dict[int, bool]] = {}

    def verdict(self, step: int, annotator: str) -> Verdict | None:
        """What an annotator says of a step."""
        right = self.by.get(annotator, {}).get(step)
        return None if right is None else "right" if right else "wrong"

    @property
    def majority(self) -> dict[int, bool | None]:
        """By step that anybody has judged, what most annotators say; None where as many say right as wrong."""
        return majority(self.by)


def majority(by: Mapping[str, Mapping[int, bool]]) -> dict[int, bool | None]:
    """By step, what most annotators say of it; None where as many say right as wrong."""
    votes: Counter[int] = Counter()
    for said in by.values():
        votes.update({step: 1 if right else -1 for step, right in said.items()})
    return {step: vote > 0 if vote else None for step, vote in sorted(votes.items())}


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

    def judge(
        self,
        trajectory_id: str,
        step: int,
        annotator: str,
        verdict: Verdict,
        reward_type: str,
        soft_labels: Sequence[float | None],
    ) -> None:
        """Keep what an annotator says of a step.

        Args:
            step: from 0.
            verdict: `clear` takes back what was said before.
            soft_labels: of all steps, which those keep that have no judgement; None where there is none.
        """
        with locked(self.path.with_name(f".{self.path.name}.lock")):
            labels = self.all()
            before = labels[trajectory_id].by if trajectory_id in labels else {}
            said = {**before.get(annotator, {}), step: verdict == "right"}
            if verdict == "clear":
                del said[step]
            every = {**before, annotator: said}.items()
            fitting = {name: {step: of[step] for step in range(len(soft_labels)) if step in of} for name, of in every}
            by = {name: of for name, of in fitting.items() if of}
            word = {step: float(right) for step, right in majority(by).items() if right is not None}
            labels[trajectory_id] = OwnLabel(
                trajectory_id=trajectory_id,
                rewards=[word.get(step, label) for step, label in enumerate(soft_labels)],
                judged=list(word),
                reward_type=reward_type,
                by=by,
            )
            if not by:
                del labels[trajectory_id]
            lines = lines_of(label.model_dump() for label in labels.values())
            with whole_file(self.path) as unfinished:
                unfinished.write_text("".join(lines), encoding="utf-8")

    def _label(self, number: int, line: str) -> OwnLabel:
        try:
            label = parse_line(line, OwnLabel, f"{self.path}, line {number}")
        except SourceError as error:
            raise SourceError(f"{error}, or give another file with --labels") from error
        if any(not 0 <= step < len(label.rewards) for step in [*label.judged, *label.majority]):
            raise SourceError(
                f"{self.path}, line {number}: `judged` or `by` names a step that has no reward; correct the line"
            )
        said = {step: bool(label.rewards[step]) for step in label.judged}
        return label if label.by or not said else label.model_copy(update={"by": {UNNAMED: said}})


def whole_set(rows: Iterable[Mapping[str, Any]], labels: Mapping[str, OwnLabel]) -> Iterator[str]:
    """Lines that label every trajectory, as a profile needs them: the annotators' word where there is one.

    Args:
        rows: trajectory_id and rewards, the soft labels of a reward type.
        labels: the annotators'.
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
