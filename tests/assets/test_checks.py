"""The check on reward models says whether they are better than chance."""

from types import SimpleNamespace

import dagster as dg
import polars as pl

from assets.checks import reward_models_beat_chance
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA


def check(**aucs: tuple[float, float, float]) -> dg.AssetCheckResult:
    rows = [{"row": row, "column": "ROC-AUC", "measured": a, "low": b, "high": c} for row, (a, b, c) in aucs.items()]
    lake = SimpleNamespace(read=lambda key: pl.DataFrame(rows, schema=COMPARISON_SCHEMA))
    settings = SimpleNamespace(recipes=())
    result = reward_models_beat_chance(lake, settings)
    assert isinstance(result, dg.AssetCheckResult)
    return result


def test_models_whose_best_interval_holds_chance_do_not_pass():
    result = check(MC=(0.46, 0.37, 0.55), CPMI=(0.55, 0.46, 0.63))
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert result.metadata["CPMI"].value == "step AUC 0.550 [0.460, 0.630]: chance"


def test_one_model_above_chance_is_enough():
    assert check(MC=(0.46, 0.37, 0.55), CPMI=(0.60, 0.55, 0.65)).passed


def test_a_model_below_chance_fails_unless_its_labels_are_random():
    assert not check(MC=(0.40, 0.35, 0.45), CPMI=(0.60, 0.55, 0.65)).passed
    assert check(Rand_Merge=(0.40, 0.35, 0.45), CPMI=(0.60, 0.55, 0.65)).passed


def test_where_nothing_is_measured_there_is_nothing_to_warn_of():
    assert check().passed


def test_a_judge_that_is_not_ours_counts_for_nothing():
    result = check(CPMI=(0.5, 0.4, 0.6), Judge=(0.9, 0.8, 0.95))
    assert not result.passed
    assert set(result.metadata) == {"CPMI"}
