"""What a reading of the doors found: each row of a user is read as it is meant, or refused by itself."""

import datasets
import polars as pl
import pytest

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.prm.rl_rewards import RewardFunction
from cpmi_dagster.rewards.labelled_rows import add_labels
from cpmi_dagster.trajectories.given_rows import beside, give_back, read_table
from cpmi_dagster.trajectories.rows import separate_duplicates

WHICH = {"question": "Which?", "solution": "The answer is: B"}


def read(row: dict) -> dict:
    return read_table([row]).trajectories.row(0, named=True)


@pytest.mark.parametrize(
    ("fields", "gold"),
    [
        ({"choices": {"text": ["w", "x", "y"], "label": ["1", "2", "3"]}, "gold_answer": "2"}, "B"),
        ({"options": {"1": "w", "2": "x", "3": "y"}, "gold_answer": 2}, "B"),
        ({"choices": '{"text": ["w", "x", "y"], "label": ["A", "B", "C"]}', "gold_answer": 1}, "B"),
        ({"choices": ["a cat", "a dog"], "answer": 1, "solution": "The answer is: a dog"}, "a dog"),
        ({"choices": ["b^2", "a^2"], "answer": 1, "solution": "The answer is: $a^2$"}, "a^2"),
        ({"choices": ["b^2", "a^2"], "answer": 1, "solution": "The answer is: B. a^2"}, "B"),
        ({"ground_truth": "He pays 3*4 = <<3*4=12>>12 dollars.", "answer": "12"}, "12"),
    ],
)
def test_gold_answers_of_choices_are_found_by_name_and_text(fields, gold):
    assert read({**WHICH, **fields})["gold_answer"] == gold


def test_given_wrong_answers_are_read_as_the_gold_answer_is():
    row = read({**WHICH, "choices": ["2", "3", "8", "9"], "answer": 1, "negative_answers": [0, 3]})
    assert (row["gold_answer"], row["negative_answers"]) == ("B", ["A", "D"])


def test_one_cell_that_cannot_be_read_is_a_reason_of_its_row():
    numpy = {**WHICH, "choices": "['w' 'x' 'y']", "answer": 1}
    given = read_table([numpy, WHICH, {"question": "Which?", "solution": "['a' 'b']"}])
    assert given.rejected["reason"].to_list() == [
        "`choices`: a list without commas, as numpy writes it; write lists as JSON"
    ]
    assert given.trajectories["steps"].to_list() == [["The answer is: B"], ["['a' 'b']"]]


def test_classes_of_a_data_set_are_their_names():
    features = datasets.Features(
        {**{name: datasets.Value("string") for name in WHICH}, "answer": datasets.ClassLabel(names=["A", "B"])}
    )
    given = read_table(datasets.Dataset.from_list([{**WHICH, "answer": 1}], features=features))
    assert given.trajectories["gold_answer"].item() == "B"


def test_rows_with_other_wrong_answers_are_no_duplicates():
    rows = [{**WHICH, "gold_answer": "B", "negative_answers": [each]} for each in ("A", "C", "A")]
    first, repeated = separate_duplicates(read_table(rows).trajectories)
    assert (first.height, repeated["row_number"].to_list()) == (2, [2])


def test_of_equal_rows_the_first_with_a_gold_answer_is_kept():
    rows = [{**WHICH, "gold_answer": gold} for gold in (None, "B", "C")]
    kept, repeated = separate_duplicates(read_table(rows).trajectories)
    assert (kept["gold_answer"].to_list(), repeated["row_number"].to_list()) == (["B"], [0, 2])


def test_a_table_that_comes_back_keeps_steps_that_were_none():
    table = pl.DataFrame({"question": ["1 + 2?"] * 2, "steps": ["So 3.", '["So 3."]']})
    rows = [
        beside(row, steps, {"reason": None}) for row, steps in zip(table.to_dicts(), (None, ["So 3."]), strict=True)
    ]
    for given in (table, table.to_pandas()):
        back = give_back(given, rows, {"reason": pl.String})
        assert (back["input_steps"][0], back["steps"][0]) == ("So 3.", None)


def test_an_answer_announced_before_the_last_step_is_the_final_answer():
    said = {"question": "3 + 2?", "solution": "3 + 2 = 5.\n\nThe answer is: 5\n\nI checked it: there are 2 steps."}
    assert read(said)["final_answer"] == "5"
    cut_off = [
        {"role": "user", "content": "3 + 2?"},
        {"role": "assistant", "reasoning_content": "The answer is: 6", "content": ""},
    ]
    row = read({"messages": cut_off})
    assert (row["final_answer"], row["steps"]) == (None, ["The answer is: 6"])


def test_tags_are_no_part_of_a_step():
    text = "<think>\nI add.\n\n3 + 2 = 5.\n</think>\n\n<answer>The answer is: 5</answer><|im_end|>"
    row = read({"question": "3 + 2?", "solution": text})
    assert row["steps"] == ["I add.", "3 + 2 = 5.", "The answer is: 5"] and row["final_answer"] == "5"


def test_a_sign_alone_is_an_answer_and_no_verdict():
    assert read({"question": "Sign?", "solution": "The answer is: +"})["final_answer"] == "+"
    assert read({"question": "Sign?", "steps": ["2 + 2 = 4. +"]})["labels"] == [True]
    assert read({"question": "Sum?", "steps": ["<step>2+3=5</step>", "<step>So 5.</step>"]})["steps"] == [
        "2+3=5",
        "So 5.",
    ]


def test_steps_that_are_none_come_back_under_another_name():
    rows = [({"steps": "So 3.", "question": "1 + 2?"}, 0)]
    given = read_table([rows[0][0]])
    rejected = given.rejected.select("row_number", "reason")
    none = given.trajectories.select("trajectory_id", reason="question")
    labels = given.trajectories.select(
        "trajectory_id", step_index="row_number", reward_type="id", reward="row_number", soft_label="row_number"
    )
    [row] = add_labels(rows, given.trajectories, rejected, none, labels, ["cpmi"])
    assert (row["steps"], row["input_steps"]) == (None, "So 3.")


def test_a_row_without_labels_has_no_reward_of_labels_for_that_reason():
    given = read_table([WHICH])
    none = given.trajectories.clear()
    reasons, labels = (
        none.select("trajectory_id", reason="question"),
        none.select(
            "trajectory_id", step_index="row_number", reward_type="id", reward="row_number", soft_label="row_number"
        ),
    )
    rejected = given.rejected.select("row_number", "reason")
    [row] = add_labels([(WHICH, 0)], given.trajectories, rejected, reasons, labels, ["math_shepherd"])
    assert row["reason"] == "it has no math_shepherd: the row has no labels"


def test_what_can_be_read_only_once_is_refused_where_it_would_be_read_twice():
    with pytest.raises(ScoringError, match="it can be read only once"):
        read_table(row for row in [WHICH])


def test_a_completion_that_cannot_be_read_costs_no_other_completion_its_reward():
    reward = RewardFunction(
        lambda rows: ({number: [1.0] for number in range(len(rows))}, []), "cpmi", "mean", 1.0, 0.0, "answer"
    )
    tool = [
        {"role": "assistant", "content": "a"},
        {"role": "tool", "content": "b"},
        {"role": "assistant", "content": "c"},
    ]
    assert reward(["Which?"] * 2, [tool, "The answer is: C"], answer=[2, 2], choices=[["2x", "3x", "8x"]] * 2) == [
        0.0,
        1.0,
    ]
    assert reward([], [], answer=[]) == []
