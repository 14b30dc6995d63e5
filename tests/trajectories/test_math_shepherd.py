"""Parsing of Math-Shepherd rows: real rows, the corpus's irregularities, and the round trip."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.trajectories.math_shepherd import Trajectory, parse_row, render_row
from cpmi_dagster.trajectories.rows import number_rows, separate_defects, separate_duplicates

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "math_shepherd"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not beside the repository")

QUESTION = "Ann has 3 hats and buys 2. How many has she?"
ROW = QUESTION + " Step 1: 3 + 2 = <<3+2=5>>5 hats. {}\nStep 2: Done. The answer is: 5 {}"
INPUT, LABEL = ROW.format("ки", "ки"), ROW.format("+", "-")


def rendered(trajectory: Trajectory) -> tuple[str, str]:
    assert trajectory.shepherd_labels is not None
    return render_row(trajectory.question, trajectory.steps, trajectory.shepherd_labels)


def read_rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def test_a_regular_row_is_split_into_question_steps_and_labels():
    trajectory = parse_row(INPUT, LABEL)
    assert trajectory.question == QUESTION
    assert trajectory.steps == ("3 + 2 = <<3+2=5>>5 hats.", "Done. The answer is: 5")
    assert trajectory.shepherd_labels == (True, False)
    assert trajectory.final_answer == "5"


@needs_data
def test_the_first_hundred_rows_split_as_published():
    golden = read_rows("first100_split_by_step.jsonl")
    rows = read_rows("first100_raw_reconstructed.jsonl")
    assert len(rows) == len(golden) == 100
    for row, expected in zip(rows, golden, strict=True):
        trajectory = parse_row(row["input"], row["label"])
        steps = list(expected["solution"].values())
        assert trajectory.question == expected["questions"].strip()
        assert trajectory.steps == tuple(step["content"] for step in steps)
        assert trajectory.shepherd_labels == tuple(step["label"] == 1 for step in steps)
        assert rendered(trajectory) == (row["input"], row["label"])


@needs_data
@pytest.mark.parametrize("name", ["raw_first7.jsonl", "value_form_3.jsonl"])
def test_other_published_rows_come_back_unchanged(name: str):
    for row in read_rows(name):
        trajectory = parse_row(row["input"], row["label"], row.get("value"))
        assert rendered(trajectory) == (row["input"], row["label"])


@pytest.mark.parametrize(
    ("text", "marks", "question", "steps"),
    [
        # a marker inside the question belongs to it, and one directly behind it is no step
        ("Round to the ки\nhundredth: 1/3? Step 1: 0.33. ки", "-+", "Round to the \nhundredth: 1/3?", ["0.33."]),
        ("What is 1+1? ки\nStep 1: 2 ки", "+-", "What is 1+1?", ["2"]),
        ("What? step 1: one ки\nstep 2: two ки", "++", "What?", ["one", "two"]),
        # without a header the question ends at its last question mark
        ("Who? What is $x?$ It is 3. ки\nSo 3. ки", "+-", "Who? What is $x?$", ["It is 3.", "So 3."]),
    ],
)
def test_irregular_rows_are_understood(text: str, marks: str, question: str, steps: list[str]):
    segments = text.split("ки")
    label = segments[0] + "".join(mark + segment for mark, segment in zip(marks, segments[1:], strict=True))
    trajectory = parse_row(text, label)
    assert (trajectory.question, list(trajectory.steps)) == (question, steps)
    assert trajectory.shepherd_labels == tuple(mark == "+" for mark in marks[-len(steps) :])


def test_the_older_form_keeps_the_marker_before_the_label():
    text = "What is 50+2? Step 1: 50+2=52. ки\n#### 52 ки"
    trajectory = parse_row(text, text.replace("ки", "ки +"))
    assert (trajectory.shepherd_labels, trajectory.final_answer) == ((True, True), "52")


@pytest.mark.parametrize("label", ["", INPUT])
def test_a_value_list_stands_in_for_inline_labels(label: str):
    trajectory = parse_row(INPUT, label, ["+", "-"])
    assert trajectory.shepherd_labels == (True, False)
    assert rendered(trajectory) == (INPUT, LABEL)


@pytest.mark.parametrize(
    ("text", "label", "value", "reason"),
    [
        ("What is it? Step 1: two", "What is it? Step 1: two", None, "no step"),
        ("Step 1: two ки", "Step 1: two +", None, "empty question"),
        ("What? Step 1: ки", "What? Step 1: +", None, "step 1 of 1 is empty"),
        ("What? Step 1: a ки\nand so on", "What? Step 1: a +\nand so on", None, "after the last"),
        ("No question here ки", "No question here +", None, "no `Step 1:` header"),
        (INPUT, LABEL.replace(" +", "", 1), None, "marker 1 of 2"),
        (INPUT, LABEL + " more", None, "continues after"),
        (INPUT, LABEL.replace("Done", "Gone"), None, "disagree before marker 2 of 2"),
        (INPUT, INPUT, None, "2 steps but 0 labels"),
        (INPUT, LABEL, ["+", "+"], "differ"),
        (INPUT, "", ["+"], "2 steps but 1 labels in the list of labels"),
        (INPUT, "", ["+", "?"], "neither"),
        ("", "", None, "no step"),
        ("What? Step 1: a " + "ки" * 10_001, "", None, "10,001 markers; a row may have at most 10,000 steps"),
    ],
)
def test_a_malformed_row_says_what_is_wrong(text: str, label: str, value: list[str] | None, reason: str):
    with pytest.raises(MalformedRow, match=reason):
        parse_row(text, label, value)


plain = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="ки?:"), max_size=30)
words = plain.filter(lambda text: text.strip() and text.strip("\u200b\u200c\u200d\u2060\ufeff \t\r\n"))


@settings(max_examples=50, deadline=None)
@given(question=words, steps=st.lists(st.tuples(words, st.booleans()), min_size=1, max_size=6))
def test_render_then_parse_is_the_identity(question: str, steps: list[tuple[str, bool]]):
    texts, labels = [f"{text} x".strip() for text, _ in steps], tuple(label for _, label in steps)
    trajectory = parse_row(*render_row(f"{question} x?".strip(), texts, labels))
    again = parse_row(*rendered(trajectory))
    assert again == trajectory
    assert len(trajectory.steps) == len(texts) and trajectory.shepherd_labels == labels


pieces = st.lists(
    st.sampled_from(["ки", " +", "-", "Step 1:", "step 2:", "?", "\n", " ", "\u00a0", "\u200b", "\ud800", "ки +", "a"])
    | st.text(max_size=5),
    max_size=12,
).map("".join)


@settings(max_examples=150, deadline=None)
@given(text=pieces, label=pieces, value=st.none() | st.lists(st.sampled_from(["+", "-", "x"]), max_size=3))
def test_no_text_breaks_the_parser(text: str, label: str, value: list[str] | None):
    try:
        trajectory = parse_row(text, label, value)
    except MalformedRow as error:
        assert str(error)
    else:
        assert len(trajectory.steps) == len(trajectory.shepherd_labels or ())


def number(*texts: tuple[str, str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = [{"input": text, "label": label, "task": "GSM8K"} for text, label in texts]
    return separate_defects(number_rows(rows, first=0, shards=1))


def test_every_row_is_parsed_or_rejected_never_both():
    parsed, rejected = number((INPUT, LABEL), ("", ""), (INPUT, "?"))
    assert parsed["row_number"].to_list() == [0]
    assert rejected.select("row_number", "stage").rows() == [(1, "read"), (2, "read")]
    nothing, _ = number(("", ""))
    assert parsed.schema == nothing.schema


def test_the_same_text_in_other_steps_is_no_duplicate():
    rows = [{"question": "Why?", "steps": steps} for steps in (["a\nb", "c"], ["a", "b", "c"])]
    kept, rejected = separate_duplicates(number_rows(rows, first=0, shards=1))
    assert (kept.height, rejected.height) == (2, 0)


def test_of_the_same_trajectories_the_first_is_kept():
    rows, _ = number((INPUT, LABEL), (INPUT + " ", LABEL + " "), (INPUT.replace("3", "4"), LABEL.replace("3", "4")))
    kept, rejected = separate_duplicates(rows)
    assert kept["row_number"].to_list() == [0, 2]
    assert rejected.select("row_number", "stage", "reason").rows() == [
        (1, "duplicate", "the same question and steps as row 1")
    ]
