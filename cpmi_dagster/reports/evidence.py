"""Three questions about the labels, fixed before the run that answers them (`docs/evidence.md`).

    row                                                  CPMI   Compared with   Difference            p      p (Holm)
    (a) First wrong step found, and the best free label  0.24   0.22             0.02 [-0.06, 0.10]   0.62
    (c) Label AUC, and MC's                              0.77   0.89            -0.12 [-0.15, -0.09]  0.002  0.006

The first row is the one test; the p-values of the others have Holm's beside them.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import IS_LAST, common_steps, label_aucs
from cpmi_dagster.benchmarks.resampling import Difference, Resampled, holm
from cpmi_dagster.contracts.keys import LOGPROBS
from cpmi_dagster.reports.html_tables import ADJUSTED_P_VALUE, P_VALUE
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.knowledge import aucs_by_knowledge
from cpmi_dagster.reports.labels import first_errors_found, is_free_control, steps_with_truth
from cpmi_dagster.reports.quality import measurement
from cpmi_dagster.reports.reward_rows import BASELINE_TYPE, METHOD, METHOD_TYPE

OTHER, APART = "Compared with", "Difference"
WITHIN = "(a) First wrong step found, and the best free label"
ACROSS = "(a) Label AUC without last steps, and the best free label"
BY_KNOWLEDGE = "(b) Label AUC without last steps, most and least known third"
TO_MC = "(c) Label AUC, and MC's"
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
    if steps.is_empty() or METHOD_TYPE not in steps["reward_type"]:
        return measured_frame([])
    answers = list(_answers(inputs, steps))
    others = [answer for answer in answers if answer.row != WITHIN]
    adjusted = holm([answer.difference.p_value for answer in others])
    p_values = {answer.row: p_value for answer, p_value in zip(others, adjusted, strict=True)}
    measured: list[Measurement] = []
    for row, ours, other, difference in answers:
        measured += [
            measurement(row, METHOD, ours.estimate()),
            measurement(row, OTHER, other.estimate()),
            measurement(row, APART, difference),
            Measurement(row, APART + P_VALUE, difference.p_value, n=difference.n),
        ]
        if row in p_values:
            measured.append(Measurement(row, APART + ADJUSTED_P_VALUE, p_values[row], n=difference.n))
    return measured_frame(measured)


def _answers(inputs: ReportInputs, steps: pl.DataFrame) -> Iterator[Answer]:
    aucs = partial(label_aucs, samples=inputs.bootstrap_samples, seed=inputs.seed)
    ours = steps.filter(reward_type=METHOD_TYPE)
    free = [name for name in steps["reward_type"].unique() if is_free_control(name)]
    controls = steps.filter(pl.col("reward_type").is_in(free)).join(ours, on="trajectory_id", how="semi")
    candidates = pl.concat([ours, controls])
    yield from _to_best(WITHIN, first_errors_found(candidates, inputs))
    yield from _to_best(ACROSS, aucs(candidates.filter(~IS_LAST)))
    if not inputs.table(LOGPROBS).is_empty():
        least, *_, most = (part.get(METHOD_TYPE) for part in aucs_by_knowledge(inputs, ours))
        if least and most:
            yield Answer(BY_KNOWLEDGE, most, least, most.minus_unpaired(least))
    both = aucs(common_steps(steps, METHOD_TYPE, BASELINE_TYPE))
    if len(both) == 2:
        yield Answer(TO_MC, both[METHOD_TYPE], both[BASELINE_TYPE], both[METHOD_TYPE].minus(both[BASELINE_TYPE]))


def _to_best(row: str, figures: Mapping[str, Resampled]) -> Iterator[Answer]:
    """The method against the best of the other types, chosen again in every resample."""
    others = [figure for name, figure in figures.items() if name != METHOD_TYPE]
    if others and METHOD_TYPE in figures:
        draws = np.fmax.reduce([figure.draws for figure in others])
        best = Resampled(max(figure.value for figure in others), draws, others[0].n)
        yield Answer(row, figures[METHOD_TYPE], best, figures[METHOD_TYPE].minus(best))
