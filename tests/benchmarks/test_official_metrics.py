"""Ours beside what the benchmarks' own evaluation code says of the same predictions, stored as numbers.

`official_metrics.json` was written by running that code on the predictions of `judged_problems`. ProcessBench: by
subset, error accuracy, correct accuracy and F1 in percent at each of `THRESHOLDS`. PRMBench: by category, and overall,
PRMScore, F1 and negative F1 at the threshold 0.5, and the overall PRMScore at each of `THRESHOLDS`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import judged_problems as judged
import numpy as np
import polars as pl
import pytest

from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.prmbench import GROUPS, PrmScores, f1_pair, prmbench_scores
from cpmi_dagster.benchmarks.processbench import AVERAGED, NEVER, f1_of_accuracies, right_intervals
from cpmi_dagster.benchmarks.readers import CATEGORIES
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, read_benchmark

OFFICIAL = json.loads((Path(__file__).parent / "official_metrics.json").read_text(encoding="utf-8"))
KINDS = ("made_up", "real")
Frames = tuple[pl.DataFrame, pl.DataFrame]
Judge = Callable[[dict[str, Any]], list[float]]


def prmbench_frames(rows: list[dict[str, Any]], judge: Judge = judged.prmbench_probabilities) -> Frames:
    """Problems, and predictions that name them."""
    problems = read_benchmark("prmbench", pl.DataFrame(rows, infer_schema_length=None, strict=False))
    return problems, judged.as_predictions("prmbench", problems["problem_id"], map(judge, rows))


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def processbench(kind, real_rows):
    files = {subset: f"processbench/{subset}.even.jsonl.gz" for subset in AVERAGED}
    made_up = judged.made_up_processbench(60) if kind == "made_up" else {}
    rows = made_up or {subset: real_rows(file).to_dicts() for subset, file in files.items()}
    problems, predictions = [], []
    for benchmark, subset in zip(AVERAGED_BENCHMARKS, AVERAGED, strict=True):
        problems.append(read_benchmark(benchmark, pl.DataFrame(rows[subset])))
        scores = map(judged.processbench_probabilities, rows[subset])
        predictions.append(judged.as_predictions(benchmark, problems[-1]["problem_id"], scores))
    return pl.concat(problems), pl.concat(predictions)


@pytest.fixture
def prmbench(kind, real_rows):
    file = "prmbench/prmtest_classified.even.jsonl.gz"
    return prmbench_frames(judged.made_up_prmbench(20) if kind == "made_up" else real_rows(file).to_dicts())


def place(threshold: float) -> int:
    """Which of `THRESHOLDS` judges as this threshold does."""
    return sum((2 * level + 1) / (2 * judged.LEVELS) < threshold for level in range(judged.LEVELS))


def figures(scores: PrmScores) -> dict[str, list[float]]:
    """PRMScore, F1 and negative F1 by name."""
    names = (*(category.short_name for category in CATEGORIES), "Overall")
    pairs = dict(zip(names, map(f1_pair, (*scores.counts, scores.counts.sum(axis=0))), strict=True))
    return {name: [figure.value, *map(float, pairs.get(name, ()))] for (_, name), figure in scores.figures.items()}


def assert_official(scores: PrmScores, official: dict[str, Any]) -> None:
    ours = figures(scores)
    for category in CATEGORIES:
        assert ours[category.short_name] == pytest.approx(official["categories"][category.classification], abs=1e-9)
    assert ours["Overall"] == pytest.approx(official["overall"], abs=1e-9)
    assert [ours[group][0] for group in GROUPS] == pytest.approx(list(official["groups"].values()), abs=1e-9)


def test_accuracies_and_f1_are_the_official_ones_at_every_threshold(kind, processbench):
    problems, predictions = processbench
    both = with_probabilities(predictions, problems)
    for benchmark, subset in zip(AVERAGED_BENCHMARKS, AVERAGED, strict=True):
        rows = both.filter(benchmark=benchmark)
        first_error = rows["first_error"].to_numpy()
        wrong = first_error >= 0
        longest = max(map(len, rows["probabilities"]))
        padded = [[*scores, *[NEVER] * (longest - len(scores))] for scores in rows["probabilities"]]
        low, high = right_intervals(np.array(padded), first_error)
        for threshold, official in zip(judged.THRESHOLDS, OFFICIAL[kind]["processbench"][subset], strict=True):
            right = (low < threshold) & (threshold <= high)
            err, cor = right[wrong].mean(), right[~wrong].mean()
            ours = [100 * err, 100 * cor, 100 * float(f1_of_accuracies(err, cor))]
            assert ours == pytest.approx(official, abs=1e-7)


def test_prm_score_is_the_official_one_in_every_category_and_group(kind, prmbench):
    problems, predictions = prmbench
    scores = prmbench_scores(predictions, problems, 20, 0)["fixed"]
    assert_official(scores, OFFICIAL[kind]["prmbench"])


def test_the_best_threshold_is_best_by_the_official_code(kind, prmbench):
    problems, predictions = prmbench
    overall = OFFICIAL[kind]["prmbench_overall"]
    best = prmbench_scores(predictions, problems, 20, 0)["best"]
    assert best.figures["overall", "Overall"].value == pytest.approx(max(overall), abs=1e-9)
    assert overall[place(best.threshold)] == max(overall)


def test_an_f1_without_hits_is_0_and_not_the_official_marker_of_minus_1():
    """Officially precision and recall of 0 give an F1 of -1, which is then averaged with the other F1 and cut at 0."""
    official = OFFICIAL["made_up"]["prmbench_passing_only_first_errors"]
    problems, predictions = prmbench_frames(judged.made_up_prmbench(20), judged.only_first_errors)
    ours = figures(prmbench_scores(predictions, problems, 20, 0)["fixed"])
    negative = official["overall"][2]
    assert official["overall"] == [0.0, -1.0, negative]
    assert ours["Overall"] == pytest.approx([negative / 2, 0.0, negative], abs=1e-9)
