"""Whether better labels make better reward models: a point for each reward type, and their rank correlation.

    row                                       Label AUC, without last steps   PB (official)        Spearman
    MC                                        0.89 [0.86, 0.92]               31.4 [27.3, 35.7]
    CPMI                                      0.71 [0.67, 0.75]               28.9 [24.9, 32.6]
    Uniform random                            0.50 [0.46, 0.54]               18.5 [14.6, 22.7]
    True steps                                1.00 [1.00, 1.00]               41.2 [36.0, 46.1]
    Rank correlation                                                                               1.00 [0.50, 1.00]
    Rank correlation, true steps included                                                          1.00 [0.80, 1.00]

Points are reward types with a recipe that differs from others in its labels alone, trained with BCE and the first seed.
A resample draws questions for the labels and, independently, problems for ProcessBench, and ranks anew; the reward
types stay the same, and n is their number. True steps are right by definition, so they have a row without them.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy import stats

from cpmi_dagster.benchmarks.label_quality import IS_LAST, STEP, label_aucs
from cpmi_dagster.benchmarks.resampling import Resampled
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame, measurement
from cpmi_dagster.reports.labels import LABEL_AUC, WITHOUT_LAST, in_order, steps_with_truth
from cpmi_dagster.reports.quality import MEASURES, scaled
from cpmi_dagster.reports.reward_rows import TRUTH_TYPE, RecipeRow
from cpmi_dagster.rewards.registry import reward_label

INNER_AUC, F1, SPEARMAN = f"{LABEL_AUC}, {WITHOUT_LAST.lower()}", "PB (official)", "Spearman"
CORRELATION = "Rank correlation"
WITH_TRUTH = f"{CORRELATION}, true steps included"
FEWEST_POINTS = 3


def measure_label_and_model_quality(inputs: ReportInputs) -> pl.DataFrame:
    """Label AUC without last steps and official ProcessBench F1 of every reward type with both; their correlation."""
    steps = steps_with_truth(inputs)
    if steps.is_empty():
        return measured_frame([])
    inner = steps.filter(~IS_LAST)
    types = in_order([*steps["reward_type"].unique(maintain_order=True), TRUTH_TYPE])
    recipes = {name: recipe for name in types if (recipe := inputs.recipe_of(RecipeRow(reward_label(name), name)))}
    aucs = label_aucs(inner.filter(pl.col("reward_type").is_in(list(recipes))), *inputs.draws)
    judged = inner.drop_nulls("correct")
    counts = judged.select(STEP).n_unique(), judged["question_id"].n_unique()
    aucs[TRUTH_TYPE] = Resampled(1.0, np.ones(inputs.bootstrap_samples), *counts)
    points = {
        name: (aucs[name], f1)
        for name, recipe in recipes.items()
        if name in aucs and (f1 := MEASURES[F1].resampled(inputs, recipe))
    }
    measured: list[Measurement] = []
    for name, (auc, f1) in points.items():
        row, percent = reward_label(name), scaled(f1.estimate(), MEASURES[F1].scale)
        measured += [measurement(row, INNER_AUC, auc.estimate()), measurement(row, F1, percent)]
    without = [point for name, point in points.items() if name != TRUTH_TYPE]
    for row, chosen in ((CORRELATION, without), (WITH_TRUTH, list(points.values()))):
        if len(chosen) >= FEWEST_POINTS and np.isfinite((spearman := rank_correlation(chosen)).value):
            measured.append(measurement(row, SPEARMAN, spearman.estimate()))
    return measured_frame(measured)


def rank_correlation(points: Sequence[tuple[Resampled, Resampled]]) -> Resampled:
    """Spearman's correlation of two figures over some points, ranked anew in every resample.

    Args:
        points: both figures of each point; those of one kind were resampled alike, the two kinds over other questions.

    Returns:
        n is the number of points, units are those of the figure that has fewest; NaN where all of a kind are equal.
    """
    ranks = []
    for figures in zip(*points, strict=True):
        values = np.column_stack([np.append(figure.value, figure.draws) for figure in figures])
        ranks.append(stats.rankdata(values, axis=1) - (len(points) + 1) / 2)
    one, other = ranks
    # equal seeds draw alike: a resample of one meets the next of the other, which is independent of it
    other[1:] = np.roll(other[1:], 1, axis=0)
    with np.errstate(invalid="ignore"):
        spearman = (one * other).sum(axis=1) / np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    return Resampled.of(spearman, len(points), min(figure.units for both in points for figure in both))
