"""Gold answers are read, not taken; a function of the user's compares answers in the place of the built-in one."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.alignment import ReferenceIndex
from cpmi_dagster.answers.comparison import Answers, Comparison
from cpmi_dagster.answers.gold import answer_text, doubt_gold_answers, read_gold_answer
from cpmi_dagster.benchmarks.best_of_n import with_answer_classes
from cpmi_dagster.generation.monte_carlo import grade
from cpmi_dagster.negatives.hard_negatives import choose_negatives
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.profiles.settings import load_settings

INITIALS = Comparison("names:initials", lambda gold, candidate: gold[0] == candidate[0])


def write_profile(folder: Path, name: str) -> Path:
    profile = folder / "mine.yaml"
    profile.write_text(f"extends: miniature\nanswers: {{equivalent: '{name}'}}\n", encoding="utf-8")
    return profile


def test_a_profile_takes_the_function_of_its_own_folder_into_other_processes(tmp_path):
    (tmp_path / "beside_names.py").write_text("fold = str.casefold\n", encoding="utf-8")
    source = (
        "from beside_names import fold\ndef fold_case(gold, candidate):\n    return fold(gold) == fold(candidate)\n"
    )
    (tmp_path / "names_of_mine.py").write_text(source, encoding="utf-8")
    settings = load_settings(write_profile(tmp_path, "names_of_mine:fold_case"), tmp_path / "home").answers
    child = tmp_path / "below" / "child.yaml"
    child.parent.mkdir()
    child.write_text("extends: ../mine.yaml\n", encoding="utf-8")
    assert load_settings(child).answers.identity == settings.identity
    with get_context("spawn").Pool(1) as pool:
        verdicts, identity = pool.apply(_judge, (settings, ["STRASSE", "2"], ["straße", "2.0"]))
    assert verdicts == [True, False] and identity == settings.identity


def _judge(settings: Answers, golds: list[str], candidates: list[str]) -> tuple[list[bool], dict[str, str]]:
    return settings.comparison.each(golds, candidates), settings.identity


def test_references_negatives_grades_and_votes_are_compared_by_the_function():
    references = pl.DataFrame({"question": ["Who has 3 hats?"] * 2, "answer": ["Ann", "Anna"]})
    assert ReferenceIndex(references).find("Who has 3 hats?").row is None
    assert ReferenceIndex(references, INITIALS).find("Who has 3 hats?").row == 0
    chosen = choose_negatives("Ann", ["Anna", "Bob", "Bert", "Carl"], Negatives(count=2), 0, comparison=INITIALS)
    assert [negative.answer for negative in chosen] == ["Bob", "Carl"]
    assert grade(["Ann", "Ann", "Ann"], ["Anna", None, "Bob"], INITIALS) == [True, False, False]
    candidates = pl.DataFrame({
        "benchmark": "own", "problem_id": "0", "candidate": [0, 1, 2], "answer": ["Bob", "Bert", "Carl"],
        "correct": False,
    })  # fmt: skip
    assert with_answer_classes(candidates, INITIALS)["answer_class"].to_list() == [0, 0, 2]


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("He pays 3*4=<<3*4=12>>12 dollars.\n#### 12", "12"),
        (r"We have $\frac12\cdot\frac13=\boxed{\frac16}$.", r"\frac16"), ("3*4=12.\nThe answer is: 4,000", "4,000"),
        ("**$17$.**\n", "17"), ("17 apples", "17 apples"), ("A. Paris", "A. Paris"),
        ("90\\text{ square\nunits}", "90\\text{ square\nunits}"),
        # numbers, of whatever type
        (" ", None), ("41.0", "41"), (np.int64(41), "41"), (np.float32(0.1), "0.1"), (Decimal("1E+2"), "100"),
        (Fraction(1, 2), "1/2"),
    ],
)  # fmt: skip
def test_a_gold_answer_is_unwrapped_and_a_number_is_written_plainly(given: Any, answer: str | None):
    assert read_gold_answer(given) == answer


@pytest.mark.parametrize(
    "given",
    [
        "NaN", "None", np.bool_(True), answer_text(float("inf")), ["7"], b"17",
        "He pays 12 dollars. So it is 12 in all.", "3*4=<<3*4=12>>12",
    ],
)  # fmt: skip
def test_what_holds_no_answer_is_refused(given: Any):
    with pytest.raises(ValueError, match=r"stands for a missing value|of the wrong kind|announces no answer"):
        read_gold_answer(given)


@pytest.mark.parametrize(
    "placeholder",
    [
        "notfound",
        "not found",
        "proof",
        "see solution",
        "unknown",
        "N/A",
        "no answer provided",
        "tbd",
        "QED",
        "略",
        "见解析",
    ],
)
@given(
    st.sampled_from(["{}", "({}).", "**{}**", "\\text{{{}}}", "The answer is: {}", "#### {}"]),
    st.sampled_from([str.upper, str.title]),
)
def test_a_placeholder_in_whatever_dress_is_refused(placeholder: str, written: str, case: Callable[[str], str]):
    for text in (placeholder, case(placeholder)):
        with pytest.raises(ValueError, match="stands for a missing value"):
            read_gold_answer(written.format(text))


@pytest.mark.parametrize(
    "answer", ["no solution", "undefined", "cannot be determined", "Na", "none of these", "-1", "no"]
)
def test_an_answer_that_sounds_like_a_placeholder_is_kept(answer: str):
    assert read_gold_answer(answer) == answer


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False)))
def test_a_written_number_is_the_number(number: Any):
    if isinstance(number, Decimal) and not number.is_finite():
        return
    written = read_gold_answer(number)
    assert written is not None and float(written) == float(number)
    assert read_gold_answer(written) == written


@pytest.mark.parametrize(
    ("golds", "finals", "words"),
    [
        ("2013", "CABC", "none of 4 final answers equal the gold answer: the first is `C`, for `2`; check which"),
        (["7", "12"] * 50, ["7 ки", "12 ки"] * 50, "none of 100"),
        (
            ["5"] * 20,
            [*["5"] * 14, *"ABCDEF"],
            "all 6 wrong final answers are letters, where the gold answers are numbers; check",
        ),
        ("1234", "1235", None),  # one is wrong
        (["5"] * 20, [*["5"] * 14, *"123467"], None),  # wrong, of the same kind
        ("12", "34", None),  # too few
        (["1", None, "3"], ["2", "2", None], None),
    ],
)
def test_doubt_is_said_if_no_answer_fits_or_wrong_ones_are_of_another_kind(golds, finals, words):
    said = doubt_gold_answers(zip(golds, finals, strict=True))
    assert said is None if words is None else said is not None and said.startswith(words)
