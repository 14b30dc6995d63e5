"""The truth about steps: by id, row or text, and tolerant: what fits no solution is left out with its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import RejectedTruth, StepTruth
from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.fields import NO_ERROR
from cpmi_dagster.trajectories.given_rows import table_rows
from cpmi_dagster.trajectories.question_key import text_hash
from cpmi_dagster.trajectories.rows import RowFormat, Unreadable, number_rows
from cpmi_dagster.trajectories.step_truth import read_judgements
from cpmi_dagster.trajectories.truth_fitting import FittedTruth, fit_judgements

STEPS = ["2 + 3 = 5.", "5 + 1 = 7.", "So 7."]
THOUGHT = "<think>\nI add 2 and 3.\n\nThat is 5.\n\nPlus 1 is 7.\n</think>\n\nThe answer is: 7"
SOURCE = [
    {"id": "a7", "question": "2 + 3 + 1?", "steps": STEPS},
    {"id": 7, "question": "1 + 1?", "steps": ["It is 3."]},
    {"id": "broken", "question": "1 + 2?", "steps": []},
    {"id": "thought", "prompt": "2 + 3 + 1?", "completion": THOUGHT},
    {"id": "again", "question": "1 + 1?", "steps": ["It is 3."]},
    {"id": "a7", "question": "7?", "steps": ["7."]},
]


def fit(rows, source=SOURCE, **options) -> FittedTruth:
    """Rows of `sources.step_truth` fitted to those of a source, as a run does."""
    read = read_judgements((row, RowFormat()) for row in rows)
    fitted = fit_judgements(read, [number_rows(source, 0, 1)], **options)
    StepTruth.validate(fitted.truth)
    RejectedTruth.validate(fitted.rejected)
    return fitted


def correct(*rows, source=SOURCE) -> dict[int, list[bool | None]]:
    """By row, the truth of rows that all fit."""
    fitted = fit(rows, source)
    assert fitted.rejected.is_empty(), fitted.notes
    return dict(fitted.truth.select("row_number", "correct").iter_rows())


def reason(*rows) -> str:
    """Why the first of some rows is left out, beside one that fits."""
    return fit([*rows, {"id": 7, "first_error": 0}]).rejected["reason"][0]


@pytest.mark.parametrize(
    ("row", "number", "expected"),
    [
        ({"id": "a7", "first_error": 1}, 0, [True, False, None]),
        ({"id": "a7", "first_error": -1}, 0, [True, True, True]),
        ({"id": "a7", "first_error": "0"}, 0, [False, None, None]),
        ({"id": "a7", "first_error": 2.0, "correct": [1, True, "-"]}, 0, [True, True, False]),
        ({"id": "a7", "first_error": 2, "correct": [None, None, False]}, 0, [True, True, False]),
        ({"id": "a7", "first_error": -1, "correct": [None, None, None]}, 0, [True, True, True]),
        ({"id": "a7", "correct": [True, None, float("nan")]}, 0, [True, None, None]),
        ({"id": "a7", "correct": "[true, null, false]"}, 0, [True, None, False]),
        ({"id": "7", "correct": [False]}, 1, [False]),
        ({"id": 7, "correct": [False]}, 1, [False]),
        ({"id": 7.0, "correct": [False]}, 1, [False]),
        ({"row_number": 0, "first_error": 0}, 0, [False, None, None]),
        ({"trajectory_id": "t000000000", "first_error": 0}, 0, [False, None, None]),
        ({"trajectory_id": "t000000000", "rewards": [0.9, 0.0, 1.0], "judged": [2, 1]}, 0, [None, False, True]),
        ({"question": "2 + 3 + 1?", "steps": STEPS, "first_error": 1}, 0, [True, False, None]),
        ({"id": "elsewhere", "problem": "2 + 3 + 1?", "steps": STEPS, "label": 1}, 0, [True, False, None]),
        ({"id": "a7", "problem": "1 + 1?", "steps": ["It is 3."], "label": 0}, 1, [False]),
        ({"id": "again", "first_error": 0}, 1, [False]),
    ],
)
def test_a_row_names_its_solution_by_id_by_row_or_by_question_and_steps(row, number, expected):
    assert correct(row) == {number: expected}


@given(st.integers(1, 9).flatmap(lambda size: st.tuples(st.just(size), st.integers(NO_ERROR, size - 1))))
def test_people_judge_every_step_up_to_the_first_error_and_none_after_it(case):
    size, label = case
    row = {"problem": "2 + 3?", "steps": ["a"] * size, "label": label}
    expected = [None if NO_ERROR < label < step else step != label for step in range(size)]
    assert correct(row, source=[row]) == {0: expected}


def test_a_file_of_judged_solutions_is_its_own_truth_and_prm800k_has_ratings():
    step = {"completions": [{"text": "bad", "rating": -1}, {"text": "fine", "rating": 0}], "chosen_completion": 1}
    last = {"completions": [{"text": "wrong", "rating": -1}], "chosen_completion": None}
    judged = [
        {"problem": "2?", "steps": ["2", "3"], "label": 1},
        {"question": {"problem": "2 + 3?"}, "label": {"steps": [step, last]}},
        {"modified_question": "4?", "modified_process": ["4", "5", "4"], "error_steps": [2]},
    ]
    unjudged = {"question": "5?", "steps": ["5"]}
    fitted = fit([*judged, unjudged], [*judged, unjudged])
    assert fitted.truth["correct"].to_list() == [[True, False], [True, False], [True, False, True]]
    assert (fitted.fitting, fitted.unjudged) == (3, 1) and "1 row of sources.step_truth judges no step" in fitted.notes


def test_numbers_of_numpy_and_nulls_of_pandas_are_read_as_plain_ones():
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    table = pd.DataFrame({"id": ["a7", np.int64(7), "thought"], "first_error": [np.int64(1), 0, None]})
    fitted = fit(table_rows(table))
    assert fitted.truth["correct"].to_list() == [[True, False, None], [False]]
    assert fitted.unjudged == 1, "null is nobody's judgement, as `cpmi judge` writes it; -1 is no error"


CUT = ["<think>I add 2 and 3. That is 5.", "Plus 1 is 7.</think>", "The answer is: 7"]


@pytest.mark.parametrize(
    ("steps", "first_error", "expected"),
    [
        (CUT, 1, [True, True, False, None]),
        (CUT, -1, [True, True, True, True]),
        (["I add 2 and 3.", "That is 5. Plus 1 is 7. The answer is: 7"], -1, [True] * 4),
        (["Step 1: I add 2 and", "3. That"], -1, [True, None, None, None]),
        (["That is 5.", "Plus 1", "is 7."], 2, [None, True, False, None]),
    ],
)
def test_steps_of_a_thought_that_are_cut_elsewhere_are_found_by_their_text(steps, first_error, expected):
    assert correct({"id": "thought", "steps": steps, "first_error": first_error}) == {3: expected}
    assert correct({"question": "2 + 3 + 1?", "steps": steps, "first_error": first_error}) == {3: expected}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": "a8", "first_error": 0}, 'no trajectory has the id "a8"'),
        ({"id": True, "first_error": 0}, "`id`: it must be text or a whole number"),
        ({"id": " ", "first_error": 0}, "it names no solution; give its `id`"),
        ({"first_error": 0}, "it names no solution; give its `id`"),
        ({"row_number": 10**30, "correct": [True]}, f"the trajectories have no row {10**30} (from 0)"),
        ({"id": "a7", "row_number": 1, "first_error": 0}, 'it names row 1 (from 0) and the id "a7", which is row 0'),
        ({"row_number": -1, "correct": [True]}, "the trajectories have no row -1 (from 0)"),
        ({"trajectory_id": "a7", "correct": [True]}, "`trajectory_id`: 'a7' is none of ours"),
        ({"id": "a7"}, "it says of no step whether it is right; give `first_error`"),
        ({"id": "a7", "first_error": 3}, "`first_error` is step 3 (from 0) of 3 steps"),
        ({"id": "a7", "first_error": -2}, "`first_error`: it must be a whole number from -1"),
        ({"id": "a7", "first_error": True}, "`first_error`: it must be a whole number from -1"),
        ({"id": "a7", "first_error": 0.5}, "`first_error`: it must be a whole number from -1"),
        ({"id": "a7", "correct": [True, False]}, "2 judgements of 3 steps; give its `steps` beside them"),
        ({"id": "a7", "correct": [True, False], "steps": STEPS}, "2 judgements of 3 steps"),
        ({"id": "a7", "correct": [0.9, 0.1, 0.5]}, "`correct.0`: a label is true, false"),
        ({"id": "a7", "correct": True}, "`correct`: it must be a list"),
        ({"id": "a7", "correct": [True] * 3, "first_error": 1}, "the first wrong step of `correct` is -1"),
        ({"id": "a7", "first_error": 0, "steps": ["2 + 3 = 6."]}, "its `steps` are not the text of the solution"),
        ({"id": "a7", "first_error": 0, "steps": ["So", ""]}, "`steps.1`: it is empty"),
        ({"problem": "2 + 3?", "steps": ["5"], "label": 1}, "`label` is step 1 (from 0) of 1 steps"),
        ({"problem": "2 + 3?", "steps": ["5"], "label": 0}, "no trajectory has its question and steps"),
        ({"id": "x", "problem": "2?", "steps": ["5"], "label": 0}, 'the id "x", and none has its question and steps'),
        ({"id": "thought", "first_error": 0, "steps": ["I add 2 and 3. That is 5."]}, "steps 0 to 1 of the solution"),
        ({"id": "broken", "first_error": 0}, "row 3 of the trajectories cannot be read: `steps`: it is empty"),
        ({"trajectory_id": "t000000000", "rewards": [0.4], "judged": [0]}, "`judged` names step 0 (from 0), where"),
        (Unreadable("{", "not JSON", "line 1"), "not JSON"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_fit_is_left_out_with_its_reason_and_stops_no_other(row, words):
    assert words in reason(row)


def test_rows_that_contradict_each_other_are_both_left_out_and_those_that_agree_are_one():
    fitted = fit([{"id": "a7", "first_error": 1}, {"id": "a7", "first_error": 2}, {"id": 7, "first_error": 0}])
    assert fitted.rejected.select("row_number", "source_id", "reason").rows() == [
        (0, "a7", "rows 1 and 2 contradict each other on a step of one solution; correct or remove one"),
        (1, "a7", "rows 1 and 2 contradict each other on a step of one solution; correct or remove one"),
    ]
    assert fitted.notes[0].startswith("1 of 3 judged rows of sources.step_truth fit; row 1: rows 1 and 2 contradict")
    assert correct({"id": "a7", "correct": [True, None, None]}, {"row_number": 0, "first_error": 1}) == {
        0: [True, False, None]
    }


def test_a_judgement_with_the_hash_of_its_text_follows_it_to_another_row_and_is_left_out_if_it_is_gone():
    judged = {
        "trajectory_id": "t000000000",
        "text_hash": text_hash("2 + 3 + 1?", STEPS),
        "correct": [True, False, None],
    }
    assert correct(judged) == {0: [True, False, None]}
    moved = [{"question": "first?", "steps": ["So 1.", "So 2.", "So 3."]}, *SOURCE]
    assert correct(judged, source=moved) == {1: [True, False, None]}
    assert correct({**judged, "text_hash": None}, source=moved) == {0: [True, False, None]}, "written by hand"
    twice = [{"question": " 2 + 3 + 1?\n", "steps": STEPS, "gold_answer": gold} for gold in (6, 7)]
    for source in (SOURCE[1:], [moved[0], *twice]):
        left_out = fit(
            [judged, {"question": source[0]["question"], "steps": source[0]["steps"], "first_error": 0}], source
        )
        assert left_out.rejected["reason"].to_list() == [
            "its `text_hash` is not that of row 0 (from 0): the trajectories have changed; judge the solution again"
        ]
    assert "`text_hash`: it must be text" in reason({**judged, "text_hash": 7})


def test_what_a_reward_model_says_is_no_judgement():
    assert "no person's judgement" in reason({"id": "a7", "first_error": 1, "probabilities": [0.9, 0.1, 0.5]})


def test_the_kind_of_error_and_what_remains_are_kept():
    said = {"row_number": 0, "correct": [True, False, None], "kind": [None, "sum", None], "operations_left": [1, 0, 0]}
    assert fit([said]).truth.to_dicts() == [said]
    assert "`kind` has 1 entries for the 3 steps" in reason({**said, "kind": ["sum"]})


def test_if_no_row_fits_it_is_said_what_was_looked_for_and_ids_of_both_are_shown():
    with pytest.raises(SourceError) as error:
        fit([{"id": "gsm-1", "first_error": 0}, {"id": "gsm-2", "first_error": 0}])
    assert str(error.value) == (
        'sources.step_truth: of 2 rows, none fits a trajectory; row 1: no trajectory has the id "gsm-1"; '
        'the trajectories have ids such as "a7"'
    )
    assert fit([{"id": "gsm-1", "first_error": 0}], is_part=True).rejected.height == 1, "a pilot has not all of them"
    with pytest.raises(SourceError, match="of 2 rows, none says which steps are right"):
        fit([{"question": "2 + 3?", "steps": ["5"], "labels": [1]}] * 2)
    assert fit([]).truth.schema == StepTruth.create_empty().schema, "an empty file says nothing"
