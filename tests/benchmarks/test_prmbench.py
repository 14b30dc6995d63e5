"""PRMBench: thresholds that every resample chooses, beside the same by loops."""

import numpy as np
import polars as pl
import pytest

from cpmi_dagster.benchmarks.prmbench import prmbench_scores
from cpmi_dagster.benchmarks.readers import CLASSIFICATIONS
from cpmi_dagster.benchmarks.resampling import question_weights


def frames(rows):
    both = pl.DataFrame(rows, schema_overrides={"error_steps": pl.List(pl.Int64)})
    predictions = both.select("category", "problem_id", "step_index", "probability").explode(
        "step_index", "probability"
    )
    return both.drop("step_index", "probability"), predictions


def f1_pair(valid, probabilities, threshold):
    """F1 of wrong and of right steps."""
    passed = probabilities >= threshold
    kinds = ((~valid, ~passed), (valid, passed))
    return [2 * (truth & said).sum() / max(1, truth.sum() + said.sum()) for truth, said in kinds]


def noisy_set(seed, count):
    """Questions with a problem of each category, scores in tenths that say a little."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        for name in CLASSIFICATIONS:
            wrong = [] if name == "multi_solutions" else [int(rng.integers(5))]
            scores = [round(float(rng.random()) * (0.6 if step in wrong else 1), 1) for step in range(5)]
            key = {"benchmark": "prmbench", "problem_id": f"p{number}:{name}", "question": f"question {number:02}"}
            steps = {"steps": ["step"] * 5, "step_index": range(5), "error_steps": wrong, "probability": scores}
            rows.append({**key, "category": name, **steps})
    return rows


def overall_by_loop(rows, protocol):
    """The overall PRMScore of rows at the threshold that the protocol chooses."""
    steps = [(step not in row["error_steps"], p) for row in rows for step, p in enumerate(row["probability"])]
    valid, probabilities = np.array([valid for valid, _ in steps]), np.array([p for _, p in steps])

    def maximised(threshold):
        """The F1 of wrong steps, as released, or the sum of both."""
        pair = f1_pair(valid, probabilities, threshold)
        return pair[0] if protocol == "released" else sum(pair)

    best = max(np.linspace(0.05, 1.05, 11), key=maximised)
    return sum(f1_pair(valid, probabilities, best)) / 2


@pytest.mark.parametrize("protocol", ["released", "best"])
def test_every_resample_chooses_its_own_threshold(protocol):
    rows = noisy_set(1, count=12)
    problems, predictions = frames(rows)
    overall = prmbench_scores(predictions, problems, 50, 4)[protocol].figures["overall", "Overall"].estimate()
    draws = []
    for counts in question_weights(12, 50, 4)[1:].astype(int):
        drawn = [row for row in rows for _ in range(counts[int(row["question"].split()[-1])])]
        draws.append(overall_by_loop(drawn, protocol))
    assert overall.value == pytest.approx(overall_by_loop(rows, protocol))
    assert [overall.low, overall.high] == pytest.approx(np.quantile(draws, [0.025, 0.975]).tolist())
