"""Alignment of real questions: ProcessBench-MATH, PRMBench, Math-Shepherd and GSM8K against MATH and GSM8K."""

import gzip
import json
import random
import re
from collections import defaultdict

import polars as pl
import pytest
from small_run import SHARED_DATA

from cpmi_dagster.alignment.align import AMBIGUOUS, ReferenceIndex, align_trajectories
from cpmi_dagster.alignment.references import read_references
from cpmi_dagster.answers.verdicts import decide
from cpmi_dagster.trajectories.math_shepherd import PARSED_COLUMNS
from cpmi_dagster.trajectories.question_text import compact, normal_key

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository"),
]

MATH_TRAIN = "math/train.jsonl.gz"
MATH_TEST = "math/test_without_math500_odd.jsonl.gz"
PROCESSBENCH_IN_MATH = 477
PRMBENCH_IN_MATH = 2307


def rows_of(name: str) -> list[dict]:
    path = SHARED_DATA / name
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    return [json.loads(line) for line in content.splitlines()]


def without_blanks(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.fixture(scope="module")
def math_problems() -> pl.DataFrame:
    rows = [{key: row[key] for key in ("id", "problem", "answer")} for row in rows_of(MATH_TRAIN) + rows_of(MATH_TEST)]
    return pl.DataFrame(rows).rename({"problem": "question"})


@pytest.fixture(scope="module")
def math_index(math_problems: pl.DataFrame) -> ReferenceIndex:
    return ReferenceIndex(math_problems)


@pytest.fixture(scope="module")
def gsm8k_index() -> ReferenceIndex:
    train = read_references(rows_of("gsm8k/train.jsonl.gz"), "gsm8k", "train")
    test = read_references(rows_of("gsm8k/test.jsonl"), "gsm8k", "test")
    return ReferenceIndex(pl.concat([train, test]))


@pytest.fixture(scope="module")
def rows_by_text(math_problems: pl.DataFrame) -> dict[str, set[int]]:
    """Which references have a text, whitespace aside: the truth for benchmark questions."""
    rows: dict[str, set[int]] = defaultdict(set)
    for row, question in enumerate(math_problems["question"]):
        rows[without_blanks(question)].add(row)
    return rows


@pytest.fixture(scope="module")
def prmbench() -> list[dict]:
    return rows_of("prmbench/prmtest_classified.even.jsonl.gz")


def test_exactly_the_problems_of_processbench_that_are_in_math_match(math_index: ReferenceIndex, rows_by_text: dict):
    problems = [row["problem"] for row in rows_of("processbench/math.even.jsonl.gz")]
    found = [math_index.find(problem).row for problem in problems]
    assert sum(row is not None for row in found) == PROCESSBENCH_IN_MATH
    for problem, row in zip(problems, found, strict=True):
        truth = rows_by_text.get(without_blanks(problem), set())
        assert row in truth if truth else row is None


def test_exactly_the_questions_of_prmbench_that_are_in_math_match(
    math_index: ReferenceIndex, rows_by_text: dict, prmbench: list[dict]
):
    found = [math_index.find(row["question"]).row for row in prmbench]
    assert sum(row is not None for row in found) == PRMBENCH_IN_MATH
    for row, reference in zip(prmbench, found, strict=True):
        truth = rows_by_text.get(without_blanks(row["question"]), set())
        assert reference in truth if truth else reference is None


def test_reworded_originals_of_prmbench_match_their_own_problem_and_no_other(
    math_index: ReferenceIndex, rows_by_text: dict, prmbench: list[dict]
):
    right = 0
    for row in prmbench:
        truth = rows_by_text.get(without_blanks(row["question"]), set())
        found = math_index.find(row["original_question"]).row
        assert found is None or found in truth
        right += found is not None
    assert right / PRMBENCH_IN_MATH >= 0.98


def test_a_modified_question_of_prmbench_matches_only_a_problem_with_its_numbers(
    math_index: ReferenceIndex, math_problems: pl.DataFrame, prmbench: list[dict]
):
    for row in prmbench:
        found = math_index.find(row["modified_question"]).row
        numbers = normal_key(row["modified_question"]).numbers
        assert found is None or normal_key(math_problems["question"][found]).numbers == numbers


@pytest.fixture(scope="module")
def colliding_groups() -> list[list[dict]]:
    """MATH train problems that are the same in letters and digits."""
    groups = defaultdict(list)
    for row in rows_of(MATH_TRAIN):
        groups[letters_and_digits(row["problem"])].append(row)
    return [group for group in groups.values() if len(group) > 1]


def letters_and_digits(question: str) -> str:
    return re.sub(r"[\W_]+", "", question).lower()


def frame_of(group: list[dict]) -> pl.DataFrame:
    return pl.DataFrame({"question": [row["problem"] for row in group], "answer": [row["answer"] for row in group]})


def test_of_nine_colliding_groups_seven_have_answers_written_differently(colliding_groups: list[list[dict]]):
    written_differently = [len({row["answer"] for row in group}) > 1 for group in colliding_groups]
    assert (len(colliding_groups), sum(written_differently)) == (9, 7)


def test_a_problem_that_collides_with_another_is_given_its_own_answer(colliding_groups: list[list[dict]]):
    for group in colliding_groups:
        index = ReferenceIndex(frame_of(group))
        for row in group:
            for question in (row["problem"], f" {row['problem']}\n", row["problem"].replace("$", "")):
                found = index.find(question)
                assert found.row is not None and decide(row["answer"], group[found.row]["answer"])


def test_a_key_shared_by_problems_with_different_answers_decides_nothing(colliding_groups: list[list[dict]]):
    for group in colliding_groups:
        stripped = pl.Series([letters_and_digits(row["problem"]) for row in group])
        index = ReferenceIndex(frame_of(group).with_columns(question=stripped))
        same_answer = decide(group[0]["answer"], group[-1]["answer"])
        assert index.find(stripped[0]).reason == (None if same_answer else AMBIGUOUS)


def as_math_shepherd_writes(question: str, rng: random.Random) -> str:
    """The changes between a GSM8K question and its copy in Math-Shepherd, each with even chances."""
    changes = [
        lambda text: re.sub(r"\s+", " ", text),
        lambda text: text.replace("'", "’"),
        lambda text: re.sub(r'"([^"]*)"', r"“\1”", text),
        lambda text: re.sub(r"\.  ?(?=[A-Z])", ".", text),
        lambda text: text.replace(". ", ".\n"),
        lambda text: text.replace("  ", "\u00a0 "),
        lambda text: f"{text}\\n",
        lambda text: text.replace(" - ", " – "),
        lambda text: re.sub(r"\$(\d)", r"\\$\1", text),
        lambda text: text.strip("?"),
        lambda text: re.sub(r"(\d),(?=\d{3})", r"\1", text),
    ]
    for change in changes:
        question = change(question) if rng.random() < 0.5 else question
    return question


def test_gsm8k_questions_as_math_shepherd_writes_them_match_themselves(gsm8k_index: ReferenceIndex):
    rng = random.Random(0)
    for row, question in enumerate(gsm8k_index.references["question"]):
        found = gsm8k_index.find(as_math_shepherd_writes(question, rng))
        assert found.row is not None, question
        assert compact(gsm8k_index.references["question"][found.row]) == compact(question) or found.row == row


def otherwise_set(question: str, rng: random.Random) -> str:
    """LaTeX that looks the same."""
    changes = [
        lambda text: re.sub(r"\\frac(?![a-z])", r"\\dfrac", text),
        lambda text: re.sub(r"\\[dt]frac", r"\\frac", text),
        lambda text: re.sub(r"\\frac\{(\d)\}\{(\d)\}", r"\\frac\1\2", text),
        lambda text: re.sub(r"\\left(?![a-z])|\\right(?![a-z])", "", text),
        lambda text: re.sub(r"(?<![\\$])\$([^$]+)(?<!\\)\$(?!\$)", r"\\(\1\\)", text) if "\\$" not in text else text,
        lambda text: re.sub(r"\s+", " ", text),
        lambda text: re.sub(r" *([=+]) *", r" \1 ", text),
        lambda text: re.sub(r"\\le(?![a-z])", r"\\leq", text),
        lambda text: re.sub(r"\^\\circ", r"^{\\circ}", text),
        lambda text: re.sub(r"\\[lc]?dots(?![a-z])", r"\\ldots", text),
        lambda text: re.sub(r"\[asy\].*?\[/asy\]", "", text, flags=re.DOTALL),
    ]
    for change in changes:
        question = change(question) if rng.random() < 0.5 else question
    return question


def test_math_problems_set_otherwise_match_a_problem_with_their_answer(
    math_index: ReferenceIndex, math_problems: pl.DataFrame
):
    rng = random.Random(0)
    lost = 0
    for question, answer in zip(math_problems["question"], math_problems["answer"], strict=True):
        found = math_index.find(otherwise_set(question, rng))
        lost += found.row is None and found.reason != AMBIGUOUS
        assert found.row is None or decide(math_problems["answer"][found.row], answer) is True, question
    assert lost / math_problems.height < 0.002


@pytest.mark.parametrize("change", [r"\d", r"[-+<>=*/]", r"\\(?:sin|cos)(?![a-z])", r"\b(?:more|less|most|least)\b"])
def test_a_problem_with_one_thing_changed_never_matches_it(
    change: str, math_index: ReferenceIndex, gsm8k_index: ReferenceIndex
):
    rng = random.Random(0)
    other = {"more": "less", "less": "more", "most": "least", "least": "most", "\\sin": "\\cos", "\\cos": "\\sin"}
    other |= {str(digit): str((digit + 3) % 10) for digit in range(10)} | dict(zip("-+<>=*/", "+-><<+*", strict=True))
    for index in (math_index, gsm8k_index):
        questions = index.references["question"]
        for question in questions.sample(1500, seed=0):
            visible = re.sub(r"\{[a-z]+\*\}", lambda name: "~" * len(name[0]), question)
            places = list(re.finditer(change, visible))
            if places:
                place = rng.choice(places)
                changed = question[: place.start()] + other[place[0]] + question[place.end() :]
                found = index.find(changed).row
                assert found is None or questions[found] != question, (question, changed)


def test_the_first_hundred_rows_of_math_shepherd_all_align(gsm8k_index: ReferenceIndex):
    rows = rows_of("math_shepherd/first100_split_by_step.jsonl")
    parsed = pl.DataFrame(
        {
            "row_number": range(len(rows)),
            "task": [row["dataset"] for row in rows],
            "question": [row["questions"] for row in rows],
            "steps": [["So."]] * len(rows),
            "shepherd_labels": [[True]] * len(rows),
            "final_answer": ["7"] * len(rows),
            **dict.fromkeys(("source_id", "gold_answer", "split")),
        },
        schema_overrides=PARSED_COLUMNS,
    )
    trajectories, rejected = align_trajectories(parsed, gsm8k_index)
    assert (trajectories.height, rejected.height) == (100, 0)
    assert trajectories["match_source"].str.starts_with("gsm8k/train/").all()
