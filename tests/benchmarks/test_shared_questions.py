"""Questions of training trajectories that are also those of benchmarks."""

import polars as pl
import pytest

from cpmi_dagster.benchmarks.registry import BENCHMARKS
from cpmi_dagster.benchmarks.shared_questions import shared_questions

DRAWN = "Find $x$ in the diagram. [asy]draw({});[/asy]"
FILES = {
    "processbench_gsm8k": "processbench/gsm8k.even.jsonl.gz", "processbench_math": "processbench/math.even.jsonl.gz",
    "processbench_olympiadbench": "processbench/olympiadbench.even.jsonl.gz",
    "processbench_omnimath": "processbench/omnimath.even.jsonl.gz", "math500": "math500/test.even.jsonl",
    "gsm8k": "gsm8k/test.jsonl", "prmbench": "prmbench/prmtest_classified.even.jsonl.gz",
}  # fmt: skip
TEXTS = ("problem", "question", "modified_question")


def trajectories(*questions: str) -> pl.DataFrame:
    return pl.DataFrame({"question_id": [str(questions.index(each)) for each in questions], "question": questions})


def problems(benchmark: str, *questions: str) -> pl.DataFrame:
    names = [str(number) for number in range(len(questions))]
    return pl.DataFrame({"benchmark": [benchmark] * len(questions), "problem_id": names, "question": questions})


def test_trajectories_are_counted_once_however_many_problems_share_their_question():
    asked = trajectories("What is $2+2$?", "What is $2+2$?", "What is 3?")
    found = shared_questions(asked, problems("math500", "What is 2 + 2?", "What is $2 + 2$?", "What is 5?"))
    assert found.rows() == [("math500", 2, 2, "What is 2 + 2?", False)]


def test_the_same_words_under_another_drawing_are_another_question():
    asked = trajectories(DRAWN.format("A"))
    assert shared_questions(asked, problems("math500", DRAWN.format("B"))).is_empty()
    assert shared_questions(asked, problems("math500", DRAWN.format("A").replace(" [", "[")))["problems"].item() == 1


@pytest.mark.slow
def test_training_splits_share_questions_only_with_the_benchmarks_said_to(real_rows):
    training = pl.concat(
        [
            real_rows(f"{name}/train.jsonl.gz").select(question=pl.col("^(question|problem)$"))
            for name in ("gsm8k", "math")
        ]
    )
    asked = training.with_columns(question_id=pl.col("question").hash().cast(pl.String))
    judged = []
    for benchmark, file in FILES.items():
        rows = real_rows(file)
        text = next(name for name in TEXTS if name in rows.columns)
        judged.append(problems(benchmark, *rows[text]))
    found = shared_questions(asked, pl.concat(judged))
    assert set(found["benchmark"]) == {name for name in FILES if BENCHMARKS[name].shares_questions}
