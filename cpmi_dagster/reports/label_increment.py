"""What CPMI adds to labels that are had without it: `label_increment`.

    row                       Without it          With it             Difference              p      p (Holm)
    Step surprisal + Position                     0.81 [0.77, 0.84]
    CPMI                      0.81 [0.77, 0.84]   0.83 [0.80, 0.86]   0.02 [−0.00, 0.04]      0.06   0.06
    MC                        0.81 [0.77, 0.84]   0.90 [0.88, 0.93]   0.09 [0.06, 0.12]       0.002  0.008
    CPMI beside MC            0.90 [0.88, 0.93]   0.94 [0.92, 0.96]   0.04 [0.02, 0.06]       0.002  0.008

The first row is the base: labels of the labeler that read no gold answer, and the best one that costs nothing. Rows
with MC are over the steps that it labels, and their base is fitted on these.
"""

from collections.abc import Iterator

import polars as pl

from cpmi_dagster.benchmarks.label_increment import regression_auc, steps_with_labels
from cpmi_dagster.benchmarks.label_quality import IS_LAST, label_aucs
from cpmi_dagster.benchmarks.resampling import Resampled, holm
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame, measurement, p_value
from cpmi_dagster.reports.labels import best_free_control, in_order, steps_with_truth
from cpmi_dagster.reports.paper import ADJUSTED_P_VALUE, DIFFERENCE_COLUMN, P_VALUE
from cpmi_dagster.reports.reward_rows import BASELINE, BASELINE_TYPE, METHOD, METHOD_TYPE
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_label

WITHOUT, WITH, GAIN = "Without it", "With it", DIFFERENCE_COLUMN
INCREMENTAL_TYPE = "cpmi_incremental"
"""The method with the steps before one on both sides of the difference."""
BESIDE_BASELINE = f"{METHOD} beside {BASELINE}"
"""The row of what the method adds to the base and rollouts."""


def measure_label_increment(inputs: ReportInputs) -> pl.DataFrame:
    """What CPMI, its incremental form and MC add to the base, and CPMI to base and MC; without last steps."""
    steps = steps_with_truth(inputs)
    base = _base(inputs, steps := steps.filter(~IS_LAST)) if steps.height else []
    gains = [(row, *pair, pair[1].minus(pair[0])) for row, pair in _pairs(inputs, steps, base)] if base else []
    measured: list[Measurement] = []
    for (row, without, with_it, gain), adjusted in zip(gains, holm([gain.p_value for *_, gain in gains]), strict=True):
        if not measured:
            measured.append(measurement(" + ".join(map(reward_label, base)), WITH, without.estimate()))
        measured += [
            measurement(row, WITHOUT, without.estimate()),
            measurement(row, WITH, with_it.estimate()),
            measurement(row, GAIN, gain),
            p_value(row, GAIN + P_VALUE, gain.p_value, gain),
            p_value(row, GAIN + ADJUSTED_P_VALUE, adjusted, gain),
        ]
    return measured_frame(measured)


def _base(inputs: ReportInputs, steps: pl.DataFrame) -> list[str]:
    """Reward types that are had without CPMI: those of the labeler that read no gold answer, and the best free one."""
    present = [REWARD_TYPES[name] for name in in_order(steps["reward_type"].unique()) if name in REWARD_TYPES]
    free = steps.filter(pl.col("reward_type").is_in([entry.name for entry in present if entry.is_free]))
    best = best_free_control(label_aucs(free, *inputs.draws))
    return [*(entry.name for entry in present if entry.reads_no_gold), *([best] if best else [])]


def _pairs(
    inputs: ReportInputs, steps: pl.DataFrame, base: list[str]
) -> Iterator[tuple[str, tuple[Resampled, Resampled]]]:
    """Row label, and the AUC without and with what it adds; rows that the steps are too few for are left out."""
    present = set(steps["reward_type"])
    methods = [name for name in (METHOD_TYPE, INCREMENTAL_TYPE) if name in present]
    labelled = steps_with_labels(steps, [*base, *methods])
    compared = [(reward_label(name), labelled, base, name) for name in methods]
    if BASELINE_TYPE in present:
        sampled = steps_with_labels(steps, [*base, *methods, BASELINE_TYPE])
        compared.append((BASELINE, sampled, base, BASELINE_TYPE))
        if METHOD_TYPE in present:
            compared.append((BESIDE_BASELINE, sampled, [*base, BASELINE_TYPE], METHOD_TYPE))
    for row, rows, without, added in compared:
        pair = tuple(regression_auc(rows, names, *inputs.draws) for names in (without, [*without, added]))
        if pair[0] and pair[1]:
            yield row, (pair[0], pair[1])
