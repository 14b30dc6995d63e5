"""Reward models on real text: what is known of a step counts, and a judge that knows everything is right about it."""

import polars as pl
import pytest

from scripts.heads_table import judge_of

STEPS = ["a", "b", "c"]


@pytest.fixture
def problems() -> pl.DataFrame:
    """Every second solution has its first error at the second of three steps."""
    rows = [
        {
            "benchmark": "processbench_gsm8k",
            "problem_id": f"p{number}",
            "question": f"question {number}",
            "steps": STEPS,
            "first_error": 1 if number % 2 else -1,
        }
        for number in range(40)
    ]
    return pl.DataFrame(rows)


def predictions(problems: pl.DataFrame, after_error: float) -> pl.DataFrame:
    """1 before the error, 0 at it, and a number of choice after it."""
    rows = [
        {
            "recipe": "known",
            "benchmark": row["benchmark"],
            "problem_id": row["problem_id"],
            "step_index": step,
            "probability": 1.0 if row["first_error"] in (-1, 2) or step == 0 else 0.0 if step == 1 else after_error,
        }
        for row in problems.iter_rows(named=True)
        for step in range(len(STEPS))
    ]
    return pl.DataFrame(rows)


@pytest.mark.parametrize("after_error", [0.0, 1.0])
def test_steps_after_the_first_error_do_not_count(problems, after_error):
    judge = judge_of(predictions(problems, after_error), problems, 100, 0)
    assert judge.auc.value == judge.inner.value == 1
    assert judge.f1["processbench_gsm8k"].value == 1
    assert judge.auc.n == 40 // 2 * 3 + 40 // 2 * 2


def test_equal_scores_are_chance(problems):
    flat = predictions(problems, 0.0).with_columns(probability=pl.lit(0.5))
    assert judge_of(flat, problems, 100, 0).auc.value == 0.5
