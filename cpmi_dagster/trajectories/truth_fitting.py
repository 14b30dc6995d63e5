"""Fits judgements to the solutions that they are about; one that fits none is left out with its reason.

    id "a7" is row 3, of steps ["2 + 3 = 5.", "5 + 1 = 7.", "So 7."]
    {"id": "a7", "first_error": 1}                                                  3   [true, false, null]
    {"id": "a7", "steps": ["2 + 3 = 5. 5 + 1", "= 7. So 7."], "first_error": 1}     left out: step 1 is in two of these
    {"id": "a8", "first_error": 1}                                                  left out: no trajectory has this id
    {"row_number": 3, "text_hash": "…", …}                                          the row of this text, wherever it is

Steps that an annotator has cut elsewhere, as in the thoughts of a chat, are found by their text, blanks and tags aside:
a step of the solution is right if steps judged right cover it, and wrong if a step judged wrong lies in it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.answers.extraction import without_tags
from cpmi_dagster.contracts.tables import RejectedTruth, StepTruth
from cpmi_dagster.errors import MalformedRow, SourceError
from cpmi_dagster.files.text import counted
from cpmi_dagster.trajectories.question_key import text_hash
from cpmi_dagster.trajectories.readers import judge_up_to
from cpmi_dagster.trajectories.rows import Row, Unreadable, originals
from cpmi_dagster.trajectories.step_truth import Judgement, Judgements, Truth, kinds_of, merge_truths
from cpmi_dagster.trajectories.steps import without_headers

SOLUTION_COLUMNS = ["row_number", "source_id", "question_id", "question", "steps", "gold_answer", "defect"]
"""Columns of `sources.math_shepherd` that judgements are fitted by."""
SHOWN_REASONS = 3


class FittedTruth(NamedTuple):
    """Judgements by the rows of the trajectory source that they are about.

    Attributes:
        truth: `StepTruth` rows.
        rejected: `RejectedTruth` rows: judgements that fit no solution, and rows that cannot be read.
        fitting: number of the rows that fit.
        unjudged: number of the rows that judge no step.
    """

    truth: pl.DataFrame
    rejected: pl.DataFrame
    fitting: int
    unjudged: int

    @property
    def notes(self) -> list[str]:
        """Sentences on the rows that are left out, the first with their reasons; none if all fit."""
        notes, left_out = [], self.rejected.height
        if left_out:
            shown = self.rejected.head(SHOWN_REASONS).select(pl.col("row_number") + 1, "reason").iter_rows()
            reasons = [f"row {number}: {reason}" for number, reason in shown]
            more = [f"and {left_out - SHOWN_REASONS:,} more"] if left_out > SHOWN_REASONS else []
            fit = f"{self.fitting:,} of {counted(self.fitting + left_out, 'judged row')} of sources.step_truth fit"
            notes.append("; ".join([fit, *reasons, *more]))
        if self.unjudged:
            judge = "judges" if self.unjudged == 1 else "judge"
            notes.append(f"{counted(self.unjudged, 'row')} of sources.step_truth {judge} no step")
        return notes


class Solutions:
    """Rows of the trajectory source that judgements may be about."""

    def __init__(self, frames: Iterable[pl.DataFrame], judged: Collection[Judgement]) -> None:
        """Keep the rows that judgements name, with all rows of their questions, of frames of `SOLUTION_COLUMNS`."""
        named = pl.any_horizontal(
            pl.col(name).is_in([value for each in judged if (value := getattr(each, name)) is not None])
            for name in ("row_number", "source_id", "question_id")
        ).fill_null(False)
        self.example: str | None = None
        kept = []
        for frame in frames:
            self.example = self.example or next(iter(frame["source_id"].drop_nulls()), None)
            kept.append(frame.filter(named.any().over("question_id")))
        rows = pl.concat(kept).sort("row_number")
        self.by_number: dict[int, dict[str, Any]] = {row["row_number"]: row for row in rows.iter_rows(named=True)}
        self.by_id: dict[str, int] = {}
        self.by_question: dict[str, list[int]] = defaultdict(list)
        for number, row in self.by_number.items():
            if row["defect"] is None:
                self.by_question[row["question_id"]].append(number)
            if row["source_id"] is not None:  # the first has the id; later ones have a defect
                self.by_id.setdefault(row["source_id"], number)
        self.originals = originals(rows.filter(pl.col("defect").is_null()))

    def fit(self, judgement: Judgement) -> tuple[int, Truth]:
        """The row that a judgement is about, and its truth.

        Raises:
            MalformedRow: there is none, or it names two.
        """
        wrong, number, by_id = None, judgement.row_number, self.by_id.get(judgement.source_id or "")
        if number is not None and by_id not in (None, number):
            raise MalformedRow(
                f'it names row {number} (from 0) and the id "{judgement.source_id}", which is row {by_id}; remove one'
            )
        for number in self._named(judgement):
            try:
                return self._fit_to(number, judgement)
            except MalformedRow as error:
                wrong = wrong or error
        raise wrong or MalformedRow(self._unknown(judgement))

    def _named(self, judgement: Judgement) -> Iterator[int]:
        """The rows that a judgement may be about: the named one first, then one with its text."""
        number = judgement.row_number
        if number is None:
            number = self.by_id.get(judgement.source_id or "")
        if number in self.by_number:
            yield number
        if judgement.row_number is None or judgement.text_hash:
            yield from self._of_text(judgement)

    def _of_text(self, judgement: Judgement) -> list[int]:
        """The first row of a judgement's question with all of its text, else the only one with its text within."""
        part, rows = _join(judgement.steps or ()), self.by_question.get(judgement.question_id or "", [])
        if judgement.text_hash:
            hashed = {self.originals.get(number, number) for number in rows if self._is_of(judgement, number)}
            return [*hashed] if len(hashed) == 1 else []
        texts = {number: _join(self.by_number[number]["steps"]) for number in rows}
        same = [number for number, text in texts.items() if text == part]
        within = [number for number, text in texts.items() if part and part in text]
        return same[:1] or (within if len(within) == 1 else [])

    def _is_of(self, judgement: Judgement, number: int) -> bool:
        row = self.by_number[number]
        return judgement.text_hash in (None, text_hash(row["question"], row["steps"]))

    def _fit_to(self, number: int, judgement: Judgement) -> tuple[int, Truth]:
        row = self.by_number[number]
        if row["defect"] is not None:
            raise MalformedRow(f"row {number + 1} of the trajectories cannot be read: {row['defect']}")
        if not self._is_of(judgement, number):
            changed = f"its `text_hash` is not that of row {number} (from 0): the trajectories have changed"
            raise MalformedRow(f"{changed}; judge the solution again")
        return self.originals.get(number, number), truth_of(judgement, row["steps"])

    def _unknown(self, judgement: Judgement) -> str:
        if judgement.row_number is not None:
            return f"the trajectories have no row {judgement.row_number} (from 0)"
        by_text = "no trajectory has its question and steps"
        if judgement.source_id is None:
            return by_text
        by_id = f'no trajectory has the id "{judgement.source_id}"'
        return by_id if judgement.question_id is None else f"{by_id}, and {by_text.replace('no trajectory', 'none')}"


def fit_judgements(
    read: Judgements, frames: Iterable[pl.DataFrame], rows: Iterable[Row] = (), is_part: bool = False
) -> FittedTruth:
    """Find the solution of every judgement.

    Two rows on one solution are one if neither contradicts the other, else both are left out.

    Args:
        frames: rows of `SOLUTION_COLUMNS`, all those of a question in one frame.
        rows: the same with all their columns, read only if no judgement fits: one of these may hold its id.
        is_part: there may be more trajectories, so that none may fit.

    Raises:
        SourceError: no row judges a step, or none fits.
    """
    solutions = Solutions(frames, read.judged)
    rejected = list(read.rejected)
    fitted: dict[int, list[tuple[Judgement, Truth]]] = defaultdict(list)
    for judgement in read.judged:
        try:
            number, truth = solutions.fit(judgement)
        except MalformedRow as error:
            rejected.append((judgement.about, str(error)))
        else:
            fitted[number].append((judgement, truth))
    truths = []
    for number, judged in fitted.items():
        if (correct := merge_truths([truth for _, truth in judged])) is not None:
            truths.append((number, correct, *kinds_of(judged, len(correct))))
            continue
        which = " and ".join(str(each.about[0] + 1) for each, _ in judged)
        reason = f"rows {which} contradict each other on a step of one solution; correct or remove one"
        rejected += [(each.about, reason) for each, _ in judged]
    left_out = [(place, name, reason, excerpt) for (place, name, excerpt), reason in sorted(rejected)]
    fitting = len(read.judged) + len(read.rejected) - len(rejected)
    if not truths and not is_part:
        _refuse(read, left_out, solutions.example, rows)
    return FittedTruth(
        pl.DataFrame(truths, schema=StepTruth.create_empty().schema, orient="row"),
        pl.DataFrame(left_out, schema=RejectedTruth.create_empty().schema, orient="row"),
        fitting,
        read.unjudged,
    )


def _refuse(
    read: Judgements, rejected: Sequence[tuple[int, str | None, str, str]], example: str | None, rows: Iterable[Row]
) -> None:
    """Refuse a file of which no row fits; an empty one says nothing.

    Raises:
        SourceError: it has rows.
    """
    count = len(rejected) + read.unjudged
    if not count:
        return
    if not rejected:
        raise SourceError(
            f"sources.step_truth: of {counted(count, 'row')}, none says which steps are right; give `id` and "
            "`first_error` or `correct`, own_labels.jsonl of the explorer, or the rows of ProcessBench or PRM800K"
        )
    place, name, reason, _ = rejected[0]
    theirs = "have no ids" if example is None else f'have ids such as "{example}"'
    named = "" if name is None or f'"{name}"' in reason else f'; it names "{name}"'
    raise SourceError(
        f"sources.step_truth: of {counted(count, 'row')}, none fits a trajectory; row {place + 1}: {reason}{named}; "
        f"the trajectories {theirs}{_other_column(read, rows)}"
    )


def _other_column(read: Judgements, rows: Iterable[Row]) -> str:
    """What to do if another column of the trajectories holds an id of the judgements; else nothing."""
    ids = {each.source_id for each in read.judged} - {None}
    for row in rows if ids else ():
        for name, value in () if isinstance(row, Unreadable) else row.items():
            if name != "id" and isinstance(value, str | int) and str(value) in ids:
                return (
                    f', and their column `{name}` holds "{value}": '
                    f"give `--map id={name}` to `init`, or `fields: {{id: {name}}}` to sources.trajectories"
                )
    return ""


def truth_of(judgement: Judgement, solution_steps: Sequence[str]) -> Truth:
    """Whether each step of a solution is right by a judgement.

    Raises:
        MalformedRow: the judgement is of other steps.
    """
    size = len(solution_steps if judgement.steps is None else judgement.steps)
    correct, first = judgement.correct, judgement.first_error
    if correct is None:
        assert first is not None
        if first >= size:
            raise MalformedRow(f"`first_error` is step {first} (from 0) of {counted(size, 'step')}")
        correct = judge_up_to(first, size)
    if len(correct) != size:
        more = "; give its `steps` beside them, which are found by their text" if judgement.steps is None else ""
        raise MalformedRow(f"{counted(len(correct), 'judgement')} of {counted(size, 'step')}{more}")
    return correct if judgement.steps is None else align_truth(correct, judgement.steps, solution_steps)


def align_truth(correct: Truth, steps: Sequence[str], solution_steps: Sequence[str]) -> Truth:
    """Judgements of steps as those of a solution's own steps, which may be cut elsewhere.

    Args:
        correct: of `steps`, whose text is that of the solution, or stands in it once.

    Raises:
        MalformedRow: it does not, or a wrong step is several of the solution's own.
    """
    theirs, ours = [_bare(step) for step in steps], [_bare(step) for step in solution_steps]
    if theirs == ours:
        return correct
    part, whole = "".join(theirs), "".join(ours)
    if not part or whole.count(part) != 1:
        raise MalformedRow("its `steps` are not the text of the solution")
    judged = list(pairwise(accumulate(map(len, theirs), initial=whole.find(part))))
    truth: Truth = []
    wrong_in: dict[int, list[int]] = defaultdict(list)
    for place, (start, end) in enumerate(pairwise(accumulate(map(len, ours), initial=0))):
        within = [number for number, (first, last) in enumerate(judged) if first < end and start < last]
        for number in within:
            if correct[number] is False:
                wrong_in[number].append(place)
        is_covered = within and judged[0][0] <= start and end <= judged[-1][1]
        is_right = True if is_covered and all(correct[number] for number in within) else None
        truth.append(False if any(correct[number] is False for number in within) else is_right)
    for number, places in wrong_in.items():
        if len(places) > 1:
            raise MalformedRow(
                f"its wrong step {number} is steps {places[0]} to {places[-1]} of the solution (from 0); say which of "
                "these is wrong"
            )
    return truth


def _join(steps: Iterable[str]) -> str:
    return "".join(map(_bare, steps))


def _bare(step: str) -> str:
    """A step without blanks, `Step i:` and the tags of thoughts."""
    return "".join(without_headers(without_tags(step)).split())
