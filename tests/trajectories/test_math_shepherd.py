"""Parsing of Math-Shepherd rows: real rows, the corpus's irregularities, and the round trip."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_run import SHARED_DATA

from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.math_shepherd import parse_row, render_row
from cpmi_dagster.trajectories.readers import Trajectory
from cpmi_dagster.trajectories.rows import number_rows, separate_defects, separate_duplicates

DATA = SHARED_DATA / "math_shepherd"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not beside the repository")

QUESTION = "Ann has 3 hats and buys 2. How many has she?"
ROW = QUESTION + " Step 1: 3 + 2 = <<3+2=5>>5 hats. {}\nStep 2: Done. The answer is: 5 {}"
INPUT, LABEL = ROW.format("ки", "ки"), ROW.format("+", "-")


def rendered(trajectory: Trajectory) -> tuple[str, str]:
    assert trajectory.shepherd_labels is not None
    return render_row(trajectory.question, trajectory.steps, trajectory.shepherd_labels)


def read_rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


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


@needs_data
@pytest.mark.parametrize("name", ["first100_raw_reconstructed.jsonl", "raw_first7.jsonl", "value_form_3.jsonl"])
def test_published_rows_come_back_unchanged(name: str):
    for row in read_rows(name):
        trajectory = parse_row(row["input"], row["label"], row.get("value"))
        assert rendered(trajectory) == (row["input"], row["label"])


@pytest.mark.parametrize(
    ("text", "label", "question", "steps", "labels"),
    [
        (INPUT, LABEL, QUESTION, ("3 + 2 = <<3+2=5>>5 hats.", "Done. The answer is: 5"), (True, False)),
        # the older form keeps the marker before the label
        ("50+2? Step 1: 50+2=52. ки\n#### 52 ки", "50+2? Step 1: 50+2=52. ки +\n#### 52 ки -", "50+2?",
         ("50+2=52.", "#### 52"), (True, False)),
        # a marker inside the question belongs to it, and one directly behind it is no step
        ("To the ки\nhundredth: 1/3? Step 1: 0.33. ки", "To the -\nhundredth: 1/3? Step 1: 0.33. +",
         "To the \nhundredth: 1/3?", ("0.33.",), (True,)),
        # without a header the question ends at its last question mark
        ("Who? What is $x?$ It is 3. ки\nSo 3. ки", "Who? What is $x?$ It is 3. +\nSo 3. -", "Who? What is $x?$",
         ("It is 3.", "So 3."), (True, False)),
    ],
)  # fmt: skip
def test_regular_and_irregular_rows_are_understood(text: str, label: str, question: str, steps: tuple, labels: tuple):
    trajectory = parse_row(text, label)
    assert (trajectory.question, trajectory.steps, trajectory.shepherd_labels) == (question, steps, labels)


@pytest.mark.parametrize(
    ("label", "value", "reason"),
    [
        (LABEL.replace(" +", "", 1), None, "marker 1 of 2"),
        (LABEL.replace("Done", "Gone"), None, "disagree before marker 2 of 2"),
        (LABEL, ["+", "+"], "differ"),
        ("", ["+"], "2 steps but 1 labels in the list of labels"),
    ],
)
def test_a_malformed_row_says_what_is_wrong(label: str, value: list[str] | None, reason: str):
    with pytest.raises(MalformedRow, match=reason):
        parse_row(INPUT, label, value)


plain = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="ки?:"), max_size=30)
words = plain.filter(lambda text: text.strip("\u200b\u200c\u200d\u2060\ufeff \t\r\n").strip())


@settings(max_examples=50)
@given(question=words, steps=st.lists(st.tuples(words, st.booleans()), min_size=1, max_size=6))
def test_render_then_parse_is_the_identity(question: str, steps: list[tuple[str, bool]]):
    texts, labels = [f"{text} x".strip() for text, _ in steps], tuple(label for _, label in steps)
    trajectory = parse_row(*render_row(f"{question} x?".strip(), texts, labels))
    assert parse_row(*rendered(trajectory)) == trajectory
    assert len(trajectory.steps) == len(texts) and trajectory.shepherd_labels == labels


PIECES = ["ки", " +", "-", "Step 1:", "step 2:", "?", "\n", " ", "\u00a0", "\u200b", "\ud800", "ки +", "a"]
pieces = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)


@settings(max_examples=150)
@given(text=pieces, label=pieces, value=st.none() | st.lists(st.sampled_from(["+", "-", "x"]), max_size=3))
def test_no_text_breaks_the_parser(text: str, label: str, value: list[str] | None):
    try:
        trajectory = parse_row(text, label, value)
    except MalformedRow as error:
        assert str(error)
    else:
        assert len(trajectory.steps) == len(trajectory.shepherd_labels or ())


def test_of_the_same_trajectories_the_first_is_kept_and_the_same_text_in_other_steps_is_another():
    texts = [INPUT, INPUT + " ", INPUT.replace("3", "4")]
    rows, _ = separate_defects(number_rows([{"input": text, "value": ["+", "-"]} for text in texts], 0, 1))
    kept, rejected = separate_duplicates(rows)
    assert kept["row_number"].to_list() == [0, 2]
    assert rejected.select("row_number", "stage", "reason").rows() == [
        (1, "duplicate", "the same question and steps as row 1")
    ]
    cut = [{"question": "Why?", "steps": steps} for steps in (["a\nb", "c"], ["a", "b", "c"])]
    assert separate_duplicates(number_rows(cut, first=0, shards=1))[0].height == 2
