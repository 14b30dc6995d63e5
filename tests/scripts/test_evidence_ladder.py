"""The ladder's table: the primary question first, pairs over the same steps, a rung against itself no different."""

import polars as pl
import pytest

from cpmi_dagster.benchmarks.label_increment import regression_auc, steps_with_labels
from cpmi_dagster.benchmarks.label_quality import IS_LAST
from scripts.evidence_ladder import answers, by_task, label_table, looked_at_afterwards, rung_of

pytestmark = pytest.mark.whole_run


@pytest.fixture
def rung(finished):
    return rung_of(finished)


def test_every_question_that_a_home_can_answer_has_a_row(rung):
    questions = [answer.question for answer in answers([rung, rung._replace(name="larger")])]
    assert questions[0] == "(a) CPMI (incremental), best free label"
    assert {question[:3] for question in questions} == {"(a)", "(b)", "(c)", "(d)"}
    assert len(questions) == len(set(questions))


def test_two_homes_with_the_same_labels_do_not_differ(rung):
    found = {answer.question: answer for answer in answers([rung, rung._replace(name="larger")])}
    apart = found[f"(c) larger, {rung.name}"].apart
    assert (apart.value, apart.low, apart.high, apart.p_value) == (0, 0, 0, 1)


def test_the_best_free_label_is_the_best_of_a_home(rung):
    first = next(answers([rung]))
    assert first.apart.value == pytest.approx(first.ours.value - first.other.value)
    assert first.ours.n == first.other.n


def test_what_is_added_to_labels_without_the_answer_is_the_gain_of_a_regression(rung):
    found = {answer.question: answer for answer in looked_at_afterwards(rung)}
    incremental = "CPMI (incremental)"
    added = found[f"{incremental} added to Step surprisal + Step length + Position"]
    steps = rung.steps.filter(~IS_LAST)
    names = ["step_surprisal", "step_length", "position"]
    labelled = steps_with_labels(steps, [*names, "cpmi_incremental", "cpmi"])
    alone = regression_auc(labelled, names, *rung.inputs.draws)
    assert alone is not None
    assert added.other.value == alone.value
    assert found[f"{incremental} less CPMI"].apart.value == pytest.approx(
        found[f"{incremental} less CPMI"].ours.value - found[f"{incremental} less CPMI"].other.value
    )


def test_the_table_of_a_home_counts_the_tokens_of_all_shards(rung):
    by_method = rung.costs.group_by("method").agg(tokens=pl.col("forward_tokens").sum())["tokens"]
    assert f"{by_method.max():,} tokens" in str(label_table(rung).title)
    assert by_method.max() > rung.costs["forward_tokens"].max()


def test_the_origins_of_a_home_have_all_its_solutions_between_them(rung):
    parts = list(by_task(rung))
    assert {part.name.partition(", ")[2] for part in parts} == {"GSM8K", "MATH"}
    assert sum(part.steps.height for part in parts) == rung.steps.height
