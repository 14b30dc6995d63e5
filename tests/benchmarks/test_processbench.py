"""ProcessBench: predictions, accuracies and thresholds by hand and by law."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.benchmarks.first_errors import NEVER, f1_of_accuracies, right_intervals
from cpmi_dagster.benchmarks.metrics import scored_steps, step_auc, step_wasserstein
from cpmi_dagster.benchmarks.processbench import (
    AVERAGED,
    CROSS_FITTED,
    processbench_chance,
    processbench_scores,
)
from cpmi_dagster.benchmarks.thresholds import FOLDS, fold_numbers
from cpmi_dagster.errors import BenchmarkError

solutions = st.lists(
    st.tuples(st.lists(st.integers(0, 10), min_size=1, max_size=5), st.integers(-1, 4)), min_size=2, max_size=12
).map(lambda rows: [([score / 10 for score in scores], min(label, len(scores) - 1)) for scores, label in rows])
two_sided = solutions.filter(lambda rows: len({label < 0 for _, label in rows}) == 2)


def frames(subsets):
    """Problems and predictions from (probabilities, label) pairs per subset."""
    rows = [
        {
            "benchmark": f"processbench_{subset}",
            "problem_id": f"{subset}-{number}",
            "question": f"question {number}",
            "steps": ["step"] * len(scores),
            "first_error": label,
            "probability": scores,
            "step_index": list(range(len(scores))),
        }
        for subset, pairs in subsets.items()
        for number, (scores, label) in enumerate(pairs)
    ]
    both = pl.DataFrame(rows)
    steps = both.select("benchmark", "problem_id", "step_index", "probability").explode("step_index", "probability")
    return both.drop("probability", "step_index"), steps


def everywhere(pairs):
    return frames(dict.fromkeys(AVERAGED, pairs))


def predicted(scores, threshold, patience=1):
    """The first step of `patience` consecutive ones below the threshold, by following the words."""
    for first in range(len(scores) - patience + 1):
        if all(score < threshold for score in scores[first : first + patience]):
            return first
    return -1


def brute_force(pairs, threshold, patience=1, inverted=False):
    """Err and Corr, by following the definition word for word."""
    right = {True: [], False: []}
    for scores, label in pairs:
        read = [1 - score for score in scores] if inverted else scores
        right[label >= 0].append(predicted(read, threshold, patience) == label)
    return np.mean(right[True]), np.mean(right[False])


def best_f1(pairs, patiences=(1,), signs=(False,)):
    """The best F1 and the rules that have it."""
    rules = {
        (threshold, patience, inverted): float(f1_of_accuracies(*brute_force(pairs, threshold, patience, inverted)))
        for inverted in signs
        for patience in patiences
        for threshold in np.linspace(0.05, 1.05, 41)
    }
    return max(rules.values()), [rule for rule, f1 in rules.items() if f1 == max(rules.values())]


@given(solutions, st.integers(0, 11), st.integers(1, 3))
def test_a_problem_is_judged_right_by_the_thresholds_of_its_interval(pairs, level, patience):
    longest, threshold = max(len(scores) for scores, _ in pairs), level / 10 - 0.05
    padded = np.array([scores + [NEVER] * (longest - len(scores)) for scores, _ in pairs])
    low, high = right_intervals(padded, np.array([label for _, label in pairs]), patience)
    words = [predicted(scores, threshold, patience) == label for scores, label in pairs]
    assert ((low < threshold) & (threshold <= high)).tolist() == words


@pytest.mark.parametrize(
    ("protocol", "pairs", "err", "cor", "f1"),
    [
        ("paper", [([0.9, 0.2], 1), ([0.3, 0.9], 1), ([0.9, 0.8], -1), ([0.9, 0.95], -1)], 0.5, 1, 2 / 3),
        ("fixed", [([0.9, 0.4], 1), ([0.6, 0.9], 0), ([0.9, 0.5], -1), ([0.3], -1)], 0.5, 0.5, 0.5),
    ],
)
def test_accuracies_and_f1_of_four_solutions_by_hand(protocol, pairs, err, cor, f1):
    problems, predictions = everywhere(pairs)
    scores = processbench_scores(predictions, problems, protocol, bootstrap_samples=20, seed=0)
    assert scores["subset"].to_list() == ["gsm8k", "math", "olympiadbench", "omnimath", "average"]
    assert scores["n"].to_list() == [4, 4, 4, 4, 16]
    assert scores["f1"].to_list() == pytest.approx([f1] * 5)
    assert scores.select("err", "cor").rows() == [(err, cor)] * 5


@settings(deadline=None, max_examples=20)
@given(st.fixed_dictionaries(dict.fromkeys(AVERAGED, two_sided)))
def test_the_papers_and_the_released_protocol_are_never_below_the_official_one_where_they_choose(subsets):
    problems, predictions = frames(subsets)
    official, paper, released = (
        processbench_scores(predictions, problems, protocol, bootstrap_samples=100, seed=0)
        for protocol in ("official", "paper", "released")
    )
    assert (paper["f1"] >= official["f1"] - 1e-12).all()
    assert official["threshold"].n_unique() == 1
    assert official["f1"][0] == paper["f1"][0] <= released["f1"][0]
    assert released["f1"][0] == pytest.approx(best_f1(subsets["gsm8k"], (1, 2, 3), (False, True))[0])
    for row in released.filter(pl.col("subset") != "average").iter_rows(named=True):
        expected = brute_force(subsets[row["subset"]], row["threshold"], row["patience"], row["inverted"])
        assert (row["err"], row["cor"]) == pytest.approx(expected)


def noisy_pairs(count, seed):
    """Solutions of four steps whose scores say a little; half of them have an error."""
    rng = np.random.default_rng(seed)
    labels = [int(rng.integers(4)) if number % 2 else -1 for number in range(count)]
    return [
        ([round(float(rng.random()) * (0.6 if step == label else 1), 1) for step in range(4)], label)
        for label in labels
    ]


def in_order_of_texts(pairs):
    """Numbers of the pairs as questions are numbered: in the order of their texts."""
    return sorted(range(len(pairs)), key=lambda number: f"question {number}")


def test_a_cross_fitted_average_judges_each_half_by_the_rule_of_the_other():
    pairs = noisy_pairs(40, 4)
    problems, predictions = everywhere(pairs)
    scores = processbench_scores(predictions, problems, "paper", 20, seed=2, cross_fitted=True)
    folds = dict(zip(in_order_of_texts(pairs), fold_numbers(len(pairs), 2), strict=True))
    right = {True: [], False: []}
    for fold in range(FOLDS):
        others = [pairs[number] for number in folds if folds[number] != fold]
        (threshold, *_), *_ = best_f1(others)[1]
        for number in folds:
            if folds[number] == fold:
                values, label = pairs[number]
                right[label >= 0].append(predicted(values, threshold) == label)
    expected = f1_of_accuracies(np.mean(right[True]), np.mean(right[False]))
    by_subset = dict(scores.select("subset", "f1").rows())
    assert by_subset[CROSS_FITTED] == pytest.approx(float(expected))
    assert by_subset[CROSS_FITTED] < by_subset["average"]


def test_chance_at_the_fixed_threshold_follows_from_the_lengths():
    """A step is flagged half of the time: a first error at k is found with 1 / 2^(k + 1), n steps pass with 1 / 2^n."""
    problems, _ = everywhere([([0.5] * 3, 1), ([0.5] * 2, -1)] * 200)
    row = processbench_chance(problems, "fixed", seed=0).row(0, named=True)
    assert (row["err"], row["cor"]) == pytest.approx((0.25, 0.25), abs=0.01)
    assert row["low"] < row["f1"] < row["high"]


def test_steps_from_the_first_error_on_count_as_wrong():
    problems, predictions = frames({"math": [([0.9, 0.2, 0.4], 1), ([0.8], -1)]})
    assert scored_steps(predictions, problems)["correct"].to_list() == [True, False, False, True]
    auc, distance = (figure(predictions, problems, samples=50, seed=0) for figure in (step_auc, step_wasserstein))
    assert (auc.value, auc.n) == (1, 4)
    assert distance.value == pytest.approx(0.85 - 0.3)


def test_predictions_that_do_not_fit_are_refused_by_name():
    problems, predictions = everywhere([([0.9, 0.2], 1), ([0.9, 0.8], -1)])
    for change, message in (
        (predictions.filter(pl.col("problem_id") != "math-1"), "`math-1` of processbench_math has no prediction"),
        (predictions.with_columns(probability=pl.lit(float("nan"))), r"must lie in \[0, 1\]"),
    ):
        with pytest.raises(BenchmarkError, match=message):
            processbench_scores(change, problems, "paper", bootstrap_samples=10, seed=0)
