"""Alignment of questions to reference problems, real ones of MATH and GSM8K among them.

{"question": "Find $x^2$.", "other": "Find x².", "same": true}        a line of question_pairs.jsonl, judged by hand
"""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_run import SHARED_DATA

from cpmi_dagster.alignment import (
    AMBIGUOUS,
    NO_MATCH,
    ReferenceIndex,
    align_questions,
    align_trajectories,
    read_references,
    review_alignment,
)
from cpmi_dagster.benchmarks.registry import shared_questions
from cpmi_dagster.contracts.tables import RejectedTruth
from cpmi_dagster.errors import SourceError
from cpmi_dagster.trajectories.question_key import question_id
from cpmi_dagster.trajectories.rows import number_rows, separate_defects

needs_data = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository")

PENS = "How many red pens does Ann have if she buys 3 pens and 12 pads of the same colour?"
ANSWERS = {
    r"Find $\frac{1}{2} + x$ if $x = 3$.": "3.5",
    PENS: "4",
    "Same text, two answers": "1",
    " Same text, two answers": "2",
    "What is $3-x$ when $x=10$?": "-7",
    "What is nothing?": "",
    r"What is $\frac{1}{3}$ of one? [asy] draw(1); [/asy]": r"\frac{1}{3}",
}
REFERENCES = pl.DataFrame(
    {
        "source": "math",
        "split": "train",
        "problem_id": [str(number) for number in range(len(ANSWERS))],
        "question": [question.lstrip() for question in ANSWERS],
        "answer": ANSWERS.values(),
    }
)


def align(*questions: str | None, references: pl.DataFrame = REFERENCES) -> list[tuple]:
    return align_questions(pl.DataFrame({"question": questions}), references).rows()


def matches(question: str, reference: str) -> bool:
    return align(question, references=pl.DataFrame({"question": [reference]})) != [(None, None)]


@pytest.mark.parametrize(
    ("question", "row", "kind"),
    [
        (r"Find $\frac{1}{2} + x$ if $x = 3$.", 0, "exact"),
        ("Find  $\\frac{1}{2}\u00a0+ x$ if\n$x = 3$.", 0, "whitespace"),
        (r"Find $\dfrac12+\,x$ if $x=3$", 0, "normalized"), (r"What is $\tfrac13$ of one?", 6, "normalized"),
        (r"Find $\frac{1}{2} + x$ if $x = 4$.", None, None), (PENS.replace("red", "blue"), None, None),
    ],
)  # fmt: skip
def test_a_question_matches_only_its_own_problem(question: str, row: int | None, kind: str | None):
    assert align("unknown", question, question) == [(None, None), (row, kind), (row, kind)]


def test_a_null_question_has_no_match_and_a_null_reference_is_named():
    sames = pl.DataFrame({"question": ["a b", "a b", "c", "c"], "answer": ["1", None, None, None]})
    assert align(None, "a b", "c", references=sames) == [(None, None), (None, None), (2, "exact")]
    assert align(None, references=sames) == [(None, None)] == align("a", references=sames.clear())
    for nulls in (["a", None], [None, None]):
        with pytest.raises(SourceError, match=rf"reference in row {nulls.index(None)} .* has no `question`; give"):
            align("a", references=pl.DataFrame({"question": nulls}))


def test_typesetting_does_not_hide_a_problem_and_another_is_never_taken_for_it():
    rows = map(json.loads, (Path(__file__).parent / "question_pairs.jsonl").read_text(encoding="utf-8").splitlines())
    for row in rows:
        pair = row["question"], row["other"]
        assert matches(*pair) is matches(*reversed(pair)) is row["same"], pair


def parsed_rows(*questions: str) -> pl.DataFrame:
    rows = [{"question": question, "steps": ["So."], "labels": [True], "task": "MATH"} for question in questions]
    return number_rows(rows, first=10, shards=1)


def test_every_parsed_row_is_aligned_or_rejected_with_its_reason():
    parsed = parsed_rows("What is $3-x$ when $x=10$?", "Who?", "What is nothing?", "Same text, two answers")
    trajectories, rejected = align_trajectories(parsed, ReferenceIndex(REFERENCES))
    aligned = trajectories.select("trajectory_id", "gold_answer", "match_source", "match_kind")
    assert aligned.rows() == [("t000000010", "-7", "math/train/4", "exact")]
    assert rejected.select("row_number", "stage", "reason").rows() == [
        (11, "align", NO_MATCH),
        (12, "answer", "the reference problem math/train/5 has an empty gold answer"),
        (13, "align", AMBIGUOUS),
    ]


def test_the_review_counts_rejected_rows_and_judgements_by_a_reason_without_the_values_of_a_row():
    rows = [{"question": f"{n} + 1?", "steps": ["a", "b <extra_0> c"], "gold_answer": n} for n in range(3)]
    kept, rejected = separate_defects(number_rows(rows, 0, 1))
    reasons = [
        'no trajectory has the id "a8"',
        "`first_error` is step 3 (from 0) of 3 steps",
        'no trajectory has the id "a9"',
    ]
    judged = [(place, None, reason, f"row {place}") for place, reason in enumerate(reasons)]
    judgements = pl.DataFrame(judged, RejectedTruth.create_empty().schema, orient="row")
    kept = kept.with_columns(match_kind=pl.lit("given"))
    assert "Judgements that are left out: sources.rejected_truth" not in review_alignment(kept, rejected)
    _, of_rows, of_judgements = review_alignment(kept, rejected, judgements).values()
    assert of_rows.select("reason", "rows").rows() == [
        ("step … (from 0) holds `<extra_0>`, which ends a step; make it two steps, or remove it", 3)
    ]
    assert of_judgements.rows() == [
        ("`first_error` is step … (from 0) of … steps", 1, "row 1"),
        ("no trajectory has the id …", 2, "row 0"),
    ]


def test_a_row_with_a_gold_answer_needs_no_reference():
    asked = "What is $3-x$ when $x=10$?"
    parsed = parsed_rows(asked, "Who?", asked).with_columns(
        task=pl.Series(["MATH", "", ""]),
        gold_answer=pl.Series(["8", "Ann", None]),
        source_id=pl.Series(["a7", None, "b1"]),
        split=pl.Series(["test", None, None]),
    )
    mixed, unmatched = align_trajectories(parsed, ReferenceIndex(REFERENCES))
    assert mixed.select("gold_answer", "task").rows() == [("8", "MATH"), ("Ann", "OWN"), ("-7", "MATH")]
    assert unmatched.is_empty()
    trajectories, rejected = align_trajectories(parsed, ReferenceIndex(REFERENCES.clear()))
    assert trajectories.select("task", "gold_answer", "match_source", "match_kind", "source_id").rows() == [
        ("MATH", "8", "given/test/a7", "given", "a7"),
        ("OWN", "Ann", "given/train/11", "given", None),
        ("OWN", None, "", "none", "b1"),
    ]
    assert trajectories["question_id"].to_list() == [question_id(text) for text in parsed["question"]]
    assert rejected.is_empty()


def test_trajectories_are_counted_once_however_many_problems_of_a_benchmark_share_their_question():
    def problems(*questions: str) -> pl.DataFrame:
        names = [str(number) for number in range(len(questions))]
        return pl.DataFrame({"benchmark": "math500", "problem_id": names, "question": questions})

    asked = pl.DataFrame({"question_id": ["0", "0", "1"], "question": ["What is $2+2$?"] * 2 + ["What is 3?"]})
    found = shared_questions(asked, problems("What is 2 + 2?", "What is $2 + 2$?", "What is 5?"))
    assert found.rows() == [("math500", 2, 2, "What is 2 + 2?", False)]
    # the same words under another drawing are another question
    drawn = asked.with_columns(question=pl.lit("Find $x$. [asy]draw(A);[/asy]"))
    assert shared_questions(drawn, problems("Find $x$. [asy]draw(B);[/asy]")).is_empty()


WORDS = ["Find", "hats", r"$\frac{1}{2}$", "3", "-", "+", "<", "x", "if", "Ann", "12", "=", "(", ")", "."]
# a sign before the first word is the mark of a list
SENTENCES = (
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=12)
    .map(" ".join)
    .filter(lambda text: any(map(str.isalnum, text)) and text[0] not in "-+")
)


@given(question=SENTENCES, place=st.integers(0, 200), other=st.sampled_from("0123456789+-<>=*/"))
def test_one_changed_digit_or_sign_never_matches(question: str, place: int, other: str):
    places = [number for number, character in enumerate(question) if character in "0123456789+-<>=*/"]
    if places:
        at = places[place % len(places)]
        changed = question[:at] + other + question[at + 1 :]
        assert matches(changed, question) == (changed == question)


ASKED = {"question": "How many?"}


def test_problems_of_the_published_sets_have_their_answers_and_ids():
    rows = [{"question": "How many?", "answer": "800*2=<<800*2=1600>>1,600.\n#### 1,600"}]
    gsm8k = read_references(rows, "gsm8k", "train").row(0, named=True)
    assert (gsm8k["answer"], gsm8k["problem_id"], gsm8k["source"], gsm8k["level"]) == ("1600", "0", "gsm8k", None)
    solution = r"First $\boxed{1}$, no: $\boxed{\frac{1}{\sqrt{2}}}$."
    row = {"id": "train/algebra/1", "problem": "What?", "level": "Level 3", "type": "Algebra", "solution": solution}
    unnamed = {"problem": "What?", "solution": r"Nothing: $\boxed{}$."}
    math = read_references([row, unnamed], "math", "train", "algebra")
    assert math.select("problem_id", "answer", "level", "subject").rows() == [
        ("train/algebra/1", r"\frac{1}{\sqrt{2}}", "Level 3", "Algebra"),
        ("algebra/1", "", None, None),
    ]


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({**ASKED, "solution": "Count. #### 7", "answer": "8 hats"}, "8 hats"),
        ({"problem": "How many?", "solution": "Count.\nThe answer is: 7"}, "7"),
        ({**ASKED, "answer": "Count.\nSeven."}, ""),
        ({**ASKED, "answer": 7.0}, "7"),
        ({**ASKED, "answer": "", "solution": "There are 7."}, "7"),
    ],
)
def test_the_answer_of_any_other_set_is_its_own_or_that_of_its_solution(row: dict, answer: str):
    problem = read_references([row], "my_set", "test").row(0, named=True)
    assert (problem["question"], problem["answer"]) == ("How many?", answer)
    with pytest.raises(SourceError, match="row 1 of my_set/train has no text in `answer` or `solution`"):
        read_references([row, ASKED], "my_set", "train")


@given(order=st.permutations(range(7)), asked=st.permutations(range(7)))
def test_the_order_of_references_and_of_questions_does_not_matter(order: list[int], asked: list[int]):
    questions = [question.replace("$", " ") for question in REFERENCES["question"]]
    expected = align(*questions)
    found = align(*(questions[number] for number in asked), references=REFERENCES[order])
    translated = [(None if row is None else order[row], kind) for row, kind in found]
    assert translated == [expected[number] for number in asked]


def rows_of(name: str) -> list[dict]:
    path = SHARED_DATA / name
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    return [json.loads(line) for line in content.splitlines()]


@pytest.fixture(scope="module")
def math_index() -> ReferenceIndex:
    rows = rows_of("math/train.jsonl.gz") + rows_of("math/test_without_math500_odd.jsonl.gz")
    return ReferenceIndex(pl.DataFrame([{"question": row["problem"], "answer": row["answer"]} for row in rows]))


@needs_data
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
        rows_by_text["".join(question.split())].add(row)
    questions = [row[field] for row in rows_of(file)]
    found = [math_index.find(question).row for question in questions]
    assert sum(row is not None for row in found) == in_math
    for question, row in zip(questions, found, strict=True):
        truth = rows_by_text.get("".join(question.split()), set())
        assert row in truth if truth else row is None


@needs_data
def test_the_first_hundred_rows_of_math_shepherd_all_align():
    gsm8k_index = ReferenceIndex(read_references(rows_of("gsm8k/train.jsonl.gz"), "gsm8k", "train"))
    parsed = number_rows(rows_of("math_shepherd/first100_raw_reconstructed.jsonl"), first=0, shards=1)
    trajectories, rejected = align_trajectories(parsed, gsm8k_index)
    assert (trajectories.height, rejected.height) == (100, 0)
    assert trajectories["match_source"].str.starts_with("gsm8k/train/").all()
