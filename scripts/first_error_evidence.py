"""Answers the questions of docs/first_error.md from ProcessBench and the labels kept beside `first_error.py`.

    python -m scripts.first_error_evidence processbench --labeler qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
    python -m scripts.first_error_evidence processbench --plot docs/images/first_error_calibration.svg

    label                             First wrong step found   AUC, without last steps
    First error, all                  0.37 [0.32, 0.42]        0.83 [0.81, 0.85]
    Step length                       0.32 [0.28, 0.37]        0.63 [0.60, 0.66]

    question                                        ours   other   difference            n
    (a) all, best single label                      0.37   0.32    0.05 [0.00, 0.10]     392

Figures are on questions that have not shaped the coefficients that read them. OlympiadBench and Omni-MATH are read by
the fit without labels alone, as nobody has labelled them here.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from cpmi_dagster.benchmarks.label_quality import (
    IS_LAST,
    calibration_points,
    common_steps,
    first_errors_found,
    label_aucs,
    with_truth_so_far,
)
from cpmi_dagster.benchmarks.resampling import Resampled, bootstrap_mean, shown
from cpmi_dagster.reports.best_label import Folds
from cpmi_dagster.reports.style import INK, label_axes, new_figure
from cpmi_dagster.rewards.hazard import OUTCOME, Fit, Solution, probabilities_by, shipped_weights
from cpmi_dagster.rewards.hazard_fit import Judged, fit_hazard, steps_at_risk
from scripts.first_error import KEPT, SHIPPED_LABELS, SUBSETS, Row, labelled_solutions, read_rows

SAMPLES, SEED = 1000, 0
TRAVELLED = ("olympiadbench", "omnimath")
SURPRISAL, INCREMENTAL, MARGINAL = SHIPPED_LABELS
SINGLE = ("step_length", "position", "final_answer", "final_answer_position", *SHIPPED_LABELS)


class Reading(NamedTuple):
    """A label of the first error: what its fit reads, and the fit."""

    name: str
    fit: Fit


def first_error_rows(judged: Sequence[Judged], reading: Reading) -> Iterator[tuple[str, str, int, float]]:
    """reward_type, trajectory_id, step_index, reward of `first_error`, and under ` so far` of `right_so_far`."""
    for solution, _ in judged:
        at = probabilities_by(reading.fit, solution)
        for step, (here, so_far) in enumerate(zip(at, 1 - np.cumsum(at), strict=True)):
            yield reading.name, solution.trajectory_id, step, float(1 - here)
            yield f"{reading.name} so far", solution.trajectory_id, step, float(so_far)


def single_rows(judged: Sequence[Judged]) -> Iterator[tuple[str, str, int, float]]:
    """The same of every single label."""
    for solution, _ in judged:
        count = len(solution.lengths)
        earliness = 1 - (np.arange(count) + 1) / count
        right = np.full(count, float(bool(solution.is_right)))
        values = {
            "step_length": -solution.lengths,
            "position": earliness,
            "final_answer": right,
            "final_answer_position": np.maximum(right, earliness),
            **solution.labels,
        }
        for name, rewards in values.items():
            for step, reward in enumerate(rewards):
                yield name, solution.trajectory_id, step, float(reward)


def judged_steps(judged: Sequence[Judged], rows: Sequence[Row], readings: Sequence[Reading]) -> pl.DataFrame:
    """Rows as of `labelled_steps`: every label of every step, and whether it is right."""
    schema = {"reward_type": pl.String, "trajectory_id": pl.String, "step_index": pl.Int64, "reward": pl.Float64}
    values = [*single_rows(judged), *(row for reading in readings for row in first_error_rows(judged, reading))]
    questions = {row.name: row.question for row in rows}
    truth = pl.DataFrame(
        [
            (solution.trajectory_id, questions[solution.trajectory_id], step, len(correct), value)
            for solution, correct in judged
            for step, value in enumerate(correct)
        ],
        ("trajectory_id", "question_id", "step_index", "step_count", "correct"),
        orient="row",
        infer_schema_length=None,
    )
    labels = pl.DataFrame(values, schema, orient="row")
    return labels.join(truth, on=["trajectory_id", "step_index"], maintain_order="left")


def found(steps: pl.DataFrame, samples: int, seed: int) -> dict[str, Resampled]:
    """First wrong steps found by each label; never scored for those that only fall."""
    falls = pl.col("reward_type").str.ends_with(" so far")
    return first_errors_found(steps.filter(~falls), samples, seed)


def label_table(title: str, steps: pl.DataFrame) -> Table:
    """Every label: first wrong steps found, AUC without last steps, and of `right_so_far` the squared error."""
    table = Table(title=f"{title}: {steps['trajectory_id'].n_unique():,} solutions")
    for column in ("label", "first wrong step found", "AUC without last steps", "squared error", "of a constant"):
        table.add_column(column)
    firsts, aucs = found(steps, SAMPLES, SEED), label_aucs(steps.filter(~IS_LAST), SAMPLES, SEED)
    so_far = with_truth_so_far(steps)
    for name in steps["reward_type"].unique(maintain_order=True):
        errors = ["", ""]
        if name.endswith(" so far"):
            rows = so_far.filter(reward_type=name)
            truth = rows["correct"].cast(pl.Float64)
            by_question = (SAMPLES, SEED, rows["question_id"])
            errors = [
                shown(bootstrap_mean((truth - guess) ** 2, *by_question).estimate())
                for guess in (rows["reward"], truth.mean())
            ]
        cells = (shown(each[name].estimate()) if name in each else "" for each in (firsts, aucs))
        table.add_row(name, *cells, *errors)
    return table


def question_table(steps: pl.DataFrame) -> Table:
    """The questions (a) to (c), as differences of first wrong steps found and of AUC."""
    table = Table(title="Questions of docs/first_error.md")
    for column in ("question", "figure", "ours", "other", "difference", "n"):
        table.add_column(column)

    def add(question: str, figure: str, pair: tuple[Resampled, Resampled] | None) -> None:
        if pair:
            difference = pair[0].minus(pair[1])
            values = (f"{each.value:.3f}" for each in pair)
            table.add_row(question, figure, *values, shown(difference), f"{difference.n:,}")

    folds = Folds.of(steps, found, SAMPLES, SEED)
    for question, name in (("(a) all", "all"), ("(b) all, without final answer", "all, no final answer")):
        add(f"{question}, best single label", "found", folds.compare([name], SINGLE))
    inner = Folds.of(steps.filter(~IS_LAST), label_aucs, SAMPLES, SEED)
    add("(a) all so far, best single label", "AUC", inner.compare(["all so far"], SINGLE))
    add("(b) all so far, without final answer", "AUC", inner.compare(["all, no final answer so far"], SINGLE))
    for more, less in (
        ("free + surprisal", "free"),
        ("free + incremental", "free"),
        ("free + marginal", "free"),
        ("all", "free"),
        ("all", "free + surprisal"),
        ("all, no final answer", "free, no final answer"),
    ):
        both = common_steps(steps, more, less)
        figures = found(both, SAMPLES, SEED)
        add(f"(c) {more}, {less}", "found", (figures[more], figures[less]))
        so_far = common_steps(steps, f"{more} so far", f"{less} so far")
        aucs = label_aucs(so_far.filter(~IS_LAST), SAMPLES, SEED)
        add(f"(c) {more}, {less}", "AUC", (aucs[f"{more} so far"], aucs[f"{less} so far"]))
    return table


def readings_of(judged: Sequence[Judged]) -> list[Reading]:
    """The labels of the questions, each fitted on one labeler's labels alone."""
    sets = {
        "free": (OUTCOME,),
        "free + surprisal": (OUTCOME, SURPRISAL),
        "free + incremental": (OUTCOME, INCREMENTAL),
        "free + marginal": (OUTCOME, MARGINAL),
        "all": (OUTCOME, SURPRISAL, INCREMENTAL),
        "free, no final answer": (),
        "all, no final answer": (SURPRISAL, INCREMENTAL),
    }
    return [Reading(name, fit_hazard(steps_at_risk(judged, labels), labels)) for name, labels in sets.items()]


def transfers(folder: Path) -> Iterator[Table]:
    """The shipped fit without labels on subsets that it was not fitted on, and each of its subsets by the other's."""
    by_labels = shipped_weights().by_labels
    free = [Reading("free", by_labels[frozenset([OUTCOME])]), Reading("free, no final answer", by_labels[frozenset()])]
    nothing = pl.read_parquet(KEPT).clear()
    read = {subset: list(read_rows(folder, [subset])) for subset in (*SUBSETS, *TRAVELLED)}
    judged = {subset: labelled_solutions(rows, nothing) for subset, rows in read.items()}
    for subset in TRAVELLED:
        yield label_table(f"{subset}, by GSM8K and MATH", judged_steps(judged[subset], read[subset], free))
    for subset, other in (SUBSETS, SUBSETS[::-1]):
        fitted = Reading("free", fit_hazard(steps_at_risk(judged[other], (OUTCOME,)), (OUTCOME,)))
        yield label_table(f"{subset}, by {other} alone", judged_steps(judged[subset], read[subset], [fitted]))


def draw_calibration(folder: Path, file: Path) -> None:
    """Draws how many steps are right so far, of those with a probability, by subset; by the fit without labels."""
    reading = Reading("free", shipped_weights().by_labels[frozenset([OUTCOME])])
    figure, (panel,) = new_figure(3.4)
    panel.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=":")
    for subset, marker in zip((*SUBSETS, *TRAVELLED), "osD^", strict=True):
        rows = list(read_rows(folder, [subset]))
        judged = labelled_solutions(rows, pl.read_parquet(KEPT).clear())
        steps = with_truth_so_far(judged_steps(judged, rows, [reading]).filter(reward_type="free so far"))
        points = calibration_points(steps)
        panel.plot(points["reward"], points["correct"], f"{marker}-", markersize=5, label=subset)
    panel.legend(frameon=False, fontsize=9)
    label_axes(panel, "right so far, as the label says", "share that is right so far")
    figure.savefig(file, metadata={"Date": None})


def with_all(solutions: Sequence[tuple[Solution, Sequence[bool | None]]]) -> list[Judged]:
    """The solutions that have every label, so that all figures are over the same steps."""
    return [(solution, correct) for solution, correct in solutions if set(SHIPPED_LABELS) <= set(solution.labels)]


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="ProcessBench: gsm8k, math, olympiadbench, omnimath as JSON Lines")
    parser.add_argument("--plot", type=Path, help="file of the calibration plot to write")
    parser.add_argument("--labeler", help="of the kept labels; each of them by default")
    given = parser.parse_args()
    if given.plot:
        draw_calibration(given.folder, given.plot)
        return
    kept, rows, console = pl.read_parquet(KEPT), list(read_rows(given.folder)), Console(width=160)
    for labeler in [given.labeler] if given.labeler else kept["labeler"].unique().sort():
        judged = with_all(labelled_solutions(rows, kept.filter(labeler=labeler)))
        steps = judged_steps(judged, rows, readings_of(judged))
        console.print(label_table(str(labeler), steps), question_table(steps))
    for table in transfers(given.folder):
        console.print(table)


if __name__ == "__main__":
    main()
