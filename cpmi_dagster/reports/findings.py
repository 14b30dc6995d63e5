"""What the report opens with: findings in words.

A finding is a question, its answer, whether this profile's data can tell, and the figures:

    Against free labels   can tell      Against the best label that costs nothing, CPMI's labels are worse by AUC
                                        without last steps, and cannot be distinguished by first wrong steps found.
                                        Of 136 solutions with an error, its lowest label is on the first wrong step …
    Reward models         cannot tell   Reward models trained on CPMI labels cannot be distinguished from those on MC
                                        labels. …

The data can tell where the 95 % interval of a difference does not hold 0, and Holm's p-value is below 0.05; the primary
difference of `label_evidence` has none. An answer states every such difference of its table; from too few questions it
says that, and nothing else. Findings without figures are left out.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH
from cpmi_dagster.benchmarks.resampling import too_few
from cpmi_dagster.benchmarks.step_distribution import CHANCE_AUC
from cpmi_dagster.reports import evidence, label_trust
from cpmi_dagster.reports.differences import COMPARED, PRIMARY, PRIMARY_ROW
from cpmi_dagster.reports.headline import best_free
from cpmi_dagster.reports.label_increment import GAIN, WITH
from cpmi_dagster.reports.labels import BLIND, FOUND, LABEL_AUC, WITHOUT_LAST
from cpmi_dagster.reports.paper import (
    ADJUSTED_P_VALUE,
    COMPARISON_SCHEMA,
    OFFICIAL,
    SIGNIFICANT,
    format_figure,
    format_interval,
)
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
"""Whether a difference is above 0; None where it may be 0, a text where too few questions say so."""


class Finding(NamedTuple):
    """One finding.

    Attributes:
        title: what it is about.
        tells: whether the difference is more than noise.
        answer: a sentence.
        figures: sentences with the numbers behind it.
        few: what stands in the verdict's place where too few questions give none.
    """

    title: str
    tells: bool
    answer: str
    figures: str
    few: str = ""

    @property
    def text(self) -> str:
        """The answer and its figures."""
        return f"{self.answer} {self.figures}"


def _trust(frames: Frames, option: str) -> Finding | None:
    """Without truth: does the labeler half know the answers, and do labels tell right final answers from wrong ones?"""
    table, quality = frames.get("label_trust", NOTHING), frames.get("label_quality", NOTHING)
    half = _figure(table, label_trust.HALF, label_trust.QUESTIONS)
    if half is None or quality.filter(column=LABEL_AUC)["measured"].count():
        return None
    answer = f"The labeler half knows {_percent(half)} of the answers"
    shares = (
        f"{words} for {_percent(figure)}"
        for row, words in ((label_trust.TOO_LITTLE, "too little"), (label_trust.ALREADY, "the answer already"))
        if (figure := _figure(table, row, label_trust.QUESTIONS))
    )
    figures = f"Of {half['n']:,} questions, it knows {' and '.join(shares)}."
    prefix, column = f"{label_trust.ANSWERS}: ", label_trust.MEAN + label_trust.INNER
    answers = table.filter(pl.col("row").str.starts_with(prefix)).with_columns(pl.col("row").str.strip_prefix(prefix))
    ours, verdict, few = _figure(answers, METHOD, column), None, ""
    right, wrong = (_figure(table, label_trust.SOLUTIONS, each) for each in (label_trust.RIGHT, label_trust.WRONG))
    counted = f"{right['measured']:,.0f} right, {wrong['measured']:,.0f} wrong" if right and wrong else ""
    if right and wrong and min(right["measured"], wrong["measured"]) < FEWEST_OF_EACH:
        answer += (
            f"; whether labels tell right from wrong final answers cannot be said: the solutions ({counted}) are too "
            f"few, it takes {FEWEST_OF_EACH} of each"
        )
    elif ours is not None and (few := _few(ours)):
        answer += f"; whether labels tell right from wrong final answers cannot be said: {few}"
    elif ours is not None:
        verdict = _verdict(_scaled(ours, less=CHANCE_AUC))
        words = {
            True: "tell right from wrong final answers",
            False: "are lower where the final answer is right",
            None: "cannot be shown to tell right from wrong final answers",
        }
        answer += f"; {METHOD}'s labels {words[verdict]}, with AUC {_shown(ours)}"
        beside = [row for row in (*GOLDLESS_ROWS, best_free(answers, column)) if row]
        others = [f"{row} {_shown(figure)}" for row in beside if (figure := _figure(answers, row, column))]
        answer += f"; {', '.join(others)}" if others else ""
        figures += f" The AUC is over {ours['n']:,} solutions ({counted}), by their mean label, without last steps."
    for row in GOLDLESS_ROWS:
        if alike := _figure(table, f"{label_trust.AGREEMENT}: {row}", METHOD):
            figures += f" The rank correlation of {METHOD} and {row} over {alike['n']:,} steps is {_shown(alike)}."
    judged = label_trust.judged_so_far(table) or "No step is judged so far"
    figures += (
        f" None of this says which steps are right. {judged}. Next: judge fifty steps with “cpmi explore{option}”, "
        "name its own_labels.jsonl as sources.step_truth, and run again."
    )
    return Finding("Trust without truth", verdict is not None, f"{answer}.", figures, few)


def _free_labels(frames: Frames) -> Finding | None:
    """Are the labels better than one that costs nothing, within a solution and over the steps of all?"""
    ours, free, difference, _ = _evidence(frames, evidence.WITHIN)
    if ours is None or free is None or difference is None:
        return None
    verdicts = {"first wrong steps found": _verdict(difference)}
    table = frames.get("label_within", NOTHING)
    others = [f"{best_free(table, FOUND)}, the best free label, {_percent(free)}"]
    others += _beside(table, FOUND, "solutions", ours, _percent)
    if blind := _figure(table, BLIND, FOUND):
        others.append(f"a blind pick {_percent(blind)}")
    figures = (
        f"Of {ours['n']:,} solutions with an error, its lowest label is on the first wrong step in {_percent(ours)}; "
        f"{', '.join(others)}."
    )
    ours, free, difference, p_value = _evidence(frames, evidence.ACROSS)
    if difference:
        verdicts["AUC without last steps"] = _verdict(difference, p_value)
    if ours is not None and free is not None:
        table = frames.get("label_quality", NOTHING)
        others = [f"{best_free(table, WITHOUT_LAST)} {_shown(free)}"]
        others += _beside(table, WITHOUT_LAST, "steps", ours, _shown)
        figures += (
            f" Over {ours['n']:,} steps of all solutions, last steps excluded, its AUC is {_shown(ours)}; "
            f"{', '.join(others)}."
        )
    return _compared(
        "Against free labels", f"{METHOD}'s labels", "the best label that costs nothing", verdicts, figures
    )


def _beside(table: pl.DataFrame, column: str, unit: str, ours: Figure, shown: Callable[[Figure], str]) -> Iterator[str]:
    """What stands beside a figure of ours: controls that the labeler computes without a gold answer, the baseline."""
    for row in GOLDLESS_ROWS:
        if figure := _figure(table, row, column):
            yield f"{row}, which needs the labeler but no gold answer, {shown(figure)}"
    if figure := _figure(table, BASELINE, column):
        yield f"{BASELINE} {shown(figure)}{_fewer(figure, ours, unit)}"


def _increment(frames: Frames) -> Finding | None:
    """What do the labels, and those by rollouts, add to labels that are had without them?"""
    table = frames.get("label_increment", NOTHING)
    gains = {gain["row"]: gain for gain in table.filter(column=GAIN).iter_rows(named=True)}
    base = table.filter(~pl.col("row").is_in(list(gains)), column=WITH)
    if not gains or base.is_empty():
        return None
    alone = base.row(0, named=True)
    p_values = {row: _figure(table, row, GAIN + ADJUSTED_P_VALUE) for row in gains}
    verdicts = {row: _verdict(gain, p_values[row]) for row, gain in gains.items()}
    words = {True: "improves with", False: "worsens with", None: "cannot be shown to improve with"}
    subject = f"ranking of steps by {alone['row']}"
    answer = _stated(f"A {subject}", words, verdicts, f"a {subject} improves with")
    shown = (
        f"{row} {_shown(gain, 3)}{_adjusted(p_values[row])}{_fewer(gain, alone, 'steps')}"
        for row, gain in gains.items()
    )
    figures = (
        f"Over {alone['n']:,} steps, last steps excluded, a regression on {alone['row']} has AUC {_shown(alone, 3)}. "
        f"Added to it, these change the AUC: {', '.join(shown)}."
    )
    return _finding("What it adds", verdicts, answer, figures)


def _adjusted(p_value: Figure | None) -> str:
    """Holm's p-value of a gain, for a reader who sees an interval without 0 and a verdict that there is none."""
    return f", p (Holm) {format_figure(p_value['measured'], 3)}" if p_value else ""


def _rollouts(frames: Frames) -> Finding | None:
    """Do the labels equal those by rollouts, and what do they cost?"""
    ours, theirs, difference, p_value = _evidence(frames, evidence.TO_MC)
    if ours is None or theirs is None or difference is None:
        return None
    margin = format_figure(evidence.MARGIN, 2)
    ends = [abs(difference[end]) for end in ("low", "high") if difference[end] is not None]
    is_equal = bool(ends) and max(ends) <= evidence.MARGIN
    verdict = _verdict(difference, p_value)
    if few := _few(difference):
        words = f"cannot be compared: {few}"
    elif is_equal:
        words = f"rank steps equally well, within ± {margin}"
    elif verdict is None:
        words = f"can neither be distinguished nor called equal within ± {margin}"
    else:
        words = f"differ: {METHOD}'s rank steps {'better' if verdict else 'worse'}"
    figures = (
        f"Over the {difference['n']:,} steps with both, label AUC is {_shown(ours)} and {_shown(theirs)}; the "
        f"difference is {_shown(difference)}."
    )
    costs = frames.get("efficiency", NOTHING)
    time, tokens = (_figure(costs, METHOD, column) for column in ("Time", "Token"))
    if time and tokens:
        figures += (
            f" {METHOD} takes {format_figure(tokens['measured'], 2)} times the generated tokens of {BASELINE} and "
            f"{format_figure(time['measured'], 2)} times its time."
        )
    answer = f"Labels by {METHOD} and by {BASELINE} {words}."
    return _finding(f"Against {BASELINE}", {"": True if is_equal else verdict}, answer, figures)


def _knowledge(frames: Frames) -> Finding | None:
    """Does the method work better where the labeler knows more, and how does it fade with the work that is left?"""
    most, least, difference, p_value = _evidence(frames, evidence.BY_KNOWLEDGE)
    if most is None or least is None or difference is None:
        return None
    verdict = _verdict(difference, p_value)
    words = {None: "cannot be shown to depend on", True: "rises with", False: "falls with"}
    known = {"what its labeler knows of the answer": verdict}
    answer = _stated(f"How well {METHOD} labels steps", words, known, f"the quality of {METHOD}'s labels depends on")
    figures = (
        f"AUC without last steps is {_shown(least)} where the gold answer is least likely before any step, and "
        f"{_shown(most)} where it is most likely; they differ by {_shown(difference)}."
    )
    aucs = frames.get("label_auc", NOTHING)
    for label in (METHOD, BASELINE):
        left = [figure for row in evidence.OPERATION_ROWS if (figure := _figure(aucs, row, label))]
        if len(left) > 1:
            counts = ", ".join(
                each["row"].removeprefix(f"{evidence.OPERATIONS}: ").removesuffix(" left") for each in left
            )
            values = ", ".join(format_figure(each["measured"], 2) for each in left)
            figures += f" With {counts} operations left to do, the AUC of {label} is {values}."
    return _finding("When it works", known, answer, figures)


def _divergence(frames: Frames) -> Finding | None:
    """Does CPMI estimate the Jeffreys divergence, as section 4.2 says, and does its size?"""
    table = frames.get("jeffreys", NOTHING)
    size, signed = (_figure(table, row, evidence.RANKS) for row in (evidence.SIZE, METHOD))
    if size is None or signed is None:
        return None
    words = {None: "cannot be shown to depend on", True: "rises with", False: "falls with"}
    verdicts = {name: _verdict(figure) for name, figure in (("size", size), ("signed", signed))}
    if few := _few(size):
        answer = f"Whether {METHOD} follows the Jeffreys divergence, as section 4.2 says, cannot be said: {few}."
    else:
        answer = (
            f"The size of {METHOD} {words[verdicts['size']]} the Jeffreys divergence that section 4.2 says it "
            f"approximates; {METHOD} itself, with its sign, {words[verdicts['signed']]} it."
        )
    figures = f"Over {size['n']:,} steps, the rank correlations are {_shown(size)} and {_shown(signed)}."
    if negative := _figure(table, METHOD, evidence.NEGATIVE):
        figures += f" The divergence is never negative; {METHOD} is negative at {_percent(negative)} of the steps."
    return _finding("Against section 4.2", verdicts, answer, figures)


def _models(frames: Frames) -> Finding | None:
    """Do reward models trained on the labels differ, and are they better than chance?"""
    table, differences = (frames.get(name, NOTHING) for name in ("processbench", "differences"))
    pair, named = PRIMARY
    primary = _figure(differences, PRIMARY_ROW, named)
    rows = (METHOD, BASELINE, CHANCE_ROW)
    averages = [(row, figure) for row in rows if (figure := _figure(table, row + OFFICIAL, "Average"))]
    if primary is None or not averages:
        return None
    listed = ", ".join(f"{row} {_shown(figure, 1)}" for row, figure in averages)
    verdicts = {MEASURES[named].words: _verdict(primary)}
    differ = [f"{MEASURES[named].words} differs by {_shown(primary, 1)} ({listed}; one threshold from GSM8K)"]
    for measure in COMPARED:
        figure, p_value = (_figure(differences, pair, measure + part) for part in ("", ADJUSTED_P_VALUE))
        if figure and isinstance(verdict := _verdict(figure, p_value), bool):
            verdicts[MEASURES[measure].words] = verdict
            differ.append(f"{MEASURES[measure].words} by {_shown(figure, MEASURES[measure].decimals)}")
    subject, other = f"reward models trained on {METHOD} labels", f"those on {BASELINE} labels"
    failing, controls = _instrument(table)
    found = _compared("Reward models", subject, other, verdicts, f"{', '.join(differ)}.{controls}")
    if not failing:
        return found
    answer = f"These reward models cannot tell labels apart: {' and '.join(failing)}."
    return found._replace(tells=False, answer=answer, few="")


def _instrument(table: pl.DataFrame) -> tuple[list[str], str]:
    """Which controls of reward models fail, and the figures of all; nothing where none is trained.

    A control is above chance where the interval of its F1, less the mean of random judges, is above 0.
    """
    failing, figures = [], []
    for row, has_to_beat in ((CEILING_ROW, True), (FLOOR_ROW, False)):
        own, chance = (_figure(table, name + OFFICIAL, "Average") for name in (row, CHANCE_ROW))
        if own and chance and own["low"] is not None:
            above = _scaled(own, less=chance["measured"])
            figures.append(f"one {row.lower()} {_shown(above, 1)}")
            if (_verdict(above) is True) != has_to_beat:
                failing.append(f"one {row.lower()} is {'not ' if has_to_beat else ''}above chance")
    return failing, f" Controls, less chance: {', '.join(figures)}." if figures else ""


def findings(frames: Frames, option: str = "") -> list[Finding]:
    """The findings that have figures.

    Args:
        frames: comparison frames (`tables.PaperComparison`) by artifact name.
        option: of the commands in the text, as `render_report` takes it.
    """
    every = (partial(_trust, option=option), _free_labels, _increment, _rollouts, _knowledge, _divergence, _models)
    return [found for find in every if (found := find(frames))]


def _figure(table: pl.DataFrame, row: str, column: str) -> Figure | None:
    """The measured figure of a cell."""
    found = table.filter(pl.col("row") == row, pl.col("column") == column).drop_nulls("measured")
    return None if found.is_empty() else found.row(0, named=True)


def _evidence(frames: Frames, row: str) -> list[Figure | None]:
    """CPMI's figure, what it is compared with, the difference and its p-value by Holm, of a row of `label_evidence`."""
    table, apart = frames.get("label_evidence", NOTHING), evidence.APART
    return [_figure(table, row, column) for column in (METHOD, evidence.OTHER, apart, apart + ADJUSTED_P_VALUE)]


def _few(figure: Figure) -> str:
    """What stands in the place of a verdict on a figure that too few questions give."""
    return too_few(figure["units"], figure["unit"])


def _scaled(figure: Figure, factor: float = 1.0, less: float = 0.0) -> Figure:
    """A figure and its interval in another unit of measure, less a number."""
    ends = ("measured", "low", "high")
    return {**figure, **{end: None if figure[end] is None else factor * figure[end] - less for end in ends}}


def _verdict(difference: Figure, p_value: Figure | None = None) -> Verdict:
    """The verdict on a difference; None where its interval holds 0 or its p-value is above 0.05."""
    if few := _few(difference):
        return few
    is_noise = difference["low"] is None or difference["low"] <= 0 <= difference["high"]
    return None if is_noise or (p_value and p_value["measured"] > SIGNIFICANT) else difference["measured"] > 0


def _finding(title: str, verdicts: Mapping[str, Verdict], answer: str, figures: str) -> Finding:
    """A finding of some verdicts: the data can tell where one of them says so."""
    few = [verdict for verdict in verdicts.values() if isinstance(verdict, str)]
    tells = any(isinstance(verdict, bool) for verdict in verdicts.values())
    return Finding(title, tells, answer, figures, few[0] if len(few) == len(verdicts) else "")


def _compared(title: str, subject: str, other: str, verdicts: Mapping[str, Verdict], figures: str) -> Finding:
    """A finding that states the verdict by every measure; one verdict where all agree."""
    words: dict[Verdict, str] = {True: "are better", False: "are worse", None: "cannot be distinguished"}
    by = {each: f"{said} by" for each, said in words.items()}
    answer = _stated(f"Against {other}, {subject}", by, verdicts, f"{subject} are better or worse than {other} by")
    first = next(iter(verdicts.values()))
    if first in words and set(verdicts.values()) == {first}:
        answer = f"{subject[0].upper()}{subject[1:]} {words[first]} {'from' if first is None else 'than'} {other}."
    return _finding(title, verdicts, answer, figures)


def _stated(subject: str, words: Mapping[Verdict, str], verdicts: Mapping[str, Verdict], whether: str) -> str:
    """What has each verdict, after the words for it: `… improves with MC, and cannot be shown to improve with CPMI.`

    Args:
        whether: what comes before the names of those that too few questions say nothing of.
    """
    names = {each: [name for name, verdict in verdicts.items() if verdict == each] for each in verdicts.values()}
    joined = {each: (" or " if each is None else " and ").join(found) for each, found in names.items()}
    known = [f"{said} {joined[each]}" for each, said in words.items() if each in joined]
    sentences = [f"{subject} {', and '.join(known)}."] if known else []
    few = (each for each in joined if isinstance(each, str))
    sentences += [f"Whether {whether} {joined[each]} cannot be said: {each}." for each in few]
    return " ".join(sentences)


def _percent(figure: Figure) -> str:
    """A share and its interval in percent."""
    percent = _scaled(figure, 100)
    return f"{format_figure(percent['measured'], 0)} % {format_interval(percent, 0)}".strip()


def _fewer(figure: Figure, other: Figure, unit: str) -> str:
    """What a figure is over, where that is less than another is."""
    return f" (of {figure['n']:,} {unit})" if figure["n"] < other["n"] else ""


def _shown(figure: Figure, decimals: int = 2) -> str:
    """A figure and its interval."""
    return f"{format_figure(figure['measured'], decimals)} {format_interval(figure, decimals)}".strip()
