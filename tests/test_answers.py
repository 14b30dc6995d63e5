"""Finding final answers and telling equal ones from different ones."""

import gzip
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.answers import boxed_answer, equivalent, extract_answer, is_equivalent
from cpmi_dagster.equivalence import math_verify
from cpmi_dagster.equivalence.decide import decide

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not beside the repository")

SAME = [
    ("1/2", "0.5"), (r"\frac{1}{2}", "0.5"), (r"\dfrac12", "1/2"), ("1,234", "1234"), (r"1,\!234", "1234"),
    (r"10{,}000", "10000"), (r"\$18", "18"), ("18 dollars", "$18"), ("18", "18.00"), ("50\\%", "50"), ("50%", "0.5"),
    ("25 percent", "25%"), (r"120^\circ", "120"), (r"120^{\circ}", "120 degrees"), (r"2\sqrt{3}", r"\sqrt{12}"),
    (r"\frac{3}{\sqrt{10}}", r"\frac{3\sqrt{10}}{10}"), (r"14\frac{6}{7}", r"\frac{104}{7}"), ("2 1/2", "2.5"),
    ("x=5", "5"), (r"x \in [1,2]", r"x\in[1,2]"), ("f(x) = 2x", "2x"), ("(1, 2)", r"\left(1,2\right)"),
    ("1, -2", "-2,1"), (r"\{1,2\}", "2, 1"), (r"2, 3, \text{ and } 4", "2,3,4"), (r"\text{(C)}", "C"),
    (r"\text{Sunday}", "sunday"), ("yes", "Yes"), (r"\mbox{four}", "4"), (r"5225 \text{ cubic inches}", "5225"),
    (r"2400 \mbox{ cm}^2", r"2400\text{ square centimeters}"), ("4:51 p.m.", r"4\!:\!51 \text{ p.m.}"),
    (r"\begin{pmatrix}1/2\\3\end{pmatrix}", r"\begin{bmatrix} 0.5 \\ 3 \end{bmatrix}"), ("422_8", "422_{8}"),
    ("(2x+3)(x-3)", "2x^2-3x-9"), (r"3 \pm \sqrt{2}", r"3-\sqrt2, 3+\sqrt2"), ("6-2i", "-2i+6"), ("i^2", "-1"),
    (r"(-\infty,2)\cup[3,4)", r"[3,4) \cup (-\infty, 2)"), ("78/80=.98", ".98"), ("2^{10}", "1024"),
    (r"\frac{1+\sqrt5}{2}", r"\frac12+\frac{\sqrt5}{2}"), (r"10x\sqrt{21x}", r"10x \sqrt{x \cdot 21}"),
    ("x + y = 2", "2x + 2y - 4 = 0"), ("3:2", "3 : 2"), (r"1.5\times10^3", "1500"), (r"x \le 3", r"x\leq 3"),
    (r"\sqrt[3]{8}", "2"), ("½", "0.5"), ("$7$.", "7"),
]  # fmt: skip
DIFFERENT = [
    ("18", "19"), ("1/2", "0.25"), ("0.5", ""), ("", "5"), ("(1,2)", "(2,1)"), ("[1,2)", "(1,2)"), ("east", "west"),
    ("5 cm", "5 m"), ("10 minutes", "10 hours"), ("x+1", "x-1"), ("A", "B"), ("422_8", "423_8"), ("1,2", "1,3"),
    (r"2\pi", "6"), (r"\frac{1}{3}", "0.33"), ("18", "-18"), (r"2\sqrt{5}", r"2\sqrt{6}"), ("x^2", "x^3"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}"), ("1,2", "1,2,3"), ("no", "18"),
    ("x + y = 2", "x + y = 3"), ("18", "12/60=<<12/60"), ("odd", "even"), ("3:2", "2:3"),
]  # fmt: skip


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
    ],
)
def test_the_last_statement_of_an_answer_wins(text: str, answer: str | None):
    assert extract_answer(text) == answer


def test_an_unclosed_box_reaches_to_the_end():
    assert boxed_answer(r"\boxed{\frac{1}{2}") == r"\frac{1}{2}"


@pytest.mark.parametrize(("gold", "candidate"), SAME)
def test_equal_answers_are_recognised_without_algebra(gold: str, candidate: str):
    assert decide(gold, candidate) is True
    assert decide(candidate, gold) is True


@pytest.mark.parametrize(("gold", "candidate"), DIFFERENT)
def test_different_answers_are_told_apart_without_algebra(gold: str, candidate: str):
    assert decide(gold, candidate) is False
    assert decide(candidate, gold) is False


@pytest.mark.parametrize(
    ("gold", "candidate", "expected"),
    [
        (r"\sin^2 x + \cos^2 x", "1", True),
        (r"\frac{1}{2-\sqrt3}", r"2+\sqrt{3}", True),
        (r"\tan x", r"\cot x", False),
    ],
)
def test_algebra_decides_the_rest(gold: str, candidate: str, expected: bool):
    assert decide(gold, candidate) is None
    assert is_equivalent(gold, candidate) is expected


def test_many_pairs_are_judged_in_order():
    golds, candidates = ["18", r"\sin 2x", "18", r"\sin 2x"], ["18", r"2\sin x\cos x", "20", r"2\sin x\cos x"]
    assert equivalent(golds, candidates) == [True, True, False, True]


@given(answer=st.text(max_size=60))
def test_every_answer_equals_itself(answer: str):
    assert is_equivalent(answer, answer)


@given(value=st.fractions(max_denominator=1000))
def test_a_fraction_equals_its_latex(value):
    sign = "-" if value < 0 else ""
    latex = rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    assert is_equivalent(str(value), latex)
    assert not is_equivalent(str(value + 1), latex)


latex_soup = st.lists(
    st.sampled_from([*r"0123456789+-*/^_(){}[]=<>,.:;!%$ xyi", r"\frac", r"\sqrt", r"\pi", r"\text{", r"\cup", r"\pm",
                     r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", "&", r"\left(", "\x00", "\ud800", "٣", "²"]),
    max_size=25,
).map("".join)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(gold=latex_soup, candidate=latex_soup)
def test_no_text_breaks_the_exact_comparison(gold: str, candidate: str):
    assert decide(gold, candidate) in {True, False, None}
    assert decide(gold, gold) is True


@pytest.mark.parametrize("monster", ["9^9^9^9", "((((" * 90 + "1", "2^" * 100 + "2", r"\sqrt{" * 60 + "2", "1" * 399])
def test_monsters_are_turned_away_quickly(monster: str):
    start = time.perf_counter()
    assert decide("18", monster) in {False, None}
    assert time.perf_counter() - start < 1


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=200) | latex_soup)
def test_no_text_breaks_extraction(text: str):
    answer = extract_answer(text)
    assert answer is None or answer.strip()


def test_a_pair_that_takes_too_long_is_not_equivalent(monkeypatch: pytest.MonkeyPatch):
    math_verify.verify(r"\tan x", r"\sin x")
    monkeypatch.setattr(math_verify, "PAIR_SECONDS", 0.0001)
    assert math_verify.verify(r"\sec x", r"\frac{1}{\cos x}") is False


def test_a_killed_worker_is_replaced():
    pool = math_verify.WorkerPool()
    try:
        assert pool.verify(r"2\sin x", r"\sin x + \sin x")
        os.kill(pool._idle[0].process.pid, signal.SIGKILL)
        assert pool.verify(r"3\sin x", r"\sin x + 2\sin x")
    finally:
        pool.close()


def test_a_worker_can_be_asked_from_any_thread():
    verdicts: list[bool] = []
    thread = threading.Thread(target=lambda: verdicts.append(is_equivalent(r"\tan y + \tan y", r"2\tan y")))
    thread.start()
    thread.join()
    assert verdicts == [True]


@needs_data
def test_grading_agrees_with_gsm8ks_own_on_every_example_solution():
    with gzip.open(DATA / "gsm8k" / "example_model_solutions.jsonl.gz", "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    golds, answers, verdicts = [], [], []
    for row in rows:
        for solution in (part for part in row.values() if isinstance(part, dict)):
            golds.append(extract_answer(row["ground_truth"]) or "")
            answers.append(extract_answer(solution["solution"]) or "")
            verdicts.append(solution["is_correct"])
    assert len(verdicts) == 5276
    assert equivalent(golds, answers) == verdicts
