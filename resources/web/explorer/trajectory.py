"""What the page of a trajectory shows: its steps under several reward types, and what a step's labels came from."""

from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from cpmi_dagster.contracts.contexts import CONDITIONINGS, ConditioningEntry
from cpmi_dagster.resources.web.explorer import queries
from cpmi_dagster.resources.web.explorer.addresses import Choice, known
from cpmi_dagster.resources.web.explorer.own_labels import OwnLabel
from cpmi_dagster.resources.web.explorer.snapshot import Row, View


@dataclass(frozen=True)
class Cell:
    """The label of a step under a reward type; nothing where it was not made."""

    reward: float | None
    soft_label: float | None


@dataclass(frozen=True)
class Step:
    """A step: its text, what its source says of it, its labels in the order of the chosen types, a judgement."""

    index: int
    text: str
    correct: bool | None
    kind: str | None
    shepherd: bool | None
    cells: list[Cell]
    verdict: str | None


@dataclass(frozen=True)
class AnswerRow:
    """An answer under each template: mean log-probability of its tokens, in nats, before and after a step."""

    rank: int
    answer: str
    source: str | None
    pairs: list[tuple[float | None, float | None]]

    @property
    def shifts(self) -> list[float | None]:
        """After less before, by template."""
        return [None if before is None or after is None else after - before for before, after in self.pairs]

    @property
    def mean_shift(self) -> float | None:
        """Over the templates."""
        known_shifts = [shift for shift in self.shifts if shift is not None]
        return sum(known_shifts) / len(known_shifts) if known_shifts else None


@dataclass(frozen=True)
class Evidence:
    """What the labels of one step came from."""

    conditionings: list[ConditioningEntry]
    conditioning: ConditioningEntry | None
    templates: list[int]
    answers: list[AnswerRow]
    rollouts: list[Row]
    prefix: list[str]


def found_trajectory(view: View, name: str) -> Row:
    """The trajectory behind an id.

    Raises:
        HTTPException: there is none that was selected; 404 with a sentence.
    """
    rows = view.rows(queries.TRAJECTORY, id=name)
    if not rows and (own := view.rows(queries.OWN_ID, id=name)):
        rows = view.rows(queries.TRAJECTORY, id=own[0]["trajectory_id"])
    if not rows:
        raise HTTPException(404, f"there is no labelled trajectory `{name[:100]}`; search for one, or try cpmi trace")
    return rows[0]


def steps_of(view: View, trajectory: Row, types: list[str], own: OwnLabel | None, annotator: str) -> list[Step]:
    """The steps of a trajectory, with the labels of some reward types and what an annotator says of them."""
    name, texts = trajectory["trajectory_id"], trajectory["steps"]
    rewards = view.rows(queries.REWARDS, shard=trajectory["shard"], id=name, types=types)
    soft = view.rows(queries.SOFT_LABELS, id=name, types=types)
    reward = {(row["step_index"], row["reward_type"]): row["reward"] for row in rewards}
    soft_label = {(row["step_index"], row["reward_type"]): row["soft_label"] for row in soft}
    truth: Row = next(iter(view.rows(queries.TRUTH, row_number=trajectory["row_number"])), {})
    return [
        Step(
            index,
            text,
            _at(truth.get("correct"), index),
            _at(truth.get("kind"), index),
            _at(trajectory["shepherd_labels"], index),
            [Cell(reward.get((index, each)), soft_label.get((index, each))) for each in types],
            own.verdict(index, annotator) if own else None,
        )
        for index, text in enumerate(texts)
    ]


def evidence_of(view: View, trajectory: Row, step: int, choice: Choice) -> Evidence:
    """What the labels of a step came from.

    Raises:
        HTTPException: the chosen conditioning was not scored.
    """
    name, shard = trajectory["trajectory_id"], trajectory["shard"]
    scored = [row["conditioning"] for row in view.rows(queries.CONDITIONINGS, shard=shard, id=name)]
    entries = [entry for entry in CONDITIONINGS.values() if entry.name in scored]
    if choice.conditioning and entries:
        known("conditioning", choice.conditioning, [entry.name for entry in entries])
    chosen = next((entry for entry in entries if entry.name == choice.conditioning), entries[0] if entries else None)
    templates, answers = _answers(view, trajectory, step, chosen) if chosen else ([], [])
    rollouts = view.rows(queries.ROLLOUTS, shard=shard, id=name, prefix_length=step + 1)
    return Evidence(entries, chosen, templates, answers, rollouts, trajectory["steps"][: step + 1])


def _answers(
    view: View, trajectory: Row, step: int, conditioning: ConditioningEntry
) -> tuple[list[int], list[AnswerRow]]:
    """The templates, and the answers under each."""
    after, before = conditioning.contrast(step, len(trajectory["steps"]) - 1)
    rows = view.rows(
        queries.ANSWERS,
        shard=trajectory["shard"],
        id=trajectory["trajectory_id"],
        gold=trajectory["gold_answer"],
        before=before.kind,
        before_step=before.step_index,
        after=after.kind,
        after_step=after.step_index,
    )
    templates = sorted({row["template"] for row in rows})
    by_rank: dict[int, dict[int, Row]] = {}
    for row in rows:
        by_rank.setdefault(row["answer_rank"], {})[row["template"]] = row
    return templates, [_answer_row(rank, by_rank[rank], templates) for rank in sorted(by_rank)]


def _answer_row(rank: int, rows: dict[int, Row], templates: list[int]) -> AnswerRow:
    first = next(iter(rows.values()))
    pairs = [(_mean(rows.get(each), "before"), _mean(rows.get(each), "after")) for each in templates]
    return AnswerRow(rank, first["answer"] or "", first["source"], pairs)


def _mean(row: Row | None, name: str) -> float | None:
    return row[name] / row["token_count"] if row and row[name] is not None else None


def _at(values: list[Any] | None, index: int) -> Any:
    return values[index] if values and index < len(values) else None
