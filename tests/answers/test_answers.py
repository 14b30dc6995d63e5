"""Final answers are found in texts; on the real sets they are the official ones and grade as published.

{"text": "She is happy. The answer is 18.", "answer": "18"}        a line of statements.jsonl, judged by hand
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_run import SHARED_DATA

from cpmi_dagster.answers.extraction import extract_answer, final_answer
from cpmi_dagster.answers.verdicts import equivalent, is_equivalent

needs_data = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository")


def read_rows(path: str) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.endswith(".gz") else open
    with opener(SHARED_DATA / path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def test_the_last_statement_of_an_answer_wins_over_what_the_last_sentence_concludes():
    rows = map(json.loads, (Path(__file__).parent / "statements.jsonl").read_text(encoding="utf-8").splitlines())
    assert [row for row in rows if extract_answer(row["text"]) != row["answer"]] == []


@given(count=st.integers(0, 10**6), seen=st.integers(0, 10**6), cut=st.integers(1, 40))
def test_a_sentence_that_is_cut_anywhere_has_no_answer(count: int, seen: int, cut: int):
    sentence = f"She saw {seen} of them. Therefore, the number of hats is {count}."
    assert extract_answer(sentence) == str(count)
    assert extract_answer(sentence, is_complete=False) is None
    assert extract_answer(sentence[: -min(cut, len("Therefore, the number of hats is"))]) is None


def test_a_solution_that_ends_within_a_thought_states_no_final_answer():
    thought = ["<think>\nLet me see.", "The answer is: 7."]
    assert final_answer(thought) is None
    assert final_answer([*thought, "</think>\n\nShe has 8 hats."]) == "8"
    assert final_answer(thought[1:]) == "7"


@given(solution=st.sampled_from(["She has 8 hats.", "The answer is: 8", "\\boxed{8}", "答案是8。"]), thought=st.text())
def test_no_thought_changes_the_answer_that_follows_it(solution: str, thought: str):
    assert extract_answer(f"<think>{thought} The answer is: 7</think>{solution}") == "8"


@pytest.mark.parametrize(("name", "verdict"), [("equivalent_pairs.jsonl", True), ("different_pairs.jsonl", False)])
def test_every_pair_judged_by_hand_is_judged_so_either_way_round(name: str, verdict: bool):
    rows = map(json.loads, (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines())
    pairs = [(row["gold"], row["candidate"]) for row in rows]
    golds, candidates = zip(*pairs, strict=True)
    judged = zip(equivalent(golds, candidates), equivalent(candidates, golds), strict=True)
    assert [pair for pair, each in zip(pairs, judged, strict=True) if set(each) != {verdict}] == []


@needs_data
def test_every_answer_of_math_and_gsm8k_is_extracted():
    math = [*read_rows("math/train.jsonl.gz"), *read_rows("math/test_without_math500_odd.jsonl.gz")]
    gsm8k = [*read_rows("gsm8k/train.jsonl.gz"), *read_rows("gsm8k/test.jsonl")]
    assert (len(math), len(gsm8k)) == (7500 + 4750, 7473 + 1319)
    answers = [(row["id"], extract_answer(row["solution"]), row["answer"].strip()) for row in math]
    assert [row for row in answers if (row[1] or "") != row[2]] == []
    empty = [name for name, answer, _ in answers if answer is None]
    assert empty == ["train/number_theory/7115", "train/number_theory/7117"]
    assert all(extract_answer(row["answer"]) == row["answer"].rpartition("#### ")[2].strip() != "" for row in gsm8k)


@needs_data
def test_extracted_answers_equal_math500s_official_ones():
    rows = list(read_rows("math500/test.even.jsonl"))
    assert len(rows) == 250
    assert [row for row in rows if not is_equivalent(row["answer"], extract_answer(row["solution"]) or "")] == []


@needs_data
def test_grading_agrees_with_gsm8ks_own_on_every_example_solution():
    golds, answers, verdicts = [], [], []
    for row in read_rows("gsm8k/example_model_solutions.jsonl.gz"):
        for solution in (part for part in row.values() if isinstance(part, dict)):
            golds.append(extract_answer(row["ground_truth"]) or "")
            answers.append(extract_answer(solution["solution"]) or "")
            verdicts.append(solution["is_correct"])
    assert len(verdicts) == 5276
    assert equivalent(golds, answers) == verdicts
