"""Label quality against reward-model quality, with a model trained on true steps and one on uniform labels."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from pytest import approx
from scipy.stats import spearmanr

from cpmi_dagster.benchmarks.label_quality import IS_LAST, label_aucs
from cpmi_dagster.benchmarks.resampling import Resampled
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.differences import measure_differences
from cpmi_dagster.reports.findings import findings
from cpmi_dagster.reports.headline import headline_table
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.label_and_model import measure_label_and_model_quality, rank_correlation
from cpmi_dagster.reports.labels import steps_with_truth
from cpmi_dagster.reports.plots import report_plots
from cpmi_dagster.reports.quality import MEASURES

pytestmark = pytest.mark.slow

PREDICTED = "benchmarks/processbench_predictions"
REWARDS = "labels/step_rewards"
CONTROLS = {"truth": "cpmi_merge1_bce", "uniform": "rand_merge_bce"}


@pytest.fixture(scope="module")
def controlled(inputs: ReportInputs) -> ReportInputs:
    """The made-up world with the two controls, whose models and labels are those of a good and of a bad method."""
    predictions, rewards = inputs.table(PREDICTED), inputs.table(REWARDS)
    models = [inputs.predictions(PREDICTED, of).with_columns(recipe=pl.lit(name)) for name, of in CONTROLS.items()]
    labels = [
        rewards.filter(reward_type=of.removesuffix("_bce")).with_columns(reward_type=pl.lit(name))
        for name, of in CONTROLS.items()
    ]
    frames = {**inputs.frames, PREDICTED: pl.concat([predictions, *models]), REWARDS: pl.concat([rewards, *labels])}
    return replace(inputs, frames=frames, recipes=(*inputs.recipes, *(Recipe(name=n, reward_type=n) for n in CONTROLS)))


@pytest.fixture(scope="module")
def frames(controlled: ReportInputs) -> dict[str, pl.DataFrame]:
    names = ("label_quality", "label_within", "processbench", "differences", "efficiency", "label_and_model_quality")
    return {name: build_artifact(ARTIFACTS[name], controlled, "miniature") for name in names}


def test_ranks_are_correlated_as_by_scipy_in_every_resample():
    rng = np.random.default_rng(3)
    aucs, scores = rng.random((6, 201)), rng.integers(0, 4, (6, 201)) / 4  # with ties
    pairs = zip(aucs, scores, strict=True)
    points = [(Resampled(x[0], x[1:], 40, 40), Resampled(y[0], y[1:], 99, 99)) for x, y in pairs]
    found = rank_correlation(points)
    # resamples of one kind meet those of the other one place on
    draws = [spearmanr(aucs[:, 1 + place], scores[:, 1 + (place - 1) % 200]).statistic for place in range(200)]
    assert found.draws == approx(np.array(draws))
    estimate = found.estimate()
    assert (estimate.value, estimate.n) == (approx(spearmanr(aucs[:, 0], scores[:, 0]).statistic), 6)
    assert (estimate.low, estimate.high) == approx(tuple(np.quantile(draws, [0.025, 0.975])))


def test_points_have_the_figures_of_their_tables_and_true_steps_count_in_one_row_alone(controlled: ReportInputs):
    measured = measure_label_and_model_quality(controlled)
    cells = {(row, column): value for row, column, value, *_ in measured.iter_rows()}
    aucs = label_aucs(steps_with_truth(controlled).filter(~IS_LAST), *controlled.draws)
    f1 = MEASURES["PB (official)"].of(controlled, "cpmi_bce")
    assert cells["CPMI", "Label AUC, without last steps"] == aucs["cpmi"].value
    assert f1 and cells["CPMI", "PB (official)"] == f1.value
    assert cells["True steps", "Label AUC, without last steps"] == 1
    points = measured.filter(column="PB (official)")["row"].to_list()
    assert {"True steps", "Uniform random"} < set(points)
    for row, count in (("Rank correlation", len(points) - 1), ("Rank correlation, true steps included", len(points))):
        chosen = [each for each in points if each != "True steps" or count == len(points)]
        pairs = [
            [cells[each, column] for each in chosen] for column in ("Label AUC, without last steps", "PB (official)")
        ]
        assert cells[row, "Spearman"] == approx(spearmanr(*pairs).statistic)
        assert measured.filter(row=row)["n"].to_list() == [count]


def test_the_controls_have_rows_of_their_own_and_are_neither_compared_nor_labels(controlled: ReportInputs, frames):
    assert not any("Trained" in row or "True steps" in row for row in measure_differences(controlled)["row"])
    assert not any("True steps" in frames[name]["row"] for name in ("label_quality", "label_within"))
    headline = headline_table(frames, controlled.recipes)
    rows = headline.filter(pl.col("reward").str.starts_with("Trained"))
    assert rows["reward"].to_list() == ["Trained on true steps", "Trained on uniform labels"]
    assert rows["processbench_f1"].null_count() == 0 and rows["label_auc"].count() == 0
    assert any("one trained on true steps " in found.figures for found in findings(frames))
    assert {"headline_models", "label_and_model_quality"} < set(report_plots(controlled, frames))


def test_without_truth_or_models_there_is_nothing_to_correlate(inputs: ReportInputs):
    assert measure_label_and_model_quality(ReportInputs()).is_empty()
    assert measure_label_and_model_quality(replace(inputs, recipes=())).is_empty()
