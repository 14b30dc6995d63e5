"""Questions of training trajectories that are also those of benchmarks."""

import polars as pl

from cpmi_dagster.benchmarks.shared_questions import shared_questions

DRAWN = "Find $x$ in the diagram. [asy]draw({});[/asy]"


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
