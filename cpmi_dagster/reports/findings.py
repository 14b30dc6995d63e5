"""What the report opens with: four findings, each one sentence, its figures, and whether this data can tell.

    Labels on judged steps   this data can tell      By AUC over all steps, CPMI's labels are worse than MC's, by …
    Cost against MC          too few (4 shards)      A label by CPMI takes 0.12 times the time of one by MC, and …
    Reward models            this data cannot tell   Reward models trained on CPMI's labels cannot be distinguished …
    Trust without truth      not measured            What the labeler knows of the answers is not measured: …

The data can tell if the 95 % interval of a difference does not hold 0. From fewer than 10 resampled units the verdict
is `too few (9 questions)`, and no difference is stated.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH
from cpmi_dagster.benchmarks.resampling import too_few
from cpmi_dagster.benchmarks.step_distribution import CHANCE_AUC
from cpmi_dagster.reports import label_trust
from cpmi_dagster.reports.differences import COMPARED, PRIMARY, PRIMARY_ROW
from cpmi_dagster.reports.headline import best_free
from cpmi_dagster.reports.labels import FOUND, LABEL_AUC, TO_BASELINE, TO_CONTROL, WITHOUT_LAST
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA, OFFICIAL, format_figure, format_interval
from cpmi_dagster.reports.quality import MEASURES
from cpmi_dagster.reports.reward_rows import (
    BASELINE,
    CEILING_ROW,
    CHANCE_ROW,
    FLOOR_ROW,
    GOLDLESS_ROWS,
    METHOD,
)

NOTHING = pl.DataFrame(schema=COMPARISON_SCHEMA)
Frames = Mapping[str, pl.DataFrame]
Figure = Mapping[str, Any]
Verdict = bool | str | None
"""Whether a difference is above 0; None if it may be 0, `too few (9 questions)` from too few units."""
TELLS, SILENT, NOT_MEASURED, TOO_FEW = "this data can tell", "this data cannot tell", "not measured", "too few"


class Finding(NamedTuple):
    """One finding: its title, its verdict, a sentence, and lines of the figures beside it."""

    title: str
    verdict: str
    answer: str
    figures: tuple[str, ...] = ()


def findings(frames: Frames, option: str = "") -> list[Finding]:
    """The four findings, also those that are not measured.

    Args:
        frames: comparison frames (`tables.PaperComparison`) by artifact name.
        option: of the commands in the text, as `render_report` takes it.
    """
    return [_labels(frames, option), _costs(frames), _models(frames), _final_answers(frames)]


def _labels(frames: Frames, option: str) -> Finding:
    """Are the labels as good as those by rollouts, and better than the best one that costs nothing?"""
    title, table = "Labels on judged steps", frames.get("label_quality", NOTHING)
    ours = _figure(table, METHOD, LABEL_AUC)
    if ours is None:
        judged = label_trust.judged_so_far(frames.get("label_trust", NOTHING))
        why = judged or "nothing says which steps are right"
        following = (
            f"Next: judge fifty steps with “cpmi explore{option}”, name its own_labels.jsonl as sources.step_truth, "
            "and run again."
        )
        return Finding(title, TOO_FEW if judged else NOT_MEASURED, f"Labels are not measured: {why}.", (following,))
    differences = {
        words: figure
        for words, column in ((f"{BASELINE}'s", TO_BASELINE), ("those of the best free control", TO_CONTROL))
        if (figure := _figure(table, METHOD, column))
    }
    verdict, answer = _compare(
        f"By AUC over all steps, {METHOD}'s labels", differences or {"chance": _less(ours, CHANCE_AUC)}, 3
    )
    lines = []
    for column, words, decimals in (
        (LABEL_AUC, "AUC over all steps", 3),
        (WITHOUT_LAST, "AUC without last steps", 3),
        (FOUND, "Solutions whose lowest label is on the first wrong step", 2),
    ):
        free = best_free(table, column)
        named = {METHOD: METHOD, BASELINE: BASELINE, free or "": f"{free} (best free control)"}
        figures = _listed(table, column, named | {row: row for row in GOLDLESS_ROWS}, decimals)
        blind = _listed(table, column, {CHANCE_ROW: "chance"}, decimals) or [f"chance {CHANCE_AUC}"]
        lines += [f"{words}: {', '.join([*figures, *blind])}."] if figures else []
    return Finding(title, verdict, answer, tuple(lines))


def _costs(frames: Frames) -> Finding:
    """What do the labels cost, beside those by rollouts?"""
    title, table = f"Cost against {BASELINE}", frames.get("efficiency", NOTHING)
    time, tokens = (_figure(table, METHOD, column) for column in ("Time", "Token"))
    if time is None or tokens is None:
        return Finding(title, NOT_MEASURED, f"Costs are not measured: no labels are by both {METHOD} and {BASELINE}.")
    answer = (
        f"A label by {METHOD} takes {_shown(time)} times the time of one by {BASELINE}, and {_shown(tokens)} times its "
        "generated tokens."
    )
    others = [
        f"{row} {_shown(figure)} and {_shown(spent)}"
        for row in table["row"].unique(maintain_order=True)
        if row not in (METHOD, BASELINE)
        and (figure := _figure(table, row, "Time"))
        and (spent := _figure(table, row, "Token"))
    ]
    beside = f"Time and tokens of others: {'; '.join([*others, 'free controls take neither'])}."
    return Finding(title, _stated([_verdict(_less(time, 1))]), answer, (beside,))


def _models(frames: Frames) -> Finding:
    """Do reward models trained on the labels differ from those on rollouts, and do their controls hold?"""
    table, differences = (frames.get(name, NOTHING) for name in ("processbench", "differences"))
    (pair, named), title = PRIMARY, "Reward models"
    primary = _figure(differences, PRIMARY_ROW, named)
    if primary is None:
        why = f"no benchmark judges models trained on labels by both {METHOD} and {BASELINE}"
        return Finding(title, NOT_MEASURED, f"Reward models are not compared: {why}.")
    decimals = MEASURES[named].decimals
    subject, other = f"Reward models trained on {METHOD}'s labels", f"those on {BASELINE}'s in {MEASURES[named].words}"
    verdict, answer = _compare(subject, {other: primary}, decimals)
    official = table.filter(pl.col("row").str.ends_with(OFFICIAL)).with_columns(
        pl.col("row").str.strip_suffix(OFFICIAL)
    )
    rows = (METHOD, BASELINE, CHANCE_ROW, CEILING_ROW, FLOOR_ROW)
    averages = _listed(official, "Average", {row: row.lower() if row in rows[2:] else row for row in rows}, decimals)
    others = [
        f"{MEASURES[name].words} {_shown(figure, MEASURES[name].decimals)}"
        for name in COMPARED
        if (figure := _figure(differences, pair, name))
    ]
    figures = [f"{MEASURES[named].words}, one threshold from GSM8K: {', '.join(averages)}."]
    figures += [f"{pair} by other measures: {', '.join(others)}."] if others else []
    if failing := list(_failing_controls(official)):
        answer = f"These reward models cannot tell labels apart: {' and '.join(failing)}."
        verdict = SILENT
    return Finding(title, verdict, answer, tuple(figures))


def _failing_controls(official: pl.DataFrame) -> Iterator[str]:
    """The model on true steps if its F1 is not above chance, and the one on uniform labels if it is.

    A control is above chance if the interval of its F1, less the mean of random judges, is above 0.
    """
    chance = _figure(official, CHANCE_ROW, "Average")
    for row, has_to_beat in ((CEILING_ROW, True), (FLOOR_ROW, False)):
        figure = _figure(official, row, "Average")
        if figure and chance and figure["low"] is not None:
            is_above = _verdict(_less(figure, chance["measured"])) is True
            if is_above != has_to_beat:
                yield f"one {row.lower()} is {'not ' if has_to_beat else ''}above chance"


def _final_answers(frames: Frames) -> Finding:
    """Without truth: does the labeler half know the answers, and do labels tell right final answers from wrong ones?"""
    title, table = "Trust without truth", frames.get("label_trust", NOTHING)
    knows = {
        words: _percent(figure)
        for words, row in (
            ("half", label_trust.HALF), ("too little", label_trust.TOO_LITTLE), ("already", label_trust.ALREADY)
        )
        if (figure := _figure(table, row, label_trust.QUESTIONS))
    }  # fmt: skip
    if not knows:
        return Finding(title, NOT_MEASURED, "What the labeler knows of the answers is not measured: it scored none.")
    answer = f"The labeler half knows {knows.pop('half')} of the answers"
    known = f"It knows too little of {knows.get('too little', 0)}, and {knows.get('already', 0)} already."
    prefix, column = f"{label_trust.ANSWERS}: ", label_trust.MEAN + label_trust.INNER
    aucs = table.filter(pl.col("row").str.starts_with(prefix)).with_columns(pl.col("row").str.strip_prefix(prefix))
    counts = [_figure(table, label_trust.SOLUTIONS, kind) for kind in (label_trust.RIGHT, label_trust.WRONG)]
    right, wrong = (int(count["measured"]) if count else 0 for count in counts)
    counted, ours = f"{right:,} right, {wrong:,} wrong", _figure(aucs, METHOD, column)
    if right + wrong and min(right, wrong) < FEWEST_OF_EACH:
        verdict: Verdict = f"{TOO_FEW} ({counted})"
    elif ours is None:
        return Finding(title, SILENT, f"{answer}.", (known,))
    else:
        verdict = _verdict(_less(ours, CHANCE_AUC))
    if ours is None or isinstance(verdict, str):
        unsaid = "whether labels tell right from wrong final answers cannot be said"
        return Finding(title, _stated([verdict]), f"{answer}; {unsaid}: {verdict}.", (known,))
    words = {
        True: "tell right from wrong final answers",
        False: "are lower where the final answer is right",
        None: "cannot be shown to tell right from wrong final answers",
    }[verdict]
    beside = {row: row for row in (*GOLDLESS_ROWS, best_free(aucs, column) or "")}
    others = ", ".join([*_listed(aucs, column, beside), f"chance {CHANCE_AUC}"])
    over = f"The AUC is over {ours['n']:,} solutions ({counted}), by their mean label, without last steps: {others}."
    answer += f"; {METHOD}'s labels {words}, with AUC {_shown(ours)}."
    return Finding(title, _stated([verdict]), answer, (over, known))


def _compare(subject: str, differences: Mapping[str, Figure], decimals: int) -> tuple[str, str]:
    """The verdict on some differences, by what is compared with, and the sentence that states them."""
    verdicts = {other: _verdict(figure) for other, figure in differences.items()}
    phrases = []
    for other, figure in differences.items():
        words = {
            True: f"are better than {other}, by",
            False: f"are worse than {other}, by",
            None: f"cannot be distinguished from {other}, with a difference of",
        }
        if isinstance(verdict := verdicts[other], str):
            phrases.append(f"cannot be compared with {other}: {verdict}")
        else:
            phrases.append(f"{words[verdict]} {_shown(figure, decimals)}")
    return _stated(verdicts.values()), f"{subject} {', and '.join(phrases)}."


def _stated(verdicts: Iterable[Verdict]) -> str:
    """One verdict for several: the data can tell if one of them says so."""
    every = list(verdicts)
    if any(isinstance(verdict, bool) for verdict in every):
        return TELLS
    few = [verdict for verdict in every if isinstance(verdict, str)]
    return few[0] if len(few) == len(every) else SILENT


def _verdict(difference: Figure) -> Verdict:
    """The verdict on a difference by its interval."""
    if few := too_few(difference["units"], difference["unit"]):
        return few
    is_noise = difference["low"] is None or difference["low"] <= 0 <= difference["high"]
    return None if is_noise else difference["measured"] > 0


def _figure(table: pl.DataFrame, row: str, column: str) -> Figure | None:
    """The measured figure of a cell."""
    found = table.filter(pl.col("row") == row, pl.col("column") == column).drop_nulls("measured")
    return None if found.is_empty() else found.row(0, named=True)


def _listed(table: pl.DataFrame, column: str, names: Mapping[str, str], decimals: int = 2) -> list[str]:
    """The figures of a column with their names, by row; rows without one are left out."""
    figures = {name: _figure(table, row, column) for row, name in names.items()}
    return [f"{name} {_shown(figure, decimals)}" for name, figure in figures.items() if figure]


def _less(figure: Figure, amount: float, scale: float = 1.0) -> Figure:
    """A figure and its interval times `scale`, minus `amount`."""
    ends = ("measured", "low", "high")
    return {**figure, **{end: None if figure[end] is None else scale * figure[end] - amount for end in ends}}


def _percent(figure: Figure) -> str:
    """A share and its interval in percent."""
    value, *interval = _shown(_less(figure, 0, scale=100), 0).split(" ", 1)
    return " ".join([value, "%", *interval])


def _shown(figure: Figure, decimals: int = 2) -> str:
    """A figure and its interval, if it has one: the verdict says `too few`."""
    interval = "" if figure["low"] is None else format_interval(figure, decimals)
    return f"{format_figure(figure['measured'], decimals)} {interval}".strip()
