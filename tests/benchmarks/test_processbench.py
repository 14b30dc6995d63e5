"""ProcessBench: predictions, accuracies and thresholds by hand and by law."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.benchmarks.metrics import bootstrap_auc, bootstrap_wasserstein, scored_steps
from cpmi_dagster.benchmarks.processbench import (
    AVERAGED,
    CROSS_FITTED,
    NEVER,
    f1_of_accuracies,
    processbench_chance,
    processbench_scores,
    right_intervals,
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
    scores = processbench_scores(predictions, problems, 20, 0)[protocol]
    assert list(scores)[:5] == ["gsm8k", "math", "olympiadbench", "omnimath", "average"]
    assert (CROSS_FITTED in scores) == (protocol == "paper")
    for each, n in zip(scores.values(), [4, 4, 4, 4, 16], strict=False):
        assert each.figures[:, 0].tolist() == pytest.approx([err, cor, f1])
        assert each.resampled("f1").n == n


@settings(deadline=None, max_examples=20)
@given(st.fixed_dictionaries(dict.fromkeys(AVERAGED, two_sided)))
def test_the_papers_and_the_released_protocol_are_never_below_the_official_one_where_they_choose(subsets):
    problems, predictions = frames(subsets)
    scores = processbench_scores(predictions, problems, 100, 0)
    official, paper, released = (scores[protocol] for protocol in ("official", "paper", "released"))
    f1s = {name: [each.figures[2, 0] for each in of.values()] for name, of in scores.items()}
    assert (np.array(f1s["paper"][:5]) >= np.array(f1s["official"][:5]) - 1e-12).all() and len(paper) == 6
    assert len({official[subset].rule["threshold"] for subset in AVERAGED}) == 1
    assert f1s["official"][0] == f1s["paper"][0] <= f1s["released"][0]
    assert f1s["released"][0] == pytest.approx(best_f1(subsets["gsm8k"], (1, 2, 3), (False, True))[0])
    for subset in AVERAGED:
        rule, (err, cor, _) = released[subset].rule, released[subset].figures[:, 0]
        expected = brute_force(subsets[subset], rule["threshold"], rule["patience"], rule["inverted"])
        assert (err, cor) == pytest.approx(expected)


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
    scores = processbench_scores(predictions, problems, 20, 2)["paper"]
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
    refitted, fitted = (scores[name].resampled("f1").value for name in (CROSS_FITTED, "average"))
    assert refitted == pytest.approx(float(expected)) and refitted < fitted


def test_chance_at_the_fixed_threshold_follows_from_the_lengths():
    """A step is flagged half of the time: a first error at k is found with 1 / 2^(k + 1), n steps pass with 1 / 2^n."""
    problems, _ = everywhere([([0.5] * 3, 1), ([0.5] * 2, -1)] * 200)
    chance = processbench_chance(problems, "fixed", seed=0)["gsm8k"]
    assert [chance.resampled(name).value for name in ("err", "cor")] == pytest.approx([0.25, 0.25], abs=0.01)
    f1 = chance.resampled("f1").estimate()
    assert f1.low < f1.value < f1.high


def test_steps_from_the_first_error_on_count_as_wrong():
    problems, predictions = frames({"math": [([0.9, 0.2, 0.4], 1), ([0.8], -1)]})
    steps = scored_steps(predictions, problems)
    assert steps["correct"].to_list() == [True, False, False, True]
    columns = steps["probability"], steps["correct"], steps["question"]
    auc, distance = (figure(*columns, samples=50, seed=0) for figure in (bootstrap_auc, bootstrap_wasserstein))
    assert (auc.value, auc.n) == (1, 4)
    assert distance.value == pytest.approx(0.85 - 0.3)


def test_predictions_that_do_not_fit_are_refused_by_name():
    problems, predictions = everywhere([([0.9, 0.2], 1), ([0.9, 0.8], -1)])
    for change, message in (
        (predictions.filter(pl.col("problem_id") != "math-1"), "`math-1` of processbench_math has no prediction"),
        (pl.concat([predictions, predictions[:1]]), "has 2 steps, but predictions for 3, steps 0 to 1"),
    ):
        with pytest.raises(BenchmarkError, match=message):
            processbench_scores(change, problems, 10, 0)
