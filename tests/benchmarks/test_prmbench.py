"""PRMBench: PRMScore by hand, its groups against the paper's table, thresholds by law."""

from typing import get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from cpmi_dagster.benchmarks.prmbench import (
    CATEGORIES,
    CLASSIFICATIONS,
    CROSS_FITTED,
    FIGURES,
    GROUPS,
    Protocol,
    constant_predictions,
    members,
    prm_scores,
    prmbench_chance,
    prmbench_overall,
    prmbench_scores,
    worth_of_threshold,
)
from cpmi_dagster.benchmarks.resampling import question_weights
from cpmi_dagster.benchmarks.thresholds import Tally, choose
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
        "question": f"question {number:02}",
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


def full_set(scores=(0.9, 0.2, 0.8, 0.6), wrong=(1,), count=2):
    """Problems of every category, all alike; multi_solutions without an error."""
    return [
        problem(name, number, list(scores), [] if name == "multi_solutions" else list(wrong))
        for name in CLASSIFICATIONS
        for number in range(count)
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
    scores = prmbench_scores(predictions, problems, "fixed", bootstrap_samples=100, seed=0)
    redundency = ((2 * 3) / (2 * 3 + 8) + 2 / (2 + 8)) / 2
    assert score_of(scores, "NR")["score"] == pytest.approx(redundency)
    assert score_of(scores, "Simplicity")["score"] == pytest.approx((redundency + 1) / 2)
    truth = [True] * 8 + [True, False, True, True] + [True, False, True, True] * 14 + [True] * 8
    judged = [False] * 8 + [True, False, True, True] * 17
    pooled = (f1_score(truth, judged) + f1_score(np.logical_not(truth), np.logical_not(judged))) / 2
    assert score_of(scores, "Overall")["score"] == pytest.approx(pooled)


def test_multi_solutions_is_scored_by_f1_alone():
    problems, predictions = frames(full_set())
    scores = prmbench_scores(predictions, problems, "fixed", bootstrap_samples=20, seed=0)
    row = score_of(scores, "MS")
    assert row["score"] == row["f1"] == pytest.approx(2 * 6 / (2 * 6 + 2))
    assert (row["f1_negative"], score_of(scores, "Soundness")["f1"]) == (0, None)
    # rows come in the order of the paper's table and count problems
    assert scores["name"].to_list() == [*(category.short_name for category in CATEGORIES), *GROUPS, "Overall"]
    assert scores["n"].to_list() == [2] * 9 + [4, 8, 6, 18]


def test_an_error_step_past_the_end_changes_no_figure():
    inside, predictions = frames(full_set(wrong=(1,)))
    past, _ = frames(full_set(wrong=(1, 4, 9)))
    one, other = (prmbench_scores(predictions, problems, "best", 20, seed=0) for problems in (inside, past))
    assert one.equals(other)


def f1_pair(valid, probabilities, threshold):
    """F1 of wrong and of right steps."""
    passed = probabilities >= threshold
    kinds = ((~valid, ~passed), (valid, passed))
    return [2 * (truth & said).sum() / max(1, truth.sum() + said.sum()) for truth, said in kinds]


def objective(protocol, *judged):
    """What a protocol maximises."""
    return f1_pair(*judged)[0] if protocol == "released" else sum(f1_pair(*judged))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 10).map(lambda n: n / 10), st.booleans()), min_size=1, max_size=30))
def test_the_threshold_of_each_protocol_is_the_best_of_all(steps):
    probabilities, valid = np.array([p for p, _ in steps]), np.array([v for _, v in steps])
    kinds = Tally(probabilities, np.ones(len(steps)), 1 - valid, np.zeros(len(steps), dtype=np.intp), (1, 2))
    counts, weights = np.array([[valid.sum(), (~valid).sum()]]), np.array([[1.0], [3.0]])

    for protocol in ("released", "best"):

        def worth(flagged, rows, protocol=protocol):
            return worth_of_threshold(flagged, (rows @ counts)[:, None], protocol)

        chosen = choose([kinds], weights, worth)
        best = max(objective(protocol, valid, probabilities, threshold) for threshold in np.linspace(0, 1.05, 22))
        found = [objective(protocol, valid, probabilities, threshold) for threshold in chosen.thresholds]
        assert found == pytest.approx([best, best])


def sixth_wrong(scores):
    """Problems of 44 steps, 8 of them wrong but in one category: 16.2 % in all, about as in the real rows."""
    rows = [
        problem(name, 0, scores(name), [] if name == "multi_solutions" else list(range(8))) for name in CLASSIFICATIONS
    ]
    return frames(rows)


def test_a_judge_that_knows_nothing_has_a_low_figure_where_wrong_steps_choose():
    problems, predictions = sixth_wrong(lambda name: [0.9] * 44)
    figures = {name: prmbench_scores(predictions, problems, name, 20, 0) for name in get_args(Protocol)}
    overall = {name: score_of(scores, "Overall") for name, scores in figures.items()}
    wrong = 64 / 396
    assert overall["best"]["score"] == overall["fixed"]["score"] == pytest.approx((1 - wrong) / (2 - wrong))
    assert overall["released"]["score"] == pytest.approx(wrong / (1 + wrong))


def test_flagging_nothing_is_a_constant_answer():
    problems, _ = sixth_wrong(lambda name: [0.5] * 44)
    scores = prmbench_scores(constant_predictions(problems, 1.0), problems, "fixed", 20, 0)
    assert score_of(scores, "MS")["score"] == 1
    assert score_of(scores, "NR")["score"] == pytest.approx(36 / (36 + 44))


def test_chance_has_its_own_level_under_every_protocol():
    problems, _ = sixth_wrong(lambda name: [0.5] * 44)
    overall = {name: score_of(prmbench_chance(problems, name, 0), "Overall") for name in get_args(Protocol)}
    wrong = 64 / 396
    half_flagged = ((1 - wrong) / (1.5 - wrong) + wrong / (0.5 + wrong)) / 2
    assert overall["fixed"]["score"] == pytest.approx(half_flagged, abs=0.01)
    assert overall["released"]["score"] < overall["fixed"]["score"] < overall["best"]["score"]
    for row in overall.values():
        assert row["low"] < row["score"] < row["high"]


def noisy_set(seed, count=6):
    """Questions with a problem of each category, scores in tenths that say a little."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        for name in CLASSIFICATIONS:
            wrong = [] if name == "multi_solutions" else [int(rng.integers(5))]
            scores = [round(float(rng.random()) * (0.6 if step in wrong else 1), 1) for step in range(5)]
            rows.append(problem(name, number, scores, wrong))
    return rows


def overall_by_loop(rows, protocol):
    """The overall PRMScore of rows at the threshold that the protocol chooses."""
    steps = [(step not in row["error_steps"], p) for row in rows for step, p in enumerate(row["probability"])]
    valid, probabilities = np.array([valid for valid, _ in steps]), np.array([p for _, p in steps])

    best = max(np.linspace(0.05, 1.05, 11), key=lambda threshold: objective(protocol, valid, probabilities, threshold))
    return sum(f1_pair(valid, probabilities, best)) / 2


@pytest.mark.parametrize("protocol", ["released", "best"])
def test_every_resample_chooses_its_own_threshold(protocol):
    rows = noisy_set(1, count=12)
    problems, predictions = frames(rows)
    overall = score_of(prmbench_scores(predictions, problems, protocol, bootstrap_samples=50, seed=4), "Overall")
    draws = []
    for counts in question_weights(12, 50, 4)[1:].astype(int):
        drawn = [row for row in rows for _ in range(counts[int(row["question"].split()[-1])])]
        draws.append(overall_by_loop(drawn, protocol))
    assert overall["score"] == pytest.approx(overall_by_loop(rows, protocol))
    assert [overall["low"], overall["high"]] == pytest.approx(np.quantile(draws, [0.025, 0.975]).tolist())


def test_a_cross_fitted_score_stands_beside_the_tuned_one():
    problems, predictions = frames(noisy_set(2))
    scores = prmbench_scores(predictions, problems, "best", 50, 0, cross_fitted=True)
    assert score_of(scores, CROSS_FITTED)["score"] <= score_of(scores, "Overall")["score"]
    assert score_of(scores, CROSS_FITTED)["threshold"] is None
    assert CROSS_FITTED not in prmbench_scores(predictions, problems, "fixed", 50, 0, cross_fitted=True)["name"]


def test_two_models_are_compared_at_their_own_best_thresholds():
    problems, good = frames(full_set(count=12))
    _, bad = frames(full_set(scores=(0.2, 0.9, 0.3, 0.4), count=12))
    overall = [prmbench_overall(judge, problems, "best", samples=50, seed=0) for judge in (good, bad)]
    assert overall[0].minus(overall[1]).value > 0.2
    assert overall[0].minus(overall[0]).p_value == 1


def test_a_missing_category_or_prediction_is_an_error():
    problems, predictions = frames(full_set())
    with pytest.raises(BenchmarkError, match="`deception`"):
        prmbench_scores(predictions, problems.filter(pl.col("category") != "deception"), "best", 10, 0)
    with pytest.raises(BenchmarkError, match="`p0:circular` of prmbench"):
        prmbench_scores(predictions.filter(pl.col("problem_id") != "p0:circular"), problems, "best", 10, 0)


@pytest.mark.parametrize("reward_type", PAPER)
def test_the_papers_group_scores_are_means_of_their_categories_and_the_overall_score_is_not(reward_type):
    categories, overall, groups = PAPER[reward_type]
    for group, published in zip(GROUPS, groups, strict=True):
        assert np.mean([categories[number] for number in members(group)]) == pytest.approx(published, abs=0.011)
    assert abs(np.mean(categories) - overall) > 0.3
    assert abs(np.mean(groups) - overall) > 0.3
