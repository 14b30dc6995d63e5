"""PRMBench: PRMScore by hand, its groups against the paper's table, thresholds by law."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.benchmarks.prmbench import (
    CLASSIFICATIONS,
    CROSS_FITTED,
    FIGURES,
    prm_scores,
    prmbench_scores,
    worth_of_threshold,
)
from cpmi_dagster.benchmarks.resampling import question_weights
from cpmi_dagster.benchmarks.thresholds import Tally, choose
from cpmi_dagster.errors import BenchmarkError


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


def test_a_missing_category_or_prediction_is_an_error():
    problems, predictions = frames(full_set())
    with pytest.raises(BenchmarkError, match="`deception`"):
        prmbench_scores(predictions, problems.filter(pl.col("category") != "deception"), "best", 10, 0)
    with pytest.raises(BenchmarkError, match="`p0:circular` of prmbench"):
        prmbench_scores(predictions.filter(pl.col("problem_id") != "p0:circular"), problems, "best", 10, 0)


def test_a_cross_fitted_score_stands_beside_the_tuned_one():
    problems, predictions = frames(noisy_set(2))
    scores = prmbench_scores(predictions, problems, "best", 50, 0, cross_fitted=True)
    assert score_of(scores, CROSS_FITTED)["score"] <= score_of(scores, "Overall")["score"]
    assert score_of(scores, CROSS_FITTED)["threshold"] is None
    assert CROSS_FITTED not in prmbench_scores(predictions, problems, "fixed", 50, 0, cross_fitted=True)["name"]
