"""What the report found, in three sentences with their numbers, and whether this profile's data can tell.

    labels   cannot tell   CPMI's labels are no better than a label that costs nothing: AUC without last steps 0.66
                           [0.61, 0.71] against 0.70 [0.65, 0.74] of Final answer × position; MC has 0.72 [0.67, 0.77].
    cost     can tell      CPMI takes 0.22 times the time of MC and 0.02 times its generated tokens.
    models   cannot tell   …

A finding can tell where the 95 % interval of its difference does not hold 0. Findings without figures are left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.reports.headline import BASELINE, best_control
from cpmi_dagster.reports.html_tables import format_figure, format_interval
from cpmi_dagster.reports.knowledge import INTERACTION, THIRDS
from cpmi_dagster.reports.labels import TO_CONTROL, WITHOUT_LAST
from cpmi_dagster.reports.paired_differences import PRIMARY, PRIMARY_ROW
from cpmi_dagster.reports.paper import OFFICIAL
from cpmi_dagster.reports.reward_rows import CHANCE_ROW

METHOD = "CPMI"
Figure = Mapping[str, Any]


class Finding(NamedTuple):
    """One finding.

    Attributes:
        title: what it is about.
        tells: whether the difference is more than noise; None where nothing is compared.
        text: a sentence or two with the numbers.
    """

    title: str
    tells: bool | None
    text: str


def findings(frames: Mapping[str, pl.DataFrame]) -> list[Finding]:
    """At most three findings, from comparison frames (`tables.PaperComparison`) by artifact name."""
    found = (_labels(frames), _knowledge(frames), _models(frames))
    return [finding for finding in found if finding]


def _labels(frames: Mapping[str, pl.DataFrame]) -> Finding | None:
    """Are the labels better than one that costs nothing, and what do they cost?"""
    table = frames.get("label_quality", pl.DataFrame())
    ours, difference = _figure(table, METHOD, WITHOUT_LAST), _figure(table, METHOD, TO_CONTROL)
    control = _figure(table, best_control(table, WITHOUT_LAST) or "", WITHOUT_LAST)
    if ours is None or control is None or difference is None:
        return None
    verdict = _verdict(difference)
    words = {None: "no better or worse than", True: "better than", False: "worse than"}[verdict]
    others = [f"{control['row']} {_shown(control, 3)}"]
    if baseline := _figure(table, BASELINE, WITHOUT_LAST):
        others.append(f"{BASELINE} {_shown(baseline, 3)}")
    text = (
        f"{METHOD}'s labels are {words} the best label that costs nothing: over all steps their AUC differs by "
        f"{_shown(difference, 3)}. Without last steps {METHOD} has {_shown(ours, 3)}, {' and '.join(others)}."
    )
    return Finding("Labels", verdict is not None, " ".join([text, *_cost(frames)]))


def _cost(frames: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    table = frames.get("efficiency", pl.DataFrame())
    time, tokens = (_figure(table, METHOD, column) for column in ("Time", "Token"))
    if time and tokens:
        yield (
            f"They take {format_figure(tokens['measured'], 2)} times the generated tokens of {BASELINE} and "
            f"{format_figure(time['measured'], 2)} times its time."
        )


def _knowledge(frames: Mapping[str, pl.DataFrame]) -> Finding | None:
    """Does the method work better where the labeler knows more?"""
    table = frames.get("label_knowledge", pl.DataFrame())
    low, high, apart = (_figure(table, METHOD, column) for column in (THIRDS[0], THIRDS[-1], INTERACTION))
    if low is None or high is None or apart is None:
        return None
    verdict = _verdict(apart)
    words = {None: "does not clearly depend on", True: "rises with", False: "falls with"}[verdict]
    text = (
        f"How well {METHOD} labels steps {words} what its labeler knows of the answer: AUC without last steps "
        f"{_shown(low, 3)} where the gold answer is least likely before any step, {_shown(high, 3)} where most; "
        f"the difference is {_shown(apart, 3)}."
    )
    return Finding("When it works", verdict is not None, text)


def _models(frames: Mapping[str, pl.DataFrame]) -> Finding | None:
    """Do reward models trained on the labels differ, and are they better than chance?"""
    table, differences = (frames.get(name, pl.DataFrame()) for name in ("processbench", "differences"))
    primary = _figure(differences, PRIMARY_ROW, PRIMARY[1])
    rows = (METHOD, BASELINE, CHANCE_ROW)
    figures = [(row, figure) for row in rows if (figure := _figure(table, row + OFFICIAL, "Average"))]
    if primary is None or not figures:
        return None
    verdict = _verdict(primary)
    words = {None: "cannot be told apart", True: "are better", False: "are worse"}[verdict]
    subject = f"Reward models trained on {METHOD} and on {BASELINE} labels"
    if verdict is not None:
        subject = f"Reward models trained on {METHOD} labels"
        words += f" than those on {BASELINE} labels"
    listed = ", ".join(f"{row} {_shown(figure, 1)}" for row, figure in figures)
    text = f"{subject} {words}: ProcessBench F1 differs by {_shown(primary, 1)} ({listed}; one threshold from GSM8K)."
    return Finding("Reward models", verdict is not None, text)


def _verdict(difference: Figure) -> bool | None:
    """Whether a difference is above 0, None where its interval holds 0."""
    if difference["low"] is None or difference["low"] <= 0 <= difference["high"]:
        return None
    return difference["measured"] > 0


def _figure(table: pl.DataFrame, row: str, column: str) -> Figure | None:
    if table.is_empty():
        return None
    found = table.filter(pl.col("row") == row, pl.col("column") == column).drop_nulls("measured")
    return None if found.is_empty() else found.row(0, named=True)


def _shown(figure: Figure, decimals: int) -> str:
    interval = format_interval(figure["low"], figure["high"], decimals)
    return f"{format_figure(figure['measured'], decimals)} {interval}".strip()
