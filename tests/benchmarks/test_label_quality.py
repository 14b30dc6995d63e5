"""How well labels rank true steps: AUC by hand, and paired differences."""

from functools import partial

import polars as pl
import pytest

from cpmi_dagster.benchmarks.label_quality import (
    first_wrong_steps,
    label_aucs,
    labelled_steps,
    paired_differences,
    with_truth_so_far,
)

IDS = ["t0", "t1", "t2"]
TRAJECTORIES = pl.DataFrame({
    "trajectory_id": IDS,
    "question_id": ["q0", "q1", "q1"],
    "row_number": range(3),
    "steps": [["a", "b"]] * 3,
    "shepherd_labels": [[True, True], [True, False], [False, False]],
})  # fmt: skip
TRUTH = pl.DataFrame({"row_number": range(3), "correct": [[True, False]] * 3})
STEPS = pl.DataFrame({"trajectory_id": IDS, "step_index": [[0, 1]] * 3}).explode("step_index")


def rewards(**types):
    return pl.concat(
        STEPS.with_columns(reward_type=pl.lit(name), reward=pl.Series(values, dtype=pl.Float64))
        for name, values in types.items()
    )


def aucs(given):
    return label_aucs(labelled_steps(given, TRAJECTORIES, TRUTH), samples=50, seed=0)


def differences_to_mc(given, trajectories=TRAJECTORIES):
    steps = labelled_steps(given, trajectories, TRUTH)
    measure = partial(label_aucs, samples=200, seed=0)
    return paired_differences(steps, measure(steps), "mc", measure)


def sizes(figures):
    return {name: figure.n for name, figure in figures.items()}


PERFECT, REVERSED = [3, -1, 2, -2, 1, -3], [-3, 1, -2, 2, -1, 3]


def test_auc_of_perfect_reversed_and_math_shepherds_labels_by_hand():
    quality = aucs(rewards(mc=PERFECT, cpmi=REVERSED))
    values = {name: auc.value for name, auc in quality.items()}
    assert values == pytest.approx({"mc": 1.0, "cpmi": 0.0, "math_shepherd": (2.5 + 2.5 + 1) / 9})
    assert set(sizes(quality).values()) == {6}


def test_a_type_that_labels_a_sample_is_judged_and_compared_on_it():
    sampled = rewards(mc=REVERSED).filter(pl.col("trajectory_id") != "t0")
    assert sizes(aucs(sampled)) == {"mc": 4, "math_shepherd": 4}
    given = pl.concat([sampled, rewards(cpmi=PERFECT)])
    assert sizes(aucs(given)) == {"mc": 4, "cpmi": 6, "math_shepherd": 6}
    differences = differences_to_mc(given)
    assert sizes(differences) == {"cpmi": 4, "math_shepherd": 4}
    alone = TRAJECTORIES.filter(pl.col("trajectory_id") != "t0")
    assert differences == differences_to_mc(given, alone)


WITHIN = pl.DataFrame({
    "reward_type": ["mc"] * 5,
    "trajectory_id": ["t0"] * 3 + ["t1"] * 2,
    "question_id": ["q0"] * 3 + ["q1"] * 2,
    "step_index": [0, 1, 2, 0, 1],
    "step_count": [3, 3, 3, 2, 2],
})  # fmt: skip


@pytest.mark.parametrize(
    ("rewards", "correct", "found", "steps"),
    [
        # of the two lowest labels the earlier counts
        ([0.5, 0.5, 0.9, 0.1, 0.2], [True, False, None, True, True], 0.0, 3),
        # so a perfect cumulative label finds every error
        ([1.0, 0.0, 0.0, 1.0, 1.0], [True, False, None, True, True], 1.0, 3),
        # an unjudged step before the wrong one may be the first wrong one
        ([0.5, 0.4, 0.9, 0.2, 0.1], [None, False, True, True, False], 1.0, 2),
    ],
)
def test_the_lowest_label_of_a_solution_is_on_its_first_wrong_step_or_not(rewards, correct, found, steps):
    rows = WITHIN.with_columns(correct=pl.Series(correct), reward=pl.Series(rewards))
    figures = first_wrong_steps(rows, samples=20, seed=0)["mc"]
    assert (figures.found.value, figures.found.n, figures.blind.value) == (found, 1, pytest.approx(1 / steps))


def test_truth_so_far_is_false_from_the_first_wrong_step_on_and_unknown_behind_an_unjudged_one():
    judged = [[True, False, None], [True, None, True], [True, None, False]]
    steps = pl.DataFrame(
        {"reward_type": "cpmi", "trajectory_id": ["a", "b", "c"], "step_index": [[0, 1, 2]] * 3, "correct": judged}
    ).explode("step_index", "correct")
    so_far = with_truth_so_far(steps)
    assert so_far.select("trajectory_id", "step_index", "correct").rows() == [
        ("a", 0, True), ("a", 1, False), ("a", 2, False), ("b", 0, True), ("c", 0, True), ("c", 2, False),
    ]  # fmt: skip
