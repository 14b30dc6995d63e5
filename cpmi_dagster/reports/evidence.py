"""Three questions about the labels, fixed before anything was measured (`docs/evidence.md`).

    row                                              CPMI   Compared with   Difference            p      p (Holm)
    (a) First wrong step found, less the best free   0.24   0.22             0.02 [-0.06, 0.10]   0.62
    (c) Label AUC, less MC                           0.77   0.89            -0.12 [-0.15, -0.09]  0.002  0.006

The first row is the one test; the p-values of the others have Holm's beside them.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import polars as pl

from cpmi_dagster.benchmarks.label_quality import IS_LAST, common_steps, label_aucs
from cpmi_dagster.benchmarks.resampling import Difference, Resampled, holm
from cpmi_dagster.reports.html_tables import ADJUSTED_P_VALUE, P_VALUE
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.knowledge import LOGPROBS, aucs_by_knowledge
from cpmi_dagster.reports.labels import best_free_control, first_errors_found, steps_with_truth
from cpmi_dagster.reports.quality import measurement
from cpmi_dagster.rewards.registry import reward_label

METHOD, BASELINE = "cpmi", "mc"
OURS, OTHER, APART = reward_label(METHOD), "Compared with", "Difference"
WITHIN = "(a) First wrong step found − best free label"
ACROSS = "(a) Label AUC without last steps − best free label"
BY_KNOWLEDGE = "(b) Label AUC without last steps, most − least known third"
TO_MC = "(c) Label AUC − MC"
PRIMARY = WITHIN
"""Row of the one test that is named beforehand."""
MARGIN = 0.05
"""Difference in AUC within which labels count as equal."""

Figures = Callable[[pl.DataFrame], Mapping[str, Resampled]]


class Answer(NamedTuple):
    """A figure of CPMI, what it is compared with, and the difference."""

    row: str
    ours: Resampled
    other: Resampled
    difference: Difference


def measure_evidence(inputs: ReportInputs) -> pl.DataFrame:
    """The questions that the profile's labels and truth can answer; none where no truth is known."""
    steps = steps_with_truth(inputs)
    if steps.is_empty() or METHOD not in steps["reward_type"]:
        return measured_frame([])
    answers = list(_answers(inputs, steps))
    others = [answer for answer in answers if answer.row != PRIMARY]
    adjusted = holm([answer.difference.p_value for answer in others])
    p_values = {answer.row: p_value for answer, p_value in zip(others, adjusted, strict=True)}
    measured: list[Measurement] = []
    for row, ours, other, difference in answers:
        measured += [
            measurement(row, OURS, ours.estimate()),
            measurement(row, OTHER, other.estimate()),
            measurement(row, APART, difference),
            Measurement(row, APART + P_VALUE, difference.p_value, n=difference.n),
        ]
        if row in p_values:
            measured.append(Measurement(row, APART + ADJUSTED_P_VALUE, p_values[row], n=difference.n))
    return measured_frame(measured)


def _answers(inputs: ReportInputs, steps: pl.DataFrame) -> Iterator[Answer]:
    aucs = partial(label_aucs, samples=inputs.bootstrap_samples, seed=inputs.seed)
    yield from _compared(WITHIN, steps, partial(first_errors_found, inputs=inputs))
    yield from _compared(ACROSS, steps.filter(~IS_LAST), aucs)
    if not inputs.table(LOGPROBS).is_empty():
        least, *_, most = aucs_by_knowledge(inputs, steps.filter(pl.col("reward_type") == METHOD))
        if METHOD in least and METHOD in most:
            high, low = most[METHOD], least[METHOD]
            yield Answer(BY_KNOWLEDGE, high, low, high.minus_unpaired(low))
    yield from _compared(TO_MC, common_steps(steps, METHOD, BASELINE), aucs, BASELINE)


def _compared(row: str, steps: pl.DataFrame, figures_of: Figures, other: str | None = None) -> Iterator[Answer]:
    """The method against another reward type, by default the free control with the best figure."""
    figures = figures_of(steps)
    other = other or best_free_control(figures)
    if other and other in figures and METHOD in figures:
        ours, theirs = figures[METHOD], figures[other]
        yield Answer(row, ours, theirs, ours.minus(theirs))
