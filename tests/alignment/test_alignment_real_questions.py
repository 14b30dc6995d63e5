"""Alignment of real questions: ProcessBench-MATH, PRMBench, Math-Shepherd and GSM8K against MATH and GSM8K."""

import gzip
import json
import random
import re
from collections import defaultdict

import polars as pl
import pytest
from small_run import SHARED_DATA

from cpmi_dagster.alignment import AMBIGUOUS, ReferenceIndex, align_trajectories, read_references
from cpmi_dagster.answers.verdicts import decide
from cpmi_dagster.trajectories.question_key import compact, normal_key
from cpmi_dagster.trajectories.rows import number_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository"),
]

MATH_TRAIN = "math/train.jsonl.gz"
MATH_TEST = "math/test_without_math500_odd.jsonl.gz"
PRMBENCH, PRMBENCH_IN_MATH = "prmbench/prmtest_classified.even.jsonl.gz", 2307


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


@pytest.mark.parametrize(
    ("file", "field", "in_math"),
    [("processbench/math.even.jsonl.gz", "problem", 477), (PRMBENCH, "question", PRMBENCH_IN_MATH)],
)
def test_exactly_the_questions_that_are_in_math_match(
    math_index: ReferenceIndex, rows_by_text: dict, file: str, field: str, in_math: int
):
    questions = [row[field] for row in rows_of(file)]
    found = [math_index.find(question).row for question in questions]
    assert sum(row is not None for row in found) == in_math
    for question, row in zip(questions, found, strict=True):
        truth = rows_by_text.get(without_blanks(question), set())
        assert row in truth if truth else row is None


def test_reworded_originals_of_prmbench_match_their_own_problem_and_modified_ones_one_with_their_numbers(
    math_index: ReferenceIndex, math_problems: pl.DataFrame, rows_by_text: dict
):
    right = 0
    for row in rows_of(PRMBENCH):
        original, modified = (math_index.find(row[f"{kind}_question"]).row for kind in ("original", "modified"))
        assert original is None or original in rows_by_text.get(without_blanks(row["question"]), set())
        right += original is not None
        numbers = normal_key(row["modified_question"]).numbers
        assert modified is None or normal_key(math_problems["question"][modified]).numbers == numbers
    assert right / PRMBENCH_IN_MATH >= 0.975


def test_a_problem_that_collides_with_another_in_letters_and_digits_is_given_its_own_answer():
    problems = defaultdict(list)
    for row in rows_of(MATH_TRAIN):
        problems[re.sub(r"[\W_]+", "", row["problem"]).lower()].append(row)
    groups = {key: group for key, group in problems.items() if len(group) > 1}
    assert (len(groups), sum(len({row["answer"] for row in group}) > 1 for group in groups.values())) == (9, 7)
    for key, group in groups.items():
        # a text shared by problems with different answers decides nothing
        shared = ReferenceIndex(pl.DataFrame(group).select("answer", question=pl.lit(key)))
        same_answer = decide(group[0]["answer"], group[-1]["answer"])
        assert shared.find(key).reason == (None if same_answer else AMBIGUOUS)
        index = ReferenceIndex(pl.DataFrame(group).select("answer", question="problem"))
        for row in group:
            for question in (row["problem"], f" {row['problem']}\n", row["problem"].replace("$", "")):
                found = index.find(question)
                assert found.row is not None and decide(row["answer"], group[found.row]["answer"])


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
    parsed = number_rows(rows_of("math_shepherd/first100_raw_reconstructed.jsonl"), first=0, shards=1)
    trajectories, rejected = align_trajectories(parsed, gsm8k_index)
    assert (trajectories.height, rejected.height) == (100, 0)
    assert trajectories["match_source"].str.starts_with("gsm8k/train/").all()
