"""The ladder asks its primary question first and sees no difference in equal labels; a head that knows all is right."""

import polars as pl
import pytest

from scripts.evidence import answers, figures_of_head, parsed, rung_of


@pytest.mark.whole_run
def test_a_home_answers_what_its_labels_allow_and_does_not_differ_from_itself(finished):
    rung = rung_of(finished)
    asked = list(answers([rung, rung._replace(name="larger")]))
    assert asked[0].question == "(a) CPMI (incremental), best free label"
    assert asked[0].difference.value == pytest.approx(asked[0].ours.value - asked[0].other.value)
    assert {answer.question[:3] for answer in asked} == {"(a)", "(b)", "(c)", "(d)"}
    [apart] = [answer.difference for answer in asked if answer.question == f"(c) larger, {rung.name}"]
    assert (apart.value, apart.low, apart.high, apart.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize("after_error", [0.0, 1.0])
def test_steps_after_the_first_error_do_not_count(after_error):
    rows = [(f"p{number}", f"question {number}", ["a", "b", "c"], 1 if number % 2 else -1) for number in range(40)]
    problems = pl.DataFrame(rows, schema=["problem_id", "question", "steps", "first_error"], orient="row")
    problems = problems.with_columns(benchmark=pl.lit("processbench_gsm8k"))
    scores = pl.when(pl.col("first_error") < 0).then(pl.lit([1.0] * 3)).otherwise(pl.lit([1.0, 0.0, after_error]))
    steps = problems.select("benchmark", "problem_id", probability=scores, step_index=[0, 1, 2]).explode(
        "probability", "step_index"
    )
    head = figures_of_head(steps.with_columns(recipe=pl.lit("known")), problems, 100, 0)
    assert head.auc.value == head.inner.value == head.f1["processbench_gsm8k"].value == 1
    assert head.auc.n == 40 // 2 * 3 + 40 // 2 * 2


def test_a_solution_of_gsm8ks_models_is_read_by_line():
    text = "Ann has 3*4=<<3*4=12>>12 hats.\nShe sells 2.\nA: 10"
    row = {"175b_verification": {"solution": text}, "6b_finetuning": {"solution": "A: 10"}, "ground_truth": "So.\nA: 9"}
    assert parsed(row, "175b_verification") == (["Ann has 3*4=12 hats.", "She sells 2. The answer is: 10"], "9")
    assert parsed(row, "6b_finetuning") is None
