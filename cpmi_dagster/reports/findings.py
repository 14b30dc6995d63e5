"""The four findings that the report opens with: a sentence, its figures, and whether this data can tell.

    Labels on judged steps   this data can tell      By AUC without last steps, CPMI's labels are worse than MC's, by …
    Cost against MC          too few (4 shards)      A label by CPMI takes 0.12 times the time of one by MC, and …
    Reward models            this data cannot tell   Reward models trained on CPMI's labels cannot be distinguished …
    Trust without truth      a necessary condition   For 62 % of the questions the labeler half knows the answer …

The data can tell if the 95 % interval of a difference does not hold 0. From fewer than 10 resampled units the verdict
is `too few (9 questions)`, and no difference is stated. Without step truth, only a necessary condition is measured.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH, FEWEST_SOLUTIONS
from cpmi_dagster.benchmarks.metrics import CHANCE_AUC
from cpmi_dagster.benchmarks.resampling import Estimate, is_left_out, too_few
from cpmi_dagster.installed import program
from cpmi_dagster.reports import label_trust
from cpmi_dagster.reports.best_label import best_free
from cpmi_dagster.reports.figures import figures_by_column
from cpmi_dagster.reports.labels import FOUND, INNER, LABEL_AUC, TO_BASELINE, TO_CONTROL, WITHOUT_LAST
from cpmi_dagster.reports.models import COMPARED, PRIMARY, PRIMARY_ROW
from cpmi_dagster.reports.paper import OFFICIAL, format_estimate, format_figure
from cpmi_dagster.reports.quality import MEASURES
from cpmi_dagster.reports.reward_rows import (
    BASELINE,
    CEILING_ROW,
    CHANCE_ROW,
    FLOOR_ROW,
    GOLDLESS_ROWS,
    METHOD,
)

Frames = Mapping[str, pl.DataFrame]
Verdict = bool | str | None
"""Whether a difference is above 0; None if it may be 0, `too few (9 questions)` from too few units."""
TELLS, SILENT, NOT_MEASURED, TOO_FEW = "this data can tell", "this data cannot tell", "not measured", "too few"
NECESSARY = "a necessary condition"
"""The verdict of what is said without step truth."""


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
    """Labels on judged steps, against those by rollouts and the best one that costs nothing."""
    title, table = "Labels on judged steps", figures_by_column(frames.get("label_quality"))
    if METHOD not in table[WITHOUT_LAST]:
        following = (
            f"Next: judge {FEWEST_SOLUTIONS} solutions with “{program()} explore{option}”, add its own_labels.jsonl "
            "to sources.step_truth, and run again."
        )
        answer = "Labels are not measured: nothing, or too little, says which steps are right."
        return Finding(title, NOT_MEASURED, answer, (following,))
    columns = {f"{BASELINE}'s": TO_BASELINE + INNER, "those of the best free control": TO_CONTROL + INNER}
    differences = {other: table[column][METHOD] for other, column in columns.items() if METHOD in table[column]}
    differences = differences or {"chance": _minus(table[WITHOUT_LAST][METHOD], CHANCE_AUC)}
    verdict, answer = _compare(f"By AUC without last steps, {METHOD}'s labels", differences, 3)
    lines = []
    for column, words, decimals in (
        (WITHOUT_LAST, "AUC without last steps", 3),
        (LABEL_AUC, "AUC over all steps", 3),
        (FOUND, "Solutions whose lowest label is on the first wrong step", 2),
    ):
        free = best_free(table[column])
        named = {METHOD: METHOD, BASELINE: BASELINE, free or "": f"{free} (best free control)"}
        figures = _list_figures(table[column], named | {row: row for row in GOLDLESS_ROWS}, decimals)
        blind = _list_figures(table[column], {CHANCE_ROW: "chance"}, decimals) or [f"chance {CHANCE_AUC}"]
        lines += [f"{words}: {', '.join([*figures, *blind])}."] if figures else []
    return Finding(title, verdict, answer, tuple(lines))


def _costs(frames: Frames) -> Finding:
    """Time and tokens of a label, relative to one by rollouts."""
    title, table = f"Cost against {BASELINE}", figures_by_column(frames.get("efficiency"))
    both = {row: (time, table["Token"][row]) for row, time in table["Time"].items() if row in table["Token"]}
    if METHOD not in both:
        return Finding(title, NOT_MEASURED, f"Costs are not measured: no labels are by both {METHOD} and {BASELINE}.")
    texts = {row: [_format(figure) for figure in figures] for row, figures in both.items()}
    time, tokens = texts[METHOD]
    answer = f"A label by {METHOD} takes {time} times the time of one by {BASELINE}"
    answer += f", and {tokens} times its generated tokens."
    others = [f"{row} {time} and {tokens}" for row, (time, tokens) in texts.items() if row not in (METHOD, BASELINE)]
    beside = f"Time and tokens of others: {'; '.join([*others, 'free controls take neither'])}."
    return Finding(title, _state([_verdict(_minus(both[METHOD][0], 1))]), answer, (beside,))


def _models(frames: Frames) -> Finding:
    """Reward models trained on the labels against those on rollouts, if their controls hold."""
    title, differences = "Reward models", figures_by_column(frames.get("differences"))
    (pair, named), measure = PRIMARY, MEASURES[PRIMARY[1]]
    if PRIMARY_ROW not in differences[named]:
        why = f"no benchmark judges models trained on labels by both {METHOD} and {BASELINE}"
        return Finding(title, NOT_MEASURED, f"Reward models are not compared: {why}.")
    primary = {f"those on {BASELINE}'s in {measure.words}": differences[named][PRIMARY_ROW]}
    verdict, answer = _compare(f"Reward models trained on {METHOD}'s labels", primary, measure.decimals)
    averages = figures_by_column(frames.get("processbench"))["Average"]
    official = {row.removesuffix(OFFICIAL): figure for row, figure in averages.items() if row.endswith(OFFICIAL)}
    controls = {row: row.lower() for row in (CHANCE_ROW, CEILING_ROW, FLOOR_ROW)}
    f1s = _list_figures(official, {METHOD: METHOD, BASELINE: BASELINE, **controls}, measure.decimals)
    others = [
        f"{MEASURES[name].words} {_format(differences[name][pair], MEASURES[name].decimals)}"
        for name in COMPARED
        if pair in differences[name]
    ]
    lines = [f"{measure.words}, one threshold from GSM8K: {', '.join(f1s)}."]
    lines += [f"{pair} by other measures: {', '.join(others)}."] if others else []
    if failing := list(_failing_controls(official)):
        verdict, answer = SILENT, f"These reward models cannot tell labels apart: {' and '.join(failing)}."
    return Finding(title, verdict, answer, tuple(lines))


def _failing_controls(official: Mapping[str, Estimate]) -> Iterator[str]:
    """Clauses on the model on true steps if its F1 is not above chance, and on the one on uniform labels if it is.

    A control is above chance if the interval of its F1, less the mean of random judges, is above 0.
    """
    for row, has_to_beat in ((CEILING_ROW, True), (FLOOR_ROW, False)):
        if row in official and CHANCE_ROW in official and official[row].low is not None:
            is_above = _verdict(_minus(official[row], official[CHANCE_ROW].value)) is True
            if is_above != has_to_beat:
                yield f"one {row.lower()} is {'not ' if has_to_beat else ''}above chance"


def _final_answers(frames: Frames) -> Finding:
    """Without step truth: what the labeler knows of the answers, and AUC of labels on right and wrong final answers."""
    title, table = "Trust without truth", figures_by_column(frames.get("label_trust"))
    questions = table[label_trust.QUESTIONS]
    if not questions:
        return Finding(title, NOT_MEASURED, "What the labeler knows of the answers is not measured: it scored none.")
    shares = (questions.get(row) for row in (label_trust.HALF, label_trust.TOO_LITTLE, label_trust.ALREADY))
    parts = (_format(share.scaled(100), 0).partition(" ") if share else ("0", "", "") for share in shares)
    half, too_little, already = (f"{value} % {interval}".strip() for value, _, interval in parts)
    judged = figures_by_column(frames.get("label_quality"))[WITHOUT_LAST].get(METHOD)
    measured = (
        f"On judged steps, the AUC of {METHOD} without last steps is {_format(judged, 3)}. "
        if judged and not is_left_out(judged.units, judged.unit)
        else ""
    )
    answer = (
        f"{measured}For {half} of the questions the labeler half knows the answer before any step: only there can "
        f"{METHOD} tell steps apart; whether it does is what judged steps say."
    )
    least, most = label_trust.LEAST, label_trust.MOST
    known = (
        f"Measured: the probability the labeler gives the right answer, among it and the wrong ones, from the question "
        f"alone. For {too_little} it is at most {least}: too hard for this labeler; take a larger one. For {already} "
        f"it is at least {most}: the answer is known already, so that steps cannot change it."
    )
    prefix, column = f"{label_trust.ANSWERS}: ", table[label_trust.MEAN + label_trust.INNER]
    aucs = {row.removeprefix(prefix): figure for row, figure in column.items() if row.startswith(prefix)}
    counts = [table[kind].get(label_trust.SOLUTIONS, Estimate(0)) for kind in (label_trust.RIGHT, label_trust.WRONG)]
    right, wrong = (int(count.value) for count in counts)
    counted, ours = f"{right:,} right, {wrong:,} wrong", aucs.get(METHOD)
    if right + wrong and min(right, wrong) < FEWEST_OF_EACH:
        verdict: Verdict = f"{TOO_FEW} ({counted})"
    elif ours is None:
        return Finding(title, NECESSARY, answer, (known,))
    else:
        verdict = _verdict(_minus(ours, CHANCE_AUC))
    if ours is None or isinstance(verdict, str):
        unsaid = f"Whether labels tell right from wrong final answers cannot be said: {verdict}."
        return Finding(title, _state([verdict]), answer, (known, unsaid))
    words = {
        True: "tell right from wrong final answers",
        False: "are lower where the final answer is right",
        None: "cannot be shown to tell right from wrong final answers",
    }[verdict]
    beside = {row: row for row in (*GOLDLESS_ROWS, best_free(aucs) or "")}
    others = ", ".join([*_list_figures(aucs, beside), f"chance {CHANCE_AUC}"])
    over = (
        f"Of final answers, not of steps: {METHOD}'s labels {words}, with AUC {_format(ours)} over {ours.n:,} "
        f"solutions ({counted}), by their mean label, without last steps; {others}."
    )
    return Finding(title, NECESSARY, answer, (known, over))


def _compare(subject: str, differences: Mapping[str, Estimate], decimals: int) -> tuple[str, str]:
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
            phrases.append(f"{words[verdict]} {_format(figure.through(abs) if verdict is False else figure, decimals)}")
    return _state(verdicts.values()), f"{subject} {', and '.join(phrases)}."


def _state(verdicts: Iterable[Verdict]) -> str:
    """One verdict for several: the data can tell if one of them says so."""
    every = list(verdicts)
    if any(isinstance(verdict, bool) for verdict in every):
        return TELLS
    few = [verdict for verdict in every if isinstance(verdict, str)]
    return few[0] if len(few) == len(every) else SILENT


def _verdict(difference: Estimate) -> Verdict:
    """The verdict on a difference by its interval."""
    if few := too_few(difference.units, difference.unit):
        return few
    is_noise = difference.low is None or difference.high is None or difference.low <= 0 <= difference.high
    return None if is_noise else difference.value > 0


def _minus(figure: Estimate, amount: float) -> Estimate:
    return figure.through(lambda value: value - amount)


def _list_figures(figures: Mapping[str, Estimate], names: Mapping[str, str], decimals: int = 2) -> list[str]:
    """The figures of a column with their names, by row; rows without one, or of too few questions, are left out."""
    return [
        f"{name} {_format(figure, decimals)}"
        for row, name in names.items()
        if (figure := figures.get(row)) and not is_left_out(figure.units, figure.unit)
    ]


def _format(figure: Estimate, decimals: int = 2) -> str:
    """A figure and its interval, if it has one: the verdict says `too few`."""
    return format_figure(figure.value, decimals) if figure.low is None else format_estimate(figure, decimals)
