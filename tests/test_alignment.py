"""Alignment of questions to reference problems."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.alignment import AMBIGUOUS, NO_MATCH, align_questions, align_trajectories, question_id, shard_key
from cpmi_dagster.math_shepherd import parse_rows
from cpmi_dagster.references import read_references

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not beside the repository")

REFERENCES = pl.DataFrame(
    {
        "source": ["math"] * 8,
        "split": ["train"] * 8,
        "problem_id": [str(number) for number in range(8)],
        "question": [
            r"Find $\frac{1}{2} + x$ if $x = 3$.",
            "How many red pens does Ann have if she buys 3 pens and 12 pads of the same colour?",
            "Same text, two answers",
            "Same text, two answers",
            "What is $3-x$ when $x=10$?",
            "A particle moves at $(2t, 4t)$. Find the speed, measured in unit of distance per unit of time.",
            "What is nothing?",
            r"What is $\frac{1}{3}$ of one? [asy] draw(1); [/asy]",
        ],
        "answer": ["3.5", "4", "1", "2", "-7", r"2\sqrt{5}", "", r"\frac{1}{3}"],
    }
)


def align(*questions: str) -> list[tuple]:
    return align_questions(pl.DataFrame({"question": questions}), REFERENCES).rows()


@pytest.mark.parametrize(
    ("question", "row", "kind"),
    [
        (r"Find $\frac{1}{2} + x$ if $x = 3$.", 0, "exact"),
        ("Find  $\\frac{1}{2}\u00a0+ x$ if\n$x = 3$.", 0, "whitespace"),
        (r"Find $\dfrac12+\,x$ if $x=3$", 0, "normalized"),
        (r"find \(\frac{1}{2}+x\) if \(x=3\).", 0, "normalized"),
        (r"What is $\tfrac13$ of one?", 7, "normalized"),
        (REFERENCES["question"][5].replace("unit of distance", "units of distance"), 5, "fuzzy"),
        (r"Find $\frac{1}{2} - x$ if $x = 3$.", None, None),
        (r"Find $\frac{1}{2} + x$ if $x = 4$.", None, None),
        (REFERENCES["question"][1].replace("red", "blue"), None, None),
        (REFERENCES["question"][1].replace("3 pens and 12 pads", "12 pens and 3 pads"), None, None),
        (REFERENCES["question"][1].replace("pens", "pins"), None, None),
        ("What is $3x$ when $x=10$?", None, None),
        ("Same text, two answers", None, None),
        ("Same  text, two answers", None, None),
        ("", None, None),
    ],
)
def test_a_question_matches_only_its_own_problem(question: str, row: int | None, kind: str | None):
    ((found, found_kind, score),) = align(question)
    assert (found, found_kind) == (row, kind)
    assert score == (None if row is None else pytest.approx(1.0, abs=0.15))


def test_rows_come_back_in_order_however_often_a_question_repeats():
    rows = align("What is $3-x$ when $x=10$?", "unknown", "What is $3-x$ when $x=10$?")
    assert [row for row, _, _ in rows] == [4, None, 4]


def parsed_rows(*questions: str) -> pl.DataFrame:
    texts = [f"{question} Step 1: So. The answer is: 7 ки" for question in questions]
    return parse_rows(
        pl.DataFrame(
            {
                "row_number": range(10, 10 + len(texts)),
                "input": texts,
                "label": [text.replace("ки", "+") for text in texts],
                "task": ["MATH"] * len(texts),
            }
        )
    )[0]


def test_every_parsed_row_is_aligned_or_rejected_with_its_reason():
    parsed = parsed_rows("What is $3-x$ when $x=10$?", "Who?", "What is nothing?", "Same text, two answers")
    trajectories, rejected = align_trajectories(parsed, REFERENCES)
    assert trajectories["trajectory_id"].to_list() == ["t000000010"]
    assert trajectories["gold_answer"].to_list() == ["-7"]
    assert trajectories["match_source"].to_list() == ["math/train/4"]
    assert rejected.select("row_number", "stage", "reason").rows() == [
        (11, "align", NO_MATCH),
        (12, "answer", "the reference problem math/train/6 has an empty gold answer"),
        (13, "align", AMBIGUOUS),
    ]


def test_alignment_of_nothing_is_nothing():
    trajectories, rejected = align_trajectories(parsed_rows("Who?").clear(), REFERENCES)
    assert trajectories.is_empty() and rejected.is_empty()


def test_whitespace_does_not_change_a_question_id():
    assert question_id("How many  hats?") == question_id(" How many\nhats?") != question_id("How many cats?")


@given(question=st.text(), shards=st.integers(1, 99))
def test_a_shard_is_one_of_the_partitions(question: str, shards: int):
    assert shard_key(question_id(question), shards) in {f"{shard:03d}" for shard in range(shards)}


@given(question=st.text(alphabet=r"ab1 \{}$^_'.,()-[]frcsqt", max_size=40))
def test_no_question_breaks_alignment(question: str):
    assert len(align(question)) == 1


@needs_data
def test_the_first_hundred_rows_all_align_to_gsm8k():
    lines = (DATA / "math_shepherd" / "first100_raw_reconstructed.jsonl").read_text(encoding="utf-8").splitlines()
    rows = pl.DataFrame([json.loads(line) for line in lines]).with_row_index("row_number")
    with gzip.open(DATA / "gsm8k" / "train.jsonl.gz", "rt", encoding="utf-8") as stream:
        references = read_references(pl.DataFrame([json.loads(line) for line in stream]), "gsm8k", "train")
    parsed, unparsed = parse_rows(rows)
    trajectories, rejected = align_trajectories(parsed, references)
    assert (trajectories.height, unparsed.height, rejected.height) == (100, 0, 0)
    assert trajectories["match_source"].str.starts_with("gsm8k/train/").all()
