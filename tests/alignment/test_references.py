"""Reference problems: fields of both sources, and the gold answer of every real problem."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from cpmi_dagster.alignment import join_references, read_references
from cpmi_dagster.errors import SourceError

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not beside the repository")


def test_a_gsm8k_answer_stands_behind_the_hashes_without_thousands_commas():
    rows = [{"question": "How many?", "answer": "800*2=<<800*2=1600>>1,600.\n#### 1,600"}]
    problem = read_references(rows, "gsm8k", "train").row(0, named=True)
    assert (problem["answer"], problem["problem_id"], problem["source"]) == ("1600", "0", "gsm8k")
    assert problem["level"] is None


def test_a_math_answer_is_the_last_box_with_its_braces():
    row = {
        "id": "train/algebra/1", "problem": "What?", "level": "Level 3", "type": "Algebra",
        "solution": r"First $\boxed{1}$, no: $\boxed{\frac{1}{\sqrt{2}}}$.",
    }  # fmt: skip
    problem = read_references([row], "math", "train").row(0, named=True)
    assert problem["answer"] == r"\frac{1}{\sqrt{2}}"
    empty = {"problem": "What?", "solution": r"Nothing: $\boxed{}$."}
    assert read_references([empty], "math", "train")["answer"].to_list() == [""]
    assert (problem["problem_id"], problem["level"], problem["subject"]) == ("train/algebra/1", "Level 3", "Algebra")


def test_rows_without_id_are_named_by_the_part_of_the_source_they_stand_in():
    rows = [{"problem": "What?", "solution": r"$\boxed{1}$"}]
    problems = [read_references(rows, "math", "train", config) for config in (None, "algebra", "geometry")]
    assert pl.concat(problems)["problem_id"].to_list() == ["0", "algebra/0", "geometry/0"]


@pytest.mark.parametrize(
    ("row", "solution", "answer"),
    [
        ({"question": "How many?", "solution": "Count. #### 7", "answer": "8 hats"}, "Count. #### 7", "8 hats"),
        ({"problem": "How many?", "solution": r"So $\boxed{7}$."}, r"So $\boxed{7}$.", "7"),
        ({"problem": "How many?", "solution": "Count.\nThe answer is: 7"}, "Count.\nThe answer is: 7", "7"),
        ({"question": "How many?", "answer": "Count.\n#### 1,600"}, "Count.\n#### 1,600", "1,600"),
        ({"question": "How many?", "answer": "seven hats"}, "seven hats", "seven hats"),
        ({"question": "How many?", "answer": "Count.\nSeven."}, "Count.\nSeven.", ""),
        ({"question": "How many?", "answer": 7.0}, "7", "7"),
        ({"question": "How many?", "answer": 2.5, "solution": "Count."}, "Count.", "2.5"),
        ({"question": "How many?", "answer": "$x < 3$ or $x > 5$"}, "$x < 3$ or $x > 5$", "$x < 3$ or $x > 5$"),
        ({"question": "How many?", "answer": "There are 7."}, "There are 7.", "There are 7"),
        ({"question": "How many?", "answer": r"It is $\boxed{7}$."}, r"It is $\boxed{7}$.", "7"),
        ({"question": "How many?", "answer": "Count.\nThere are 7."}, "Count.\nThere are 7.", "7"),
        ({"question": "How many?", "answer": " "}, "", ""),
        ({"question": "How many?", "answer": "", "solution": "There are 7."}, "There are 7.", "7"),
        ({"question": "How many?", "answer": "\ud800"}, "\ufffd", "\ufffd"),
        ({"question": "How many?", "answer": None, "solution": "Just look."}, "Just look.", ""),
    ],
)
def test_the_answer_of_any_other_set_is_its_own_or_that_of_its_solution(row: dict, solution: str, answer: str):
    problem = read_references([row], "my_set", "test").row(0, named=True)
    assert (problem["question"], problem["solution"], problem["answer"]) == ("How many?", solution, answer)
    assert (problem["source"], problem["split"], problem["problem_id"]) == ("my_set", "test", "0")


@pytest.mark.parametrize(
    ("row", "source", "message"),
    [
        ({"question": "a"}, "gsm8k", "row 1 of gsm8k/train has no text in `answer`"),
        ({"answer": "#### 2"}, "gsm8k", "row 1 of gsm8k/train has no text in `question`"),
        ({"answer": "7"}, "my_set", "row 1 of my_set/train has no text in `question` or `problem`"),
        ({"question": "a"}, "my_set", "row 1 of my_set/train has no text in `answer` or `solution`"),
        *(
            (
                {"question": "b", "answer": answer, "solution": "So 7."},
                "my_set",
                "row 1 .* (an answer of the wrong kind|stands for a missing value)",
            )
            for answer in (True, ["7"], float("nan"))
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_named(row: dict, source: str, message: str):
    with pytest.raises(SourceError, match=message):
        read_references([{"question": "a", "answer": "#### 7"}, row], source, "train")


def test_two_problems_with_one_id_are_refused():
    rows = [{"question": "a", "answer": "1"}, {"question": "b", "answer": "2"}]
    train, test = (read_references(rows, "my_set", split) for split in ("train", "test"))
    assert join_references([train, test]).height == 4
    assert join_references([read_references([], "math", "train")]).is_empty()
    with pytest.raises(SourceError, match="two problems of my_set/test have the id `0`; give the rows an `id`"):
        join_references([train, test, test])


@needs_data
def test_every_math500_answer_is_the_official_one():
    lines = (DATA / "math500" / "test.even.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert read_references(rows, "math", "test")["answer"].to_list() == [row["answer"] for row in rows]
    assert len(rows) == 250


@needs_data
def test_two_math_train_problems_have_no_answer():
    with gzip.open(DATA / "math" / "train.jsonl.gz", "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    problems = read_references(rows, "math", "train")
    empty = problems.filter(pl.col("answer") == "")["problem_id"].to_list()
    assert empty == ["train/number_theory/7115", "train/number_theory/7117"]
    assert problems["answer"].to_list() == [row["answer"].strip() for row in rows]
