"""What the report found: a question, its answer, whether this profile's data can tell, and the figures.

    Against free labels   can tell      Against the best label that costs nothing, CPMI's labels are worse by AUC
                                        without last steps, and cannot be distinguished by first wrong steps found.
                                        Of 136 solutions with an error, its lowest label is on the first wrong step …
    Against MC            can tell      Labels by CPMI and by MC differ: CPMI's rank steps worse. Over the 838 steps …
    When it works         can tell      How well CPMI labels steps rises with what its labeler knows of the answer. …
    Reward models         cannot tell   Reward models trained on CPMI labels cannot be distinguished from those on MC
                                        labels. …

A finding can tell where the 95 % interval of a difference does not hold 0, and Holm's p-value, where it has one, is
below 0.05. Its answer states every such difference of its table. Findings without figures are left out.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.reports.evidence import ACROSS, APART, BY_KNOWLEDGE, MARGIN, OTHER, TO_MC, WITHIN
from cpmi_dagster.reports.headline import best_control
from cpmi_dagster.reports.html_tables import ADJUSTED_P_VALUE, SIGNIFICANT, format_figure, format_interval
from cpmi_dagster.reports.labels import BLIND, FOUND, OPERATION_COLUMNS, WITHOUT_LAST
from cpmi_dagster.reports.paired_differences import PRIMARY, PRIMARY_ROW
from cpmi_dagster.reports.paper import OFFICIAL
from cpmi_dagster.reports.reward_rows import BASELINE, CHANCE_ROW, GOLDLESS_ROWS, METHOD

MOST = 4
"""Findings that are shown."""
F1 = "ProcessBench F1"
OTHER_MEASURES = {
    "PB": (f"{F1} at the best thresholds", 1),
    "AUC": ("AUC of steps", 3),
    "PRMB": ("PRMScore", 1),
    "MATH": ("MATH500", 1),
}
"""Of reward models, by column of the artifact `differences`: name and decimals."""
Frames = Mapping[str, pl.DataFrame]
Figure = Mapping[str, Any]


class Finding(NamedTuple):
    """One finding.

    Attributes:
        title: what it is about.
        tells: whether the difference is more than noise.
        answer: a sentence.
        figures: sentences with the numbers behind it.
    """

    title: str
    tells: bool
    answer: str
    figures: str

    @property
    def text(self) -> str:
        """The answer and its figures."""
        return f"{self.answer} {self.figures}"


def findings(frames: Frames) -> list[Finding]:
    """At most four findings, from comparison frames (`tables.PaperComparison`) by artifact name."""
    found = (_labels(frames), _equality(frames), _knowledge(frames), _models(frames))
    return [finding for finding in found if finding][:MOST]


def _labels(frames: Frames) -> Finding | None:
    """Are the labels better than one that costs nothing, and what do they cost?"""
    ours, free, difference, _ = _answer(frames, WITHIN)
    table = frames.get("label_within", pl.DataFrame())
    if ours is None or free is None or difference is None:
        return None
    verdicts = {"first wrong steps found": _verdict(difference)}
    *_, across, p_value = _answer(frames, ACROSS)
    if across:
        verdicts["AUC without last steps"] = _verdict(across, p_value)
    others = [f"{best_control(table, FOUND)}, the best free label, {_percent(free)}"]
    others += _goldless(table, FOUND, _percent)
    if baseline := _figure(table, BASELINE, FOUND):
        others.append(f"{BASELINE} {_percent(baseline)}{_of_fewer(baseline, ours, 'solutions')}")
    if blind := _figure(table, BLIND, FOUND):
        others.append(f"a blind pick {_percent(blind)}")
    answer = _stated(f"{METHOD}'s labels", "the best label that costs nothing", verdicts)
    within = (
        f"Of {ours['n']:,} solutions with an error, its lowest label is on the first wrong step in {_percent(ours)}; "
        f"{', '.join(others)}."
    )
    tells = any(verdict is not None for verdict in verdicts.values())
    return Finding("Against free labels", tells, answer, " ".join([within, *_across(frames)]))


def _across(frames: Frames) -> Iterator[str]:
    """The same over the steps of all solutions."""
    ours, free, *_ = _answer(frames, ACROSS)
    table = frames.get("label_quality", pl.DataFrame())
    if ours is None or free is None:
        return
    others = [f"{best_control(table, WITHOUT_LAST)} {_shown(free, 2)}"]
    others += _goldless(table, WITHOUT_LAST, partial(_shown, decimals=2))
    if baseline := _figure(table, BASELINE, WITHOUT_LAST):
        others.append(f"{BASELINE} {_shown(baseline, 2)}{_of_fewer(baseline, ours, 'steps')}")
    steps = f"Over {ours['n']:,} steps of all solutions, last steps excluded,"
    yield f"{steps} its AUC is {_shown(ours, 2)}; {', '.join(others)}."


def _goldless(table: pl.DataFrame, column: str, shown: Callable[[Figure], str]) -> Iterator[str]:
    """The controls that the labeler computes without a gold answer: what reading one should add to."""
    for row in GOLDLESS_ROWS:
        if figure := _figure(table, row, column):
            yield f"{row}, which needs the labeler but no gold answer, {shown(figure)}"


def _cost(frames: Frames) -> Iterator[str]:
    table = frames.get("efficiency", pl.DataFrame())
    time, tokens = (_figure(table, METHOD, column) for column in ("Time", "Token"))
    if time and tokens:
        yield (
            f"{METHOD} takes {format_figure(tokens['measured'], 2)} times the generated tokens of {BASELINE} and "
            f"{format_figure(time['measured'], 2)} times its time."
        )


def _knowledge(frames: Frames) -> Finding | None:
    """Does the method work better where the labeler knows more?"""
    most, least, difference, p_value = _answer(frames, BY_KNOWLEDGE)
    if most is None or least is None or difference is None:
        return None
    verdict = _verdict(difference, p_value)
    words = {None: "cannot be shown to depend on", True: "rises with", False: "falls with"}[verdict]
    answer = f"How well {METHOD} labels steps {words} what its labeler knows of the answer."
    text = (
        f"AUC without last steps is {_shown(least, 2)} where the gold answer is least likely before any step, and "
        f"{_shown(most, 2)} where it is most likely; they differ by {_shown(difference, 2)}."
    )
    return Finding("When it works", verdict is not None, answer, " ".join([text, *_operations(frames)]))


def _operations(frames: Frames) -> Iterator[str]:
    """How the labels fade with the work that is left, where the truth counts it."""
    table = frames.get("label_operations", pl.DataFrame())
    for row in (METHOD, BASELINE):
        left = [figure for column in OPERATION_COLUMNS if (figure := _figure(table, row, column))]
        if len(left) > 1:
            counts = ", ".join(figure["column"].removesuffix(" left") for figure in left)
            figures = ", ".join(format_figure(figure["measured"], 2) for figure in left)
            yield f"With {counts} operations left to do, the AUC of {row} is {figures}."


def _models(frames: Frames) -> Finding | None:
    """Do reward models trained on the labels differ, and are they better than chance?"""
    table, differences = (frames.get(name, pl.DataFrame()) for name in ("processbench", "differences"))
    primary = _figure(differences, PRIMARY_ROW, PRIMARY[1])
    rows = (METHOD, BASELINE, CHANCE_ROW)
    averages = [(row, figure) for row in rows if (figure := _figure(table, row + OFFICIAL, "Average"))]
    if primary is None or not averages:
        return None
    listed = ", ".join(f"{row} {_shown(figure, 1)}" for row, figure in averages)
    verdicts = {F1: _verdict(primary)}
    differ = [f"{F1} differs by {_shown(primary, 1)} ({listed}; one threshold from GSM8K)"]
    for measure, (name, decimals) in OTHER_MEASURES.items():
        figure, p_value = (_figure(differences, PRIMARY[0], measure + part) for part in ("", ADJUSTED_P_VALUE))
        if figure and (verdict := _verdict(figure, p_value)) is not None:
            verdicts[name] = verdict
            differ.append(f"{name} by {_shown(figure, decimals)}")
    answer = _stated(f"reward models trained on {METHOD} labels", f"those on {BASELINE} labels", verdicts)
    tells = any(verdict is not None for verdict in verdicts.values())
    return Finding("Reward models", tells, answer, f"{', '.join(differ)}.")


def _equality(frames: Frames) -> Finding | None:
    """Do the labels equal those by rollouts?"""
    ours, theirs, difference, p_value = _answer(frames, TO_MC)
    if ours is None or theirs is None or difference is None or difference["low"] is None:
        return None
    margin = format_figure(MARGIN, 2)
    is_equal = max(abs(difference["low"]), abs(difference["high"])) <= MARGIN
    verdict = _verdict(difference, p_value)
    if is_equal:
        words = f"rank steps equally well, within ± {margin}"
    elif verdict is None:
        words = f"can neither be distinguished nor called equal within ± {margin}"
    else:
        words = f"differ: {METHOD}'s rank steps {'better' if verdict else 'worse'}"
    text = (
        f"Over the {difference['n']:,} steps with both, label AUC is {_shown(ours, 2)} and {_shown(theirs, 2)}; the "
        f"difference is {_shown(difference, 2)}."
    )
    answer = f"Labels by {METHOD} and by {BASELINE} {words}."
    tells = is_equal or verdict is not None
    return Finding(f"Against {BASELINE}", tells, answer, " ".join([text, *_cost(frames)]))


def _answer(frames: Frames, row: str) -> list[Figure | None]:
    """CPMI's figure, what it is compared with, the difference and its p-value by Holm, of a row of `label_evidence`."""
    table = frames.get("label_evidence", pl.DataFrame())
    return [_figure(table, row, column) for column in (METHOD, OTHER, APART, APART + ADJUSTED_P_VALUE)]


def _verdict(difference: Figure, p_value: Figure | None = None) -> bool | None:
    """Whether a difference is above 0; None where its interval holds 0 or its p-value is above 0.05."""
    is_noise = difference["low"] is None or difference["low"] <= 0 <= difference["high"]
    return None if is_noise or (p_value and p_value["measured"] > SIGNIFICANT) else difference["measured"] > 0


def _stated(subject: str, other: str, verdicts: Mapping[str, bool | None]) -> str:
    """A sentence with the verdict by every measure; with that alone where all agree."""
    words = {True: "are better", False: "are worse", None: "cannot be distinguished"}
    if len(set(verdicts.values())) == 1:
        verdict = next(iter(verdicts.values()))
        return f"{subject[0].upper()}{subject[1:]} {words[verdict]} {'from' if verdict is None else 'than'} {other}."
    by_verdict = {each: [name for name, verdict in verdicts.items() if verdict is each] for each in words}
    clauses = [f"{words[each]} by {' and '.join(names)}" for each, names in by_verdict.items() if names]
    return f"Against {other}, {subject} {', and '.join(clauses)}."


def _of_fewer(figure: Figure, other: Figure, unit: str) -> str:
    """How much a figure is over, where that is less than another beside it."""
    return f" (of {figure['n']:,} {unit})" if figure["n"] < other["n"] else ""


def _figure(table: pl.DataFrame, row: str, column: str) -> Figure | None:
    if table.is_empty():
        return None
    found = table.filter(pl.col("row") == row, pl.col("column") == column).drop_nulls("measured")
    return None if found.is_empty() else found.row(0, named=True)


def _percent(figure: Figure) -> str:
    value, low, high = (None if figure[name] is None else 100 * figure[name] for name in ("measured", "low", "high"))
    return f"{format_figure(value, 0)} % {format_interval(low, high, 0)}".strip()


def _shown(figure: Figure, decimals: int) -> str:
    interval = format_interval(figure["low"], figure["high"], decimals)
    return f"{format_figure(figure['measured'], decimals)} {interval}".strip()
