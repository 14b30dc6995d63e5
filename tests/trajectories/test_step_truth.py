"""The truth about steps: by row number, by trajectory, or by the first error that people have marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import StepTruth
from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.form_readers import NO_ERROR
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
