"""What people and other judges say of steps: truths by row, trajectory or first error, and labels of the user's."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import StepLabels, StepRewards, StepTruth
from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.form_readers import NO_ERROR
from cpmi_dagster.trajectories.own_labels import notes_on_others, own_rewards, read_step_labels
from cpmi_dagster.trajectories.step_truth import read_step_truth

NUMBERED = {"row_number": 0, "correct": [True]}
SOLUTION = {"id": "gsm8k-7", "problem": "2 + 3?", "steps": ["2 + 3 = 6", "6 + 0 = 6", "6"], "label": 0}
JUDGED = {"trajectory_id": "t000000042", "rewards": [0.93, 0.0, None, 1.0], "judged": [3, 1]}
STEP = {"completions": [{"text": "bad", "rating": -1}, {"text": "fine", "rating": 0}], "chosen_completion": 1}
LAST = {"completions": [{"text": "wrong", "rating": -1}], "chosen_completion": None}


@given(st.integers(1, 9).flatmap(lambda size: st.tuples(st.just(size), st.integers(NO_ERROR, size - 1))))
def test_people_judge_every_step_up_to_the_first_error_and_none_after_it(case):
    size, label = case
    truth, _ = read_step_truth([{**SOLUTION, "steps": ["a"] * size, "label": label}])
    expected = [None if NO_ERROR < label < step else step != label for step in range(size)]
    assert truth["correct"].to_list() == [expected]


@pytest.mark.parametrize(
    ("row", "number", "correct"),
    [
        ({"row_number": 7, "correct": [None, True]}, 7, [None, True]),
        (JUDGED, 42, [None, False, None, True]),
        ({"question": {"problem": "2 + 3?"}, "label": {"steps": [STEP, LAST]}}, 0, [True, False]),
    ],
)
def test_truth_may_be_by_row_by_judged_trajectory_or_by_ratings(row, number, correct):
    unsaid = {"kind": None, "operations_left": None}
    assert read_step_truth([row])[0].to_dicts() == [{"row_number": number, "correct": correct, **unsaid}]
    said = {"row_number": 3, "correct": [True, False], "kind": [None, "operator"], "operations_left": [1, 0]}
    assert read_step_truth([said])[0].to_dicts() == [said]
    assert read_step_truth([])[0].schema == StepTruth.create_empty().schema


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([NUMBERED, {"correct": [True]}], "row 2: `row_number`: it is missing; give rows of row_number and correct"),
        ([{**JUDGED, "judged": [0]}], r"`judged` names step 0 .from 0., where `rewards` has neither 1 nor 0"),
        ([NUMBERED, NUMBERED], "two rows are about row 1 of the trajectory source; remove one of them"),
        ([{"question": "2 + 3?", "steps": ["5"], "labels": [1]}] * 2, "none of the 2 rows says which steps are right"),
    ],
)
def test_a_row_that_is_no_truth_is_named(rows, message):
    with pytest.raises(SourceError, match=message):
        read_step_truth(rows)


@pytest.mark.parametrize("row", [{**SOLUTION, "label": 3}, {"question": "2 + 3?", "steps": ["5"]}, {"a": 1}])
def test_a_solution_that_cannot_be_read_or_that_nobody_has_judged_has_no_truth_and_is_counted(row):
    truth, without = read_step_truth([row, SOLUTION])
    assert (truth["row_number"].to_list(), without) == ([1], 1)


TRAJECTORIES = pl.DataFrame({"trajectory_id": ["t000000003", "t000000008"], "steps": [["x", "y"], ["z"]]})
ROWS = [{"trajectory_id": "t000000003", "rewards": [0.5, -2]}, {"row_number": 8, "rewards": [1.5], "comment": "sure"}]
KEY = ["reward_type", "trajectory_id", "step_index"]


def test_labels_are_found_by_trajectory_or_by_row_and_those_of_others_are_left_out_and_counted():
    expected = [("judge", "t000000003", 0, 0.5), ("judge", "t000000003", 1, -2.0), ("judge", "t000000008", 0, 1.5)]
    assert notes_on_others(read_step_labels("judge", ROWS), TRAJECTORIES) == []
    others = [{"row_number": 77, "rewards": [1.0, 0.0]}, {"trajectory_id": "other", "rewards": [1.0]}]
    labels = read_step_labels("judge", [*ROWS, *others])
    StepLabels.validate(labels)
    assert own_rewards(labels, TRAJECTORIES).select(*KEY, "reward").sort(KEY).rows() == expected
    (note,) = notes_on_others(labels, TRAJECTORIES)
    assert note.startswith("`judge` also labels 2 trajectories")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*ROWS, {"rewards": [1.0]}], r"`judge`, row 3: a row needs `trajectory_id` or `row_number`"),
        ([{"row_number": 9, "rewards": [1.0, float("nan")]}], r"row 1: .*`rewards\.1`: it must be a finite number"),
        ([*ROWS, {"row_number": 8, "rewards": [1.0]}], r"row 3: .*`t000000008`: an earlier row labels the same traj"),
        (ROWS[:1], "`judge` lack 1 selected trajectories, `t000000008` first"),
        ([ROWS[0], {"row_number": 8, "rewards": [1.0, 1.0]}], "`t000000008` has 1 steps but 2 rewards"),
    ],
)
def test_labels_that_are_none_or_not_of_every_step_are_refused(rows, message):
    with pytest.raises(SourceError, match=message):
        own_rewards(read_step_labels("judge", rows), TRAJECTORIES)


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(-9, 9), min_size=1, max_size=5), min_size=1, max_size=6), st.randoms())
def test_every_label_comes_back_under_its_step_whatever_the_order_of_rows(values, random):
    rows = [{"row_number": number, "rewards": rewards} for number, rewards in enumerate(values)]
    steps = pl.DataFrame(
        {"trajectory_id": [f"t{n:09d}" for n in range(len(values))], "steps": [["s"] * len(v) for v in values]}
    )
    found = own_rewards(read_step_labels("judge", random.sample(rows, len(rows))), steps)
    StepRewards.validate(found)
    lists = found.sort("trajectory_id", "step_index").group_by("trajectory_id", maintain_order=True).agg("reward")
    assert lists["reward"].to_list() == values
