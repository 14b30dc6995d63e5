"""Whether to train on a label: yes, no or not known, by the one rule of docs/decisions/022-when-to-train-on-a-label.md.

yes         AUC of CPMI without last steps minus that of the best free label of other questions: 0.09 [0.04, 0.15]
no          −0.08 [−0.13, −0.02]
not known   0.02 [−0.05, 0.09]; or fewer than 20 solutions are judged: judge 31 more, which makes 50
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH, FEWEST_SOLUTIONS
from cpmi_dagster.benchmarks.metrics import CHANCE_AUC
from cpmi_dagster.benchmarks.resampling import Estimate, is_left_out, share_lacking, too_few
from cpmi_dagster.files.text import counted
from cpmi_dagster.installed import program
from cpmi_dagster.reports import label_trust
from cpmi_dagster.reports.best_label import best_free
from cpmi_dagster.reports.figures import figures_by_column
from cpmi_dagster.reports.labels import FOUND, INNER, TO_CONTROL, WITHOUT_LAST, WITHOUT_STATED
from cpmi_dagster.reports.paper import format_estimate, format_figure
from cpmi_dagster.reports.reward_rows import CHANCE_ROW, TRAINED_TOGETHER_ROWS
from cpmi_dagster.rewards.registry import reward_label

YES, NO, NOT_KNOWN = "Yes", "No", "Not known"
MANY_EARLY = 0.05
"""Share of solutions that state the final answer before the last step, above which the verdict says so."""
FEWEST_FOR_AN_ANSWER = 20
"""Judged solutions from which an interval is believed, however many others there are."""
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


def judge_label(frames: Mapping[str, pl.DataFrame], reward_type: str, option: str = "") -> Verdict:
    """The verdict on the label that a profile trains on.

    Args:
        frames: `label_quality` and `label_trust`, as far as they are made.
        option: of the commands in the text, as `render_report` takes it.
    """
    label, quality = reward_label(reward_type), figures_by_column(frames.get("label_quality"))
    counts = figures_by_column(frames.get("label_trust"))

    def count(row: str) -> list[int]:
        columns = (counts[kind].get(row, Estimate(0)) for kind in (label_trust.RIGHT, label_trust.WRONG))
        return [int(figure.value) for figure in columns]

    of_label = label_trust.judged_solutions_of(label)
    solutions = of_label if of_label in counts[label_trust.LABELLED] else label_trust.JUDGED_SOLUTIONS
    judged, (right, wrong) = sum(count(solutions)), count(label_trust.JUDGED)
    aucs, apart = quality[WITHOUT_LAST], quality[TO_CONTROL + INNER].get(label)
    free = best_free(aucs) or ""
    answer = partial(
        Verdict,
        judged=judged,
        free=free,
        caution=_warn_of_early_answers(counts[label_trust.STATED], quality[WITHOUT_STATED].get(label)),
    )
    labelled = counts[label_trust.LABELLED].get(solutions, Estimate(FEWEST_SOLUTIONS))
    judge_more = partial(_judge_more, option=option, unjudged=max(0, int(labelled.value) - judged))
    if not labelled.value:
        because = f"No solution with {label} has a step before its last one, and figures leave last steps out."
        return answer(NOT_KNOWN, because, "Look at how the solutions are split into steps.")
    if judged < FEWEST_FOR_AN_ANSWER:
        because = f"{judged} of the {FEWEST_FOR_AN_ANSWER} solutions that an answer needs are judged."
        more = min(FEWEST_SOLUTIONS, int(labelled.value)) - judged
        return answer(NOT_KNOWN, because, judge_more(more if more > 0 else FEWEST_SOLUTIONS - judged))
    if free == label:
        because = f"{label} is itself the label that others have to beat: the best of those that cost nothing."
        return answer(NOT_KNOWN, because, "Compare it with labels that take a model.")
    measured = f"on {judged:,} judged solutions, the AUC of {label} without last steps"
    rests_on = apart or aucs.get(label)
    if rests_on and (few := too_few(rests_on.units, rests_on.unit)):
        return answer(NOT_KNOWN, f"{measured} says nothing yet: {few}.", judge_more(FEWEST_SOLUTIONS))
    if apart is None:
        because = (
            f"{right:,} steps are judged right and {wrong:,} wrong; figures need {FEWEST_OF_EACH} of each before last "
            f"steps, and {label} beside a label that costs nothing."
        )
        return answer(NOT_KNOWN, because, judge_more(FEWEST_SOLUTIONS))
    difference = format_estimate(apart.through(abs) if _is_below(apart) else apart, 3)
    # two figures of the same steps; the difference is of the steps that both label in any case
    is_same = label in aucs and aucs[label].units == aucs[free].units
    both = (
        f"; on all, {format_figure(aucs[label].value, 3)} and {format_figure(aucs[free].value, 3)}" if is_same else ""
    )
    beside = f"if which label that costs nothing is best is chosen on other questions{both}"
    if apart.low is not None and apart.low > 0:
        because = f"{measured} is {difference} above that of {free}, which costs nothing ({beside})."
        return answer(YES, because, f"Train on {label}.")
    if _is_below(apart):
        because = f"{measured} is {difference} below that of {free}, which costs nothing ({beside})."
        return answer(NO, because, _instead(quality, free))
    because = f"{measured} cannot be distinguished from that of {free}, which costs nothing: {difference} ({beside})."
    # until the interval is as narrow as the difference is far from 0
    share = share_lacking(apart, abs(apart.value))
    if share is None or share * judged > MOST_MORE:
        return answer(NOT_KNOWN, because, f"The two are nearly alike: take {free}, which costs nothing.")
    return answer(NOT_KNOWN, because, judge_more(max(1, math.ceil(share * judged))))


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
    if figure is None or is_left_out(figure.units, figure.unit):
        return ""
    named = [f"{name} {format_figure(other.value, 3)}" for name, other in others.items() if other and other != figure]
    return f"{format_estimate(figure, 3)} ({', '.join(named)})"


def _judge_more(count: int, option: str, unjudged: int) -> str:
    """What to do to have `count` more judged solutions, of which `unjudged` are labelled."""

    def more(of: int) -> str:
        return f"{'about ' if count > FEWEST_SOLUTIONS else ''}{counted(of, 'more solution')}"

    with_explorer = f"with “{program()} explore{option}”"
    if not unjudged:
        return f"All that are labelled are judged: add {more(count)} to the file, run, and judge them {with_explorer}."
    rows = f" and {more(count - unjudged)} to those of the trajectories" if count > unjudged else ""
    which = f"the other {unjudged}" if rows else more(count)
    named = f"add its own_labels.jsonl to sources.step_truth in the profile{rows}"
    return f"Judge {which} {with_explorer}, {named}, and run again."


def _instead(quality: Mapping[str, Mapping[str, Estimate]], free: str) -> str:
    """What to train on: one label from several unless it is worse, or a free one that finds errors."""
    apart = quality[TO_CONTROL + INNER]
    together = next((row for row in TRAINED_TOGETHER_ROWS if row in apart and apart[row].value >= 0), None)
    if together:
        return f"Train on {together}, or label with a larger model."
    found = quality[FOUND]
    if free in found and CHANCE_ROW in found and found[free].value < found[CHANCE_ROW].value:
        return f"Label with a larger model: {free} finds fewer first wrong steps than a blind pick."
    return f"Train on {free}, or label with a larger model."


def _warn_of_early_answers(counts: Mapping[str, Estimate], without: Estimate | None) -> str:
    """A sentence if many solutions state the final answer before their last step.

    Args:
        without: the AUC without all steps that state it.
    """
    early = counts.get(label_trust.EARLY)
    if early is None or early.value <= MANY_EARLY * (early.n or 0):
        return ""
    figure = ""
    if without and not too_few(without.units, without.unit):
        figure = f"; without those steps too the AUC is {format_estimate(without, 3)}"
    return (
        f"In {early.value:,.0f} of {early.n:,} solutions a step before the last one states the final answer too: the "
        f"figure without last steps still knows it there{figure}."
    )


def _is_below(difference: Estimate) -> bool:
    return difference.high is not None and difference.high < 0
