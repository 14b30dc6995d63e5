"""PRMBench: PRMScore by hand, its groups against the paper's table, thresholds by law."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from cpmi_dagster.benchmarks.prm_score import (
    CATEGORIES,
    CLASSIFICATIONS,
    FIGURES,
    GROUPS,
    best_threshold,
    members,
    prm_scores,
)
from cpmi_dagster.benchmarks.prmbench import prmbench_difference, prmbench_scores
from cpmi_dagster.errors import BenchmarkError

# NR NCL, ES SC DC CI, PS DR MS, overall, then Simplicity, Soundness, Sensitivity: the paper's two PRMBench tables.
PAPER = {
    "MC": ([37.56, 44.20, 43.18, 26.84, 36.72, 40.94, 42.28, 42.30, 20.61], 38.80, [40.88, 36.92, 35.06]),
    "PAV": ([45.69, 48.62, 55.86, 39.09, 46.96, 56.32, 50.17, 53.18, 38.25], 49.64, [47.16, 49.56, 47.20]),
    "CPMI": ([50.22, 54.89, 63.76, 56.99, 56.58, 63.52, 57.70, 62.02, 47.06], 58.75, [52.56, 60.21, 55.59]),
    "CPMI_Merge": ([51.27, 58.02, 65.99, 58.96, 58.70, 65.53, 59.28, 63.34, 46.89], 60.67, [54.65, 62.30, 56.50]),
    "Rand_Merge": ([20.14, 35.15, 26.40, 19.26, 21.11, 19.79, 25.71, 23.24, 7.00], 23.20, [27.65, 21.64, 18.65]),
}


def problem(classification, number, scores, wrong):
    return {
        "benchmark": "prmbench",
        "problem_id": f"p{number}:{classification}",
        "question": f"question {number}",
        "category": classification,
        "steps": ["step"] * len(scores),
        "error_steps": wrong,
        "step_index": list(range(len(scores))),
        "probability": scores,
    }


def frames(rows):
    both = pl.DataFrame(rows, schema_overrides={"error_steps": pl.List(pl.Int64)})
    predictions = both.select("category", "problem_id", "step_index", "probability").explode(
        "step_index", "probability"
    )
    return both.drop("step_index", "probability"), predictions


def full_set(scores=(0.9, 0.2, 0.8, 0.6), wrong=(1,)):
    """Two problems of every category, all alike; multi_solutions without an error."""
    return [
        problem(name, number, list(scores), [] if name == "multi_solutions" else list(wrong))
        for name in CLASSIFICATIONS
        for number in range(2)
    ]


def score_of(scores, name):
    return scores.filter(name=name).row(0, named=True)


def test_prm_score_of_a_category_by_hand():
    counts = np.zeros((9, 4))
    counts[:] = [5, 1, 2, 2]
    f1, f1_negative = 10 / 13, 4 / 7
    figures = dict(zip([name for _, name in FIGURES], prm_scores(counts), strict=True))
    assert figures["NR"] == pytest.approx((f1 + f1_negative) / 2)
    assert figures["MS"] == pytest.approx(f1)
    assert figures["Sensitivity"] == pytest.approx((f1 + f1_negative) / 3 + f1 / 3)
    assert figures["Overall"] == pytest.approx((f1 + f1_negative) / 2)


def test_the_overall_score_pools_steps_and_a_group_averages_categories():
    rows = full_set()
    rows[0] = problem("redundency", 0, [0.1] * 8, [])
    problems, predictions = frames(rows)
    scores = prmbench_scores(predictions, problems, bootstrap_samples=100, seed=0, threshold=0.5)
    redundency = ((2 * 3) / (2 * 3 + 8) + 2 / (2 + 8)) / 2
    assert score_of(scores, "NR")["score"] == pytest.approx(redundency)
    assert score_of(scores, "Simplicity")["score"] == pytest.approx((redundency + 1) / 2)
    truth = [True] * 8 + [True, False, True, True] + [True, False, True, True] * 14 + [True] * 8
    judged = [False] * 8 + [True, False, True, True] * 17
    pooled = (f1_score(truth, judged) + f1_score(np.logical_not(truth), np.logical_not(judged))) / 2
    assert score_of(scores, "Overall")["score"] == pytest.approx(pooled)


def test_multi_solutions_is_scored_by_f1_alone():
    problems, predictions = frames(full_set())
    scores = prmbench_scores(predictions, problems, bootstrap_samples=20, seed=0, threshold=0.5)
    row = score_of(scores, "MS")
    assert row["score"] == row["f1"] == pytest.approx(2 * 6 / (2 * 6 + 2))
    assert row["f1_negative"] == 0
    assert score_of(scores, "Soundness")["f1"] is None


def test_rows_come_in_the_order_of_the_papers_table_and_count_problems():
    problems, predictions = frames(full_set())
    scores = prmbench_scores(predictions, problems, bootstrap_samples=20, seed=0)
    assert scores["name"].to_list() == [
        *(category.short_name for category in CATEGORIES),
        *GROUPS,
        "Overall",
    ]
    assert scores["n"].to_list() == [2] * 9 + [4, 8, 6, 18]


def test_an_error_step_past_the_end_changes_no_figure():
    inside, predictions = frames(full_set(wrong=(1,)))
    past, _ = frames(full_set(wrong=(1, 4, 9)))
    scored = [prmbench_scores(predictions, problems, bootstrap_samples=20, seed=0) for problems in (inside, past)]
    assert scored[0].equals(scored[1])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 10).map(lambda n: n / 10), st.booleans()), min_size=1, max_size=30))
def test_the_threshold_is_the_best_of_all(steps):
    probabilities, valid = np.array([p for p, _ in steps]), np.array([v for _, v in steps])

    def f1(truth, judged):
        return 2 * (truth & judged).sum() / max(1, truth.sum() + judged.sum())

    def score(threshold):
        passed = probabilities >= threshold
        return f1(valid, passed) + f1(~valid, ~passed)

    best = max(score(threshold) for threshold in np.linspace(0, 1.05, 22))
    assert score(best_threshold(probabilities, valid)) == pytest.approx(best)


def test_intervals_hold_their_figure_and_problems_of_one_question_stay_together():
    rng = np.random.default_rng(0)
    rows = [problem(name, number, list(rng.random(6)), [2, 3]) for name in CLASSIFICATIONS for number in range(20)]
    problems, predictions = frames(rows)
    scores = prmbench_scores(predictions, problems, bootstrap_samples=300, seed=0)
    assert ((scores["low"] < scores["score"]) & (scores["score"] < scores["high"])).all()


def test_two_models_are_compared_at_their_own_best_thresholds():
    problems, good = frames(full_set())
    _, bad = frames(full_set(scores=(0.2, 0.9, 0.3, 0.4)))
    assert prmbench_difference(good, bad, problems, samples=50, seed=0).value > 0.2
    assert prmbench_difference(good, good, problems, samples=50, seed=0).p_value == 1


def test_a_missing_category_or_prediction_is_an_error():
    problems, predictions = frames(full_set())
    with pytest.raises(BenchmarkError, match="no problems of `deception`"):
        prmbench_scores(predictions, problems.filter(pl.col("category") != "deception"), 10, 0)
    with pytest.raises(BenchmarkError, match="problem `p0:circular` of prmbench has no predictions"):
        prmbench_scores(predictions.filter(pl.col("problem_id") != "p0:circular"), problems, 10, 0)


@pytest.mark.parametrize("reward_type", PAPER)
def test_the_papers_group_scores_are_means_of_their_categories_and_the_overall_score_is_not(reward_type):
    categories, overall, groups = PAPER[reward_type]
    for group, published in zip(GROUPS, groups, strict=True):
        assert np.mean([categories[number] for number in members(group)]) == pytest.approx(published, abs=0.011)
    assert abs(np.mean(categories) - overall) > 0.3
    assert abs(np.mean(groups) - overall) > 0.3
