"""Whether to train on a label: yes, no or not known, by the one rule of docs/decisions/022-when-to-train-on-a-label.md.

yes         AUC of CPMI without last steps minus that of the best free label of other questions: 0.09 [0.04, 0.15]
no          −0.08 [−0.13, −0.02]
not known   0.02 [−0.05, 0.09]; or fewer than 20 solutions are judged: judge 31 more (50 in all)
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.label_quality import FEWEST_FOR_AN_ANSWER, FEWEST_OF_EACH, FEWEST_SOLUTIONS
from cpmi_dagster.benchmarks.metrics import CHANCE_AUC
from cpmi_dagster.benchmarks.resampling import Estimate, share_lacking, too_few
from cpmi_dagster.files.text import counted
from cpmi_dagster.installed import program
from cpmi_dagster.reports import label_trust
from cpmi_dagster.reports.best_label import best_free
from cpmi_dagster.reports.figures import (
    ABOVE,
    BELOW,
    Columns,
    compare,
    figures_by_column,
    format_estimate,
    format_figure,
    side_of,
    unless_few,
)
from cpmi_dagster.reports.labels import FOUND, INNER, TO_CONTROL, WITHOUT_LAST, WITHOUT_STATED
from cpmi_dagster.reports.paper import CHANCE_ROW, TRAINED_TOGETHER_ROWS
from cpmi_dagster.rewards.registry import reward_label

YES, NO, NOT_KNOWN = "Yes", "No", "Not known"
MANY_EARLY = 0.05
"""Share of solutions that state the final answer before the last step, above which the verdict says so."""
MOST_MORE = 1_000
"""Further solutions to judge beyond which two labels count as alike."""


class Verdict(NamedTuple):
    """Whether to train on a label.

    Attributes:
        answer: `Yes`, `No` or `Not known`.
        because: one sentence with the figures behind it.
        following: what to do next.
        judged: solutions that the label labels and of which a step that is not the last one is judged.
        free: the best label that costs nothing on all questions, by name; empty if it is not known.
        caution: what figures without last steps do not leave out; empty if there is nothing.
    """

    answer: str
    because: str
    following: str
    judged: int
    free: str = ""
    caution: str = ""

    @property
    def answered(self) -> str:
        """The answer and the figures behind it."""
        return f"{self.answer}: {self.because}"

    @property
    def line(self) -> str:
        """All of it, for a terminal."""
        return f"{self.answered} {self.following} {self.caution}".strip()


def judge_label(
    frames: Mapping[str, pl.DataFrame], reward_type: str, option: str = "", is_pilot: bool = False
) -> Verdict:
    """The verdict on the label that a profile trains on.

    Args:
        frames: `label_quality` and `label_trust`, as far as they are made.
        option: of the commands in the text, as `render_report` takes it.
        is_pilot: a run of the whole profile labels the solutions without labels.
    """
    label = reward_label(reward_type)
    quality, counts = (figures_by_column(frames.get(name)) for name in ("label_quality", "label_trust"))
    of_label, of_all = label_trust.judged_solutions_of(label), label_trust.JUDGED_SOLUTIONS
    solutions = of_label if of_label in counts[label_trust.LABELLED] else of_all
    judged = sum(_right_and_wrong(counts, solutions))
    labelled = int(counts[label_trust.LABELLED].get(solutions, Estimate(FEWEST_SOLUTIONS)).value)
    left, left_judged = (
        _count(counts, label_trust.UNLABELLED, kind) if is_pilot else 0
        for kind in (label_trust.NUMBER, label_trust.OF_JUDGED)
    )
    steps = _right_and_wrong(counts, label_trust.JUDGED)
    answer, because, following = _answer(label, quality, steps, judged, labelled + left)
    if isinstance(following, int):
        following = _label_and_judge(following, option, judged, max(0, labelled - judged), left, left_judged)
    cautions = (
        _warn_of_early_answers(counts[label_trust.NUMBER], quality[WITHOUT_STATED].get(label)),
        _warn_of_one_kind(*_right_and_wrong(counts, label_trust.SOLUTIONS)),
    )
    free, caution = best_free(quality[WITHOUT_LAST]) or "", " ".join(filter(None, cautions))
    return Verdict(answer, because, following, judged, free, caution)


def _count(counts: Columns, row: str, column: str) -> int:
    return int(counts[column].get(row, Estimate(0)).value)


def _right_and_wrong(counts: Columns, row: str) -> list[int]:
    return [_count(counts, row, kind) for kind in (label_trust.RIGHT, label_trust.WRONG)]


def _answer(label: str, quality: Columns, steps: list[int], judged: int, labelled: int) -> tuple[str, str, str | int]:
    """Yes, no or not known; because of what; what to do next, or how many more solutions to judge.

    Args:
        steps: judged right, and wrong.
        labelled: solutions with labels, and those that a pilot has left for the whole run.
    """
    if not labelled:
        because = f"No solution with {label} has a step before its last one, and figures leave last steps out."
        return NOT_KNOWN, because, "Look at how the solutions are split into steps."
    if judged < FEWEST_FOR_AN_ANSWER:
        because = f"{judged} of the {FEWEST_FOR_AN_ANSWER} solutions that an answer needs are judged."
        # fewer labelled solutions cannot answer, however many of them are judged
        more = (min(FEWEST_SOLUTIONS, labelled) if labelled >= FEWEST_FOR_AN_ANSWER else FEWEST_SOLUTIONS) - judged
        return NOT_KNOWN, because, more if more > 0 else FEWEST_SOLUTIONS - judged
    aucs, apart = quality[WITHOUT_LAST], quality[TO_CONTROL + INNER].get(label)
    if (free := best_free(aucs)) == label:
        because = f"{label} is itself the label that others have to beat: the best of those that cost nothing."
        return NOT_KNOWN, because, "Compare it with labels that take a model."
    measured = f"on {judged:,} judged solutions, the AUC of {label} without last steps"
    rests_on = apart or aucs.get(label)
    if rests_on and (few := too_few(rests_on.units, rests_on.unit)):
        return NOT_KNOWN, f"{measured} says nothing yet: {few}.", FEWEST_SOLUTIONS
    if apart is None or free is None:
        because = (
            f"{steps[0]:,} steps are judged right and {steps[1]:,} wrong; figures need {FEWEST_OF_EACH} of each before "
            f"last steps, and {label} beside a label that costs nothing."
        )
        return NOT_KNOWN, because, FEWEST_SOLUTIONS
    # two figures of the same steps; the difference is of the steps that both label in any case
    is_same = label in aucs and aucs[label].units == aucs[free].units
    both = (
        f"; on all, {format_figure(aucs[label].value, 3)} and {format_figure(aucs[free].value, 3)}" if is_same else ""
    )
    compared = compare(apart, f"that of {free}, which costs nothing", 3)
    because = f"{measured} {compared} (if which label that costs nothing is best is chosen on other questions{both})."
    if (side := side_of(apart)) == ABOVE:
        return YES, because, f"Train on {label}."
    if side == BELOW:
        return NO, because, _instead(quality, free)
    # until the interval is as narrow as the difference is far from 0
    share = share_lacking(apart, abs(apart.value))
    if share is None or share * judged > MOST_MORE:
        return NOT_KNOWN, because, f"The two are nearly alike: take {free}, which costs nothing."
    return NOT_KNOWN, because, max(1, math.ceil(share * judged))


def label_facts(frames: Mapping[str, pl.DataFrame], reward_type: str) -> dict[str, str]:
    """What judged steps say of a label, by what it is: the rows of an export's card.

    Args:
        frames: as for `judge_label`.

    Returns:
        Empty if no solution is judged.
    """
    verdict, label = judge_label(frames, reward_type), reward_label(reward_type)
    if not verdict.judged:
        return {}
    quality = figures_by_column(frames.get("label_quality"))
    inner, found = quality[WITHOUT_LAST], quality[FOUND]
    aucs = {"chance": Estimate(CHANCE_AUC), verdict.free: inner.get(verdict.free)}
    facts = {
        "train on it?": f"{verdict.answered} {verdict.caution}".strip(),
        "judged solutions": f"{verdict.judged:,}",
        "AUC without last steps": _beside(inner.get(label), aucs),
        "first wrong step found": _beside(found.get(label), {"a blind pick": found.get(CHANCE_ROW)}),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _beside(figure: Estimate | None, others: Mapping[str, Estimate | None]) -> str:
    """A figure with others behind it; empty if it is of too few."""
    if (figure := unless_few(figure)) is None:
        return ""
    named = [f"{name} {format_figure(other.value, 3)}" for name, other in others.items() if other and other != figure]
    return f"{format_estimate(figure, 3)} ({', '.join(named)})"


def _label_and_judge(count: int, option: str, judged: int, unjudged: int, left: int, left_judged: int) -> str:
    """What to do to have `count` more judged solutions than `judged`; `unjudged` others are labelled.

    Args:
        left: solutions that a pilot has left for the whole run, of which `left_judged` are judged.
    """
    # the whole run may bring an answer by itself
    is_answered = judged < FEWEST_FOR_AN_ANSWER <= judged + left_judged
    more = 0 if is_answered else count - left_judged
    judge = _judge_more(more, option, unjudged + left - left_judged, judged + count) if more > 0 else ""
    if not left:
        return judge
    enough = ", enough for an answer" if is_answered else ""
    which = f", of which {left_judged:,} {'is' if left_judged == 1 else 'are'} judged{enough}" if left_judged else ""
    pilot = f"This is a pilot: “{program()} run{option}” labels the other {counted(left, 'solution')}{which}."
    return f"{pilot} {judge}".strip()


def _judge_more(count: int, option: str, unjudged: int, total: int) -> str:
    """What to do to have `count` more judged solutions, `total` in all, of which the file has `unjudged`."""
    about = "about " if count > FEWEST_SOLUTIONS else ""

    def more(of: int) -> str:
        return f"{about}{counted(of, 'more solution')}"

    with_explorer, in_all = f"with “{program()} explore{option}”", f"({about}{total:,} in all)"
    if not unjudged:
        return f"All of the file are judged: add {more(count)} to it {in_all}, run, and judge them {with_explorer}."
    then = "Add its own_labels.jsonl to sources.step_truth in the profile, and run again."
    if count <= unjudged:
        return f"Judge {more(count)} {in_all} {with_explorer}. {then}"
    return (
        f"Add {more(count - unjudged)} to the file, and judge these and the other {unjudged:,} {in_all} "
        f"{with_explorer}. {then}"
    )


def _instead(quality: Columns, free: str) -> str:
    """What to train on: one label from several unless it is worse, or a free one that finds errors."""
    apart = quality[TO_CONTROL + INNER]
    together = next((row for row in TRAINED_TOGETHER_ROWS if row in apart and apart[row].value >= 0), None)
    if together:
        doubt = "" if side_of(apart[together]) == ABOVE else f", which is not told apart from {free}"
        return f"Train on {together}{doubt}, or label with a larger model."
    found = quality[FOUND]
    if free in found and CHANCE_ROW in found and found[free].value < found[CHANCE_ROW].value:
        return f"Label with a larger model: {free} finds fewer first wrong steps than a blind pick."
    return f"Train on {free}, or label with a larger model."


def _warn_of_one_kind(right: int, wrong: int) -> str:
    """A sentence if all final answers are right, or all wrong."""
    if not max(right, wrong) or min(right, wrong):
        return ""
    kind = "right" if right else "wrong"
    doubt = "" if right else "; if some are right, look which field holds the gold answer (--map gold_answer=FIELD)"
    return (
        f"All {max(right, wrong):,} final answers that are known are {kind}: labels that know them tell nothing apart "
        f"here{doubt}."
    )


def _warn_of_early_answers(counts: Mapping[str, Estimate], without: Estimate | None) -> str:
    """A sentence if many solutions state the final answer before their last step.

    Args:
        without: the AUC without all steps that state it.
    """
    early = counts.get(label_trust.EARLY)
    if early is None or early.value <= MANY_EARLY * (early.n or 0):
        return ""
    without = unless_few(without)
    figure = f"; without those steps too the AUC is {format_estimate(without, 3)}" if without else ""
    return (
        f"In {early.value:,.0f} of {early.n:,} solutions a step before the last one states the final answer too: the "
        f"figure without last steps still knows it there{figure}."
    )
