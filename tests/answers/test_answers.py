"""Finding final answers, and grading with them on the real sets."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_run import SHARED_DATA

from cpmi_dagster.answers.extraction import announced_answer, extract_answer, hash_answer
from cpmi_dagster.answers.fences import boxed_answer, unwrapped
from cpmi_dagster.answers.verdicts import equivalent, is_equivalent

needs_data = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository")


def read_rows(path: str) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.endswith(".gz") else open
    with opener(SHARED_DATA / path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so 6 + 6 = 12.\n#### 12", "12"),
        ("She has 6 left. The answer is: 6", "6"),
        ("The answer is 18. She is happy.", "18"),
        ("The answer is: 3.5.\nThe end.", "3.5"),
        (r"Thus $x = \boxed{\frac{1}{\sqrt{2}}}$.", r"\frac{1}{\sqrt{2}}"),
        (r"First \boxed{1}, then \boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"so \boxed 5.", "5"),
        (r"The answer is: $\boxed{7}$", "7"),
        (r"\boxed{1} but really: The answer is: 2", "2"),
        ("The answer is: 1\nThe answer is: ", "1"),
        ("The final answer is: **42**", "42"),
        ("he pays $9.\nA: 9", "9"),
        ("no statement at all", None),
        ("", None),
        (r"\boxed{}", None),
        (r"so the answer is $\boxed{}$.", None),
        (r"so it is $\boxed{80}$. The answer is in lowest terms.", "80"),
        (r"so it is $\boxed{80}$.\n#### 81", "81"),
        (r"The answer is:" "\n\n" r"\[ \frac{1}{2} \]", r"\frac{1}{2}"),
        (r"The answer is: \(x = 3\).", "x = 3"),
        (r"The answer is \fbox{7}.", "7"),
        (r"it is \boxed\frac{1}{2} in all", r"\frac{1}{2}"),
        (r"it is $\boxed 3.$", "3"),
        (r"it is \boxed {\text{(A)}}", r"\text{(A)}"),
        (r"\boxed{\{x : x > 1\}}", r"\{x : x > 1\}"),
        ("Final answer: 17", "17"),
        ("Thus the answer: 17", "17"),
        ("**Answer:** the smallest is 10.", "10"),
        ("**Final Answer**: 17", "17"),
        ("<think>41 or 42.</think>\n<answer>42</answer>", "42"),
        ("<answer>\n$42$\n</answer>", "42"),
        (r"work \boxed{2}, final answer: 3", "3"),
        (r"\boxed{2}, and <answer>3</answer>", "3"),
        (r"<answer>3</answer>, no: \boxed{4}", "4"),
        (r"\boxed{7}. We check the answer: 3 + 4 = 7.", "7"),
    ],
)
def test_the_last_statement_of_an_answer_wins(text: str, answer: str | None):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Therefore, she ran **108** meters.", "108"),
        ("She has 12 hats. So, it took James 2 hours to walk to the store.", "2"),
        (r"Thus, the value of \(f(4)\) is \(\frac{13}{2}\).", r"\frac{13}{2}"),
        (r"The values with $f(x) = g(x)$ are $x = 5$ and $x = -2$.", "x = 5, x = -2"),
        (r"So the sum is \[ x + y = 2 \times 3 = 6 \]", "6"),
        ("Therefore, the total cost is $1,250.50.", "1,250.50"),
        ("75 + 1 = 76.", "76"),
        ("Therefore, yes. The skater faces **west**.", "west"),
        ("She is done.\n\n# Answer\n\n29", "29"),
        ("### Final Answer\nThe last digit is **6**.", "6"),
        ("Thus, $x<3$ or $x>5$.", "x<3 or x>5"),
        ("So the values are 2, 3 or 5.", "2 or 3 or 5"),
        ("The ratio is 3:4.", "3:4"),
        ("The point is (1, 2).", "(1, 2)"),
        ("The interval is [3, 5).", "[3, 5)"),
        ("The total is 5 hundred dollars.", "5 hundred"),
        ("Therefore it comes to 12.", "12"),
        ("Jurgen is packing at 3:45 p.m.", "3:45"),
        ("If she has 12 hats, she needs 3.", None),
        ("The value cannot be found from 3 and 4.", None),
        ("She has 18 - 12 = 6 hats. Each of them", None),
        ("So she has 6 hats and needs 1", None),
        ("That is correct.", None),
        (r"It holds for all values of \(n\).", None),
        (r"So \(\boxed{}\).", None),
    ],
)
def test_without_an_announcement_the_last_finished_sentence_is_read(text: str, answer: str | None):
    assert announced_answer(text) is None
    assert extract_answer(text) == answer
    assert extract_answer(text, is_complete=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "So x = 2 or x = 3.",
        "So it is **3** or **4**.",
        "The ratio is 3 to 4.",
        "So it is 1 in 6.",
        "So f(x) is 3x + 2.",
        "So there are 10^6 ways.",
        "So x > 5.",
        "So x is between 3 and 5.",
        r"The interval is (-\infty, 5).",
        "So it took 2 and a half hours.",
        "The ratio is $3$ : $4$.",
        "It is a 12-sided die.",
    ],
)
def test_a_part_of_a_longer_value_is_no_answer(text: str):
    assert extract_answer(text) is None


@given(count=st.integers(0, 10**6), seen=st.integers(0, 10**6), cut=st.integers(1, 40))
def test_a_sentence_that_is_cut_anywhere_has_no_answer(count: int, seen: int, cut: int):
    sentence = f"She saw {seen} of them. Therefore, the number of hats is {count}."
    assert extract_answer(sentence) == str(count)
    assert extract_answer(sentence[: -min(cut, len("Therefore, the number of hats is"))]) is None


def test_an_unclosed_box_reaches_to_the_end():
    assert boxed_answer(r"\boxed{\frac{1}{2}") == r"\frac{1}{2}"


WRAPS = [r"\(#\)", r"\[ # \]", "$#$", "**#**", r"\boxed{#}", r"\fbox{ #}", "#.", " # "]


@given(
    answer=st.sampled_from(["20", r"\frac{1}{2}", "x = 5", "[2, 5)", "west"]),
    wraps=st.lists(st.sampled_from(WRAPS), unique=True),
)
def test_an_answer_is_unwrapped_from_whatever_stands_around_it(answer: str, wraps: list[str]):
    text = answer
    for wrap in wraps:
        text = wrap.replace("#", text)
    assert unwrapped(text) == answer


@pytest.mark.parametrize(
    "text", ["$5", r"\(a\), \(b\)", "$a$, $b$", "**a** and **b**", r"\boxed{1} + \boxed{2}", "2**3"]
)
def test_fences_around_parts_stay(text: str):
    assert unwrapped(text) == text


@needs_data
@pytest.mark.parametrize(
    ("path", "count", "empty"),
    [
        ("math/train.jsonl.gz", 7500, ["train/number_theory/7115", "train/number_theory/7117"]),
        ("math/test_without_math500_odd.jsonl.gz", 4750, []),
    ],
)
def test_every_answer_of_math_is_extracted(path: str, count: int, empty: list[str]):
    rows = list(read_rows(path))
    answers = [extract_answer(row["solution"]) for row in rows]
    assert len(rows) == count
    assert [row["id"] for row, answer in zip(rows, answers, strict=True) if answer is None] == empty
    assert [
        row["id"] for row, answer in zip(rows, answers, strict=True) if (answer or "") != row["answer"].strip()
    ] == []
    assert [boxed_answer(row["solution"]) for row in rows] == [answer or "" for answer in answers]


@needs_data
def test_extracted_answers_equal_math500s_official_ones():
    rows = list(read_rows("math500/test.even.jsonl"))
    assert len(rows) == 250
    assert [row for row in rows if not is_equivalent(row["answer"], extract_answer(row["solution"]) or "")] == []


@needs_data
@pytest.mark.parametrize(("path", "count"), [("gsm8k/train.jsonl.gz", 7473), ("gsm8k/test.jsonl", 1319)])
def test_every_answer_of_gsm8k_is_extracted(path: str, count: int):
    rows = list(read_rows(path))
    assert len(rows) == count
    assert [row for row in rows if not hash_answer(row["answer"])] == []
    assert [row for row in rows if extract_answer(row["answer"]) != hash_answer(row["answer"])] == []


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
