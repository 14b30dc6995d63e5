"""What the figures say, by one rule: the headline, four findings, and a sentence on each reward model.

    0.09 [0.04, 0.15]      above 0
    −0.08 [−0.13, −0.02]   below 0
    0.02 [−0.05, 0.09]     not distinguishable from 0
    0.30, of 9 questions   too few (9 questions)

A finding is a sentence with its figures, and whether this data can tell:

    Labels on judged steps   this data can tell      Without last steps, the AUC of CPMI's labels is 0.190 below …
    Cost against MC          too few (4 shards)      A label by CPMI takes 0.12 times the time of one by MC, and …
    Reward models            this data cannot tell   ProcessBench F1 of reward models trained on CPMI's labels is …
    Trust without truth      a necessary condition   For 62 % of the questions the labeler half knows the answer …

The headline selects columns of tables: a row per reward type, then what they are to be measured by:

    CPMI      Label AUC without last steps 0.747 [0.702, 0.790; n=96]   ProcessBench F1 28.9 [24.1, 33.5; n=50]   …
    Chance    Label AUC without last steps 0.500                        ProcessBench F1 19.8 [15.2, 24.9; n=50]   …
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH, FEWEST_SOLUTIONS
from cpmi_dagster.benchmarks.metrics import CHANCE_AUC
from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS, Estimate, too_few
from cpmi_dagster.installed import program
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports import label_trust, models
from cpmi_dagster.reports.benchmark_tables import BOUNDS
from cpmi_dagster.reports.best_label import best_free
from cpmi_dagster.reports.figures import (
    ABOVE,
    BELOW,
    UNCLEAR,
    Columns,
    compare,
    figures_by_column,
    format_estimate,
    format_figure,
    side_of,
    unless_few,
)
from cpmi_dagster.reports.labels import FOUND, INNER, LABEL_AUC, TO_BASELINE, TO_CONTROL, WITHOUT_LAST
from cpmi_dagster.reports.models import MEASURES
from cpmi_dagster.reports.paper import (
    BASELINE,
    CEILING_ROW,
    CHANCE_ROW,
    FLOOR_ROW,
    GOLDLESS_ROWS,
    MAIN_ROWS,
    METHOD,
    OFFICIAL,
    TOGETHER_ROWS,
    main_rows,
)
from cpmi_dagster.rewards.controls import CORPUS_LABELS
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_label

Frames = Mapping[str, pl.DataFrame]
"""Comparison frames (`tables.PaperComparison`) by artifact name; an absent one has no figures."""
TELLS, SILENT, NOT_MEASURED, TOO_FEW = "this data can tell", "this data cannot tell", "not measured", "too few"
NECESSARY = "a necessary condition"
"""The verdict of what is said without step truth."""


class Finding(NamedTuple):
    """One finding: its title, its verdict, a sentence, and what is said beside it."""

    title: str
    verdict: str
    answer: str
    beside: tuple[str, ...] = ()


def findings(frames: Frames, option: str = "") -> list[Finding]:
    """The four findings, also those that are not measured; `option` is of commands, as `render_report` takes it."""
    names = ("label_quality", "efficiency", "processbench", "differences", "label_trust")
    quality, costs, benchmark, differences, trust = (figures_by_column(frames.get(name)) for name in names)
    return [_labels(quality, option), _costs(costs), _models(benchmark, differences), _trust(trust)]


def _labels(quality: Columns, option: str) -> Finding:
    """Labels on judged steps, against those by rollouts and the best one that costs nothing."""
    title = "Labels on judged steps"
    if (auc := quality[WITHOUT_LAST].get(METHOD)) is None:
        following = (
            f"Next: judge {FEWEST_SOLUTIONS} solutions with “{program()} explore{option}”, add its own_labels.jsonl "
            "to sources.step_truth, and run again."
        )
        answer = "Labels are not measured: nothing, or too little, says which steps are right."
        return Finding(title, NOT_MEASURED, answer, (following,))
    columns = {f"that of {BASELINE}": TO_BASELINE + INNER, "that of the best free label": TO_CONTROL + INNER}
    differences = {other: quality[column][METHOD] for other, column in columns.items() if METHOD in quality[column]}
    differences = differences or {"chance": auc.through(lambda value: value - CHANCE_AUC)}
    words = ", and ".join(compare(each, other, 3) for other, each in differences.items())
    return Finding(title, _tell(differences.values()), f"Without last steps, the AUC of {METHOD}'s labels {words}.")


def _costs(costs: Columns) -> Finding:
    """Time and tokens of a label, relative to one by rollouts."""
    title, time, tokens = f"Cost against {BASELINE}", costs["Time"].get(METHOD), costs["Token"].get(METHOD)
    if time is None or tokens is None:
        return Finding(title, NOT_MEASURED, f"Costs are not measured: no labels are by both {METHOD} and {BASELINE}.")
    texts = [format_figure(each.value, 2) if each.low is None else format_estimate(each, 2) for each in (time, tokens)]
    answer = f"A label by {METHOD} takes {texts[0]} times the time of one by {BASELINE}, and {texts[1]} times its"
    return Finding(title, _tell([time.through(lambda ratio: ratio - 1)]), f"{answer} generated tokens.")


def _models(benchmark: Columns, differences: Columns) -> Finding:
    """Reward models trained on the labels against those on rollouts, if their controls hold."""
    title, (pair, named), measure = "Reward models", models.PRIMARY, MEASURES[models.PRIMARY[1]]
    if (primary := differences[named].get(models.PRIMARY_ROW)) is None:
        why = f"no benchmark judges models trained on labels by both {METHOD} and {BASELINE}"
        return Finding(title, NOT_MEASURED, f"Reward models are not compared: {why}.")
    others = [
        f"{MEASURES[name].words} {format_estimate(differences[name][pair], MEASURES[name].decimals)}"
        for name in models.COMPARED
        if pair in differences[name]
    ]
    beside = (f"{pair} by other measures: {', '.join(others)}.",) if others else ()
    # one on true steps has to be above chance, and one on uniform labels must not
    official, chance = benchmark["Average"], benchmark["Average"].get(CHANCE_ROW + OFFICIAL)
    failing = [
        f"one {row.lower()} is {'not ' if has_to_beat else ''}above chance"
        for row, has_to_beat in ((CEILING_ROW, True), (FLOOR_ROW, False))
        if chance and (figure := official.get(row + OFFICIAL)) and figure.low is not None
        if (side_of(figure, chance.value) == ABOVE) != has_to_beat
    ]
    if failing:
        answer = f"These reward models cannot tell labels apart: {' and '.join(failing)}."
        return Finding(title, SILENT, answer, beside)
    words = compare(primary, f"that of those on {BASELINE}'s", measure.decimals)
    answer = f"{measure.words} of reward models trained on {METHOD}'s labels {words}."
    return Finding(title, _tell([primary]), answer, beside)


def _trust(trust: Columns) -> Finding:
    """Without step truth: what the labeler knows of the answers, and AUC of labels on right and wrong final answers."""
    title, questions = "Trust without truth", trust[label_trust.QUESTIONS]
    if (half := questions.get(label_trust.HALF)) is None:
        return Finding(title, NOT_MEASURED, "What the labeler knows of the answers is not measured: it scored none.")
    if few := too_few(half.units, half.unit):
        return Finding(title, few, f"What the labeler knows of the answers cannot be said: {few}.")
    shares = (questions.get(row, Estimate(0)).scaled(100) for row in (label_trust.TOO_LITTLE, label_trust.ALREADY))
    known, too_little, already = (
        "{} %{}{}".format(*format_estimate(share, 0).partition(" ")) for share in (half.scaled(100), *shares)
    )
    answer = (
        f"For {known} of the questions the labeler half knows the answer before any step: only there can {METHOD} tell "
        "steps apart; whether it does is what judged steps say."
    )
    measured = (
        f"Measured: the probability the labeler gives the right answer, among it and the wrong ones, from the question "
        f"alone. For {too_little} it is at most {label_trust.LEAST}: too hard for this labeler; take a larger one. For "
        f"{already} it is at least {label_trust.MOST}: the answer is known already, so that steps cannot change it."
    )
    kinds, none = (label_trust.RIGHT, label_trust.WRONG), Estimate(0)
    right, wrong = (int(trust[kind].get(label_trust.SOLUTIONS, none).value) for kind in kinds)
    column, prefix = trust[label_trust.MEAN + label_trust.INNER], f"{label_trust.ANSWERS}: "
    aucs = {row.removeprefix(prefix): figure for row, figure in column.items()}
    ours, counted = aucs.get(METHOD), f"{right:,} right, {wrong:,} wrong"
    few = f"{TOO_FEW} ({counted})" if right + wrong and min(right, wrong) < FEWEST_OF_EACH else ""
    if few := few or (ours and too_few(ours.units, ours.unit)):
        unsaid = f"Whether labels tell right from wrong final answers cannot be said: {few}."
        return Finding(title, few, answer, (measured, unsaid))
    if ours is None:
        return Finding(title, NECESSARY, answer, (measured,))
    others = [row for row in (*GOLDLESS_ROWS, best_free(aucs)) if row and unless_few(aucs.get(row))]
    over = (
        f"Of final answers, not of steps: a solution's mean label by {METHOD}, last steps left out, has AUC "
        f"{format_estimate(ours, 2)}, {side_of(ours, CHANCE_AUC)} chance, over {ours.n:,} solutions ({counted})"
    )
    beside = "".join(f"; {row} {format_estimate(aucs[row], 2)}" for row in others)
    return Finding(title, NECESSARY, answer, (measured, f"{over}{beside}."))


def _tell(differences: Iterable[Estimate]) -> str:
    """One verdict for several: the data can tell if one of them says so."""
    sides = [side_of(difference) for difference in differences]
    if any(side in (ABOVE, BELOW) for side in sides):
        return TELLS
    return SILENT if UNCLEAR in sides else sides[0]


def describe_models(table: pl.DataFrame | None) -> dict[str, str]:
    """One or two sentences on each model, by recipe, from the frame of the artifact `reward_models`."""
    columns = figures_by_column(table)
    return {recipe: _describe_model(columns, recipe) for recipe in columns[models.LOWEST]}


def _describe_model(columns: Columns, recipe: str) -> str:
    by_labels, held_out, judged = (
        unless_few(columns[name].get(recipe)) for name in (models.OWN_LABELS, models.JUDGED_HELD_OUT, models.JUDGED)
    )
    against = {"its own labels of questions held out": by_labels, "judged steps of questions held out": held_out}
    if not held_out:
        against[f"judged steps, {models.ALL_QUESTIONS}"] = judged
    aucs = [f"{format_estimate(auc, 3)} against {what}" for what, auc in against.items() if auc]
    few = "" if by_labels else f"Fewer than {FEWEST_UNITS} questions are held out to measure it on. "
    if not aucs:
        return few.strip()
    surest, band = held_out or by_labels or judged, models.score_band(columns, recipe, 2)
    side = side_of(surest, CHANCE_AUC) if surest else ABOVE
    doubt = f" That is {side} chance." if side != ABOVE else ""
    return f"{few}AUC {', '.join(aucs)} (chance {CHANCE_AUC}).{doubt}" + (
        f" Its scores are {band}." if models.SAME in band else ""
    )


class HeadlineColumn(NamedTuple):
    """A column of the headline and the column of an artifact that it is.

    Attributes:
        ceiling: the best there is, if no row has it.
        chance: likewise.
        suffix: of the artifact's rows, for a protocol.
        is_detail: a narrow terminal leaves it out.
    """

    title: str
    artifact: str
    column: str
    decimals: int
    ceiling: float | None = None
    chance: float | None = None
    suffix: str = ""
    is_detail: bool = False


UNMEASURED = "–"
BEST_FREE, CEILING = "Best free label", "Ceiling"
RENAMED = {BOUNDS["pass_at_1"]: CHANCE_ROW, BOUNDS["pass_at_n"]: CEILING}
"""Row of the headline by row of its table."""
HEADLINE_COLUMNS = (
    HeadlineColumn("Label AUC without last steps", "label_quality", WITHOUT_LAST, 3, 1, CHANCE_AUC),
    HeadlineColumn("… over all steps", "label_quality", LABEL_AUC, 3, 1, CHANCE_AUC, is_detail=True),
    HeadlineColumn("First wrong step found", "label_quality", FOUND, 2, 1, is_detail=True),
    HeadlineColumn("ProcessBench F1", "processbench", "Average", 1, 100, suffix=OFFICIAL),
    HeadlineColumn("PRMScore", "prmbench", "Total", 1, 100),
    HeadlineColumn("MATH500 best of 8 (%)", "best_of_n", "MATH500 N=8", 1),
    HeadlineColumn("Tokens (MC = 1)", "efficiency", "Token", 2),
    HeadlineColumn("Time (MC = 1)", "efficiency", "Time", 2),
)


def headline_table(frames: Frames, recipes: Sequence[Recipe] = ()) -> dict[str, dict[str, Estimate]]:
    """Figures by row, then by title of a column: of each label, then of what they are to be measured by.

    Args:
        recipes: the profile's reward models; those that differ in more than their labels have no row here.

    Returns:
        Only rows with any figure, and none if no label or reward model has one.
    """
    quality, costs = (
        frames[name]["row"].to_list() if name in frames else [] for name in ("label_quality", "efficiency")
    )
    of_recipes = {row.row for row in main_rows(recipes) if row.recipe}
    known = of_recipes | {entry.label for entry in REWARD_TYPES.values()} | {CHANCE_ROW, CEILING_ROW, FLOOR_ROW}
    # labels that come with the data: Math-Shepherd's if a model learned from them, and the user's own
    corpus = [row for row in costs if row == reward_label(CORPUS_LABELS)]
    labels = [*(row.row for row in MAIN_ROWS), *corpus, *(row for row in (*quality, *costs) if row not in known)]
    columns = {column.title: _column(column, frames.get(column.artifact)) for column in HEADLINE_COLUMNS}
    # one label in all columns: one that finds steps and another that ranks solutions cannot both be used
    free = next(filter(None, map(best_free, columns.values())), "")
    of_row = {f"{BEST_FREE}: {free}": free}
    others = (*TOGETHER_ROWS, *GOLDLESS_ROWS, *of_row, BOUNDS["majority"], CEILING_ROW, FLOOR_ROW, CHANCE_ROW, CEILING)
    table = {
        row: {title: figures[name] for title, figures in columns.items() if (name := of_row.get(row, row)) in figures}
        for row in (*labels, *others)
    }
    return {row: figures for row, figures in table.items() if figures} if any(table[row] for row in labels) else {}


def _column(column: HeadlineColumn, comparison: pl.DataFrame | None) -> dict[str, Estimate]:
    """The figures of a column by row of the headline; nothing if the artifact has none."""
    figures = {
        RENAMED.get(name := row.removesuffix(column.suffix), name): figure
        for row, figure in figures_by_column(comparison)[column.column].items()
        if row.endswith(column.suffix)
    }
    limits = {CEILING: column.ceiling, CHANCE_ROW: column.chance} if figures else {}
    return {row: Estimate(value) for row, value in limits.items() if value is not None} | figures


def format_headline(table: Mapping[str, Mapping[str, Estimate]]) -> pl.DataFrame:
    """The headline as strings for people, `0.747 [0.702, 0.790; n=96]`, under readable headings; `–`: not measured."""
    measured = {title for figures in table.values() for title in figures}
    decimals = {column.title: column.decimals for column in HEADLINE_COLUMNS if column.title in measured}
    rows = [
        {"Reward": row} | {title: format_estimate(figure, decimals[title]) for title, figure in figures.items()}
        for row, figures in table.items()
    ]
    schema = dict.fromkeys(["Reward", *decimals], pl.String())
    return pl.DataFrame(rows, schema).fill_null(UNMEASURED)
