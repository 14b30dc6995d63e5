"""Alignment of real questions: ProcessBench-MATH, PRMBench, Math-Shepherd and GSM8K against MATH and GSM8K."""

import gzip
import json
import re
from collections import defaultdict

import polars as pl
import pytest
from small_run import SHARED_DATA

from cpmi_dagster.alignment import ReferenceIndex, align_trajectories, read_references
from cpmi_dagster.trajectories.rows import number_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository"),
]


def rows_of(name: str) -> list[dict]:
    path = SHARED_DATA / name
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    return [json.loads(line) for line in content.splitlines()]


def without_blanks(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.fixture(scope="module")
def math_index() -> ReferenceIndex:
    rows = rows_of("math/train.jsonl.gz") + rows_of("math/test_without_math500_odd.jsonl.gz")
    return ReferenceIndex(pl.DataFrame([{"question": row["problem"], "answer": row["answer"]} for row in rows]))


@pytest.mark.parametrize(
    ("file", "field", "in_math"),
    [
        ("processbench/math.even.jsonl.gz", "problem", 477),
        ("prmbench/prmtest_classified.even.jsonl.gz", "question", 2307),
    ],
)
def test_exactly_the_questions_that_are_in_math_match(math_index: ReferenceIndex, file: str, field: str, in_math: int):
    rows_by_text: dict[str, set[int]] = defaultdict(set)
    for row, question in enumerate(math_index.references["question"]):
        rows_by_text[without_blanks(question)].add(row)
    questions = [row[field] for row in rows_of(file)]
    found = [math_index.find(question).row for question in questions]
    assert sum(row is not None for row in found) == in_math
    for question, row in zip(questions, found, strict=True):
        truth = rows_by_text.get(without_blanks(question), set())
        assert row in truth if truth else row is None


def test_the_first_hundred_rows_of_math_shepherd_all_align():
    gsm8k_index = ReferenceIndex(read_references(rows_of("gsm8k/train.jsonl.gz"), "gsm8k", "train"))
    parsed = number_rows(rows_of("math_shepherd/first100_raw_reconstructed.jsonl"), first=0, shards=1)
    trajectories, rejected = align_trajectories(parsed, gsm8k_index)
    assert (trajectories.height, rejected.height) == (100, 0)
    assert trajectories["match_source"].str.starts_with("gsm8k/train/").all()
