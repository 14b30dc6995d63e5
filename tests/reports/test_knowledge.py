"""What the labeler knows, what templates add, and the Jeffreys divergence, on figures worked out by hand."""

import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.reports import knowledge
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.scoring.conditionings import jeffreys_divergences, template_scores


def logprobs(by_trajectory: dict[str, dict[tuple[str, int], list[float]]]) -> pl.DataFrame:
    """Rows of one template with one token an answer, from probabilities by context, gold first."""
    rows = [
        (name, 0, context, step, rank, math.log(probability), 1)
        for name, contexts in by_trajectory.items()
        for (context, step), probabilities in contexts.items()
        for rank, probability in enumerate(probabilities)
    ]
    return AnswerLogprobs.cast(pl.DataFrame(rows, schema=AnswerLogprobs.column_names(), orient="row"))


ONE_STEP = {"t": {("question", -1): [0.1, 0.3], ("step", 0): [0.6, 0.2]}}


def test_knowledge_is_the_gold_answers_share_of_the_candidates():
    assert knowledge.gold_probabilities(logprobs(ONE_STEP)).rows() == [("t", pytest.approx(0.25))]


def test_jeffreys_divergence_is_both_kullback_leibler_divergences():
    p, q = [0.75, 0.25], [0.25, 0.75]
    divergence = jeffreys_divergences(logprobs(ONE_STEP), "marginal")["divergence"].item()
    assert divergence == pytest.approx(stats.entropy(p, q) + stats.entropy(q, p))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.lists(st.floats(0.01, 1), min_size=3, max_size=3))
def test_jeffreys_divergence_is_symmetric_and_never_negative(before, after):
    there, back = (
        jeffreys_divergences(logprobs({"t": {("question", -1): one, ("step", 0): other}}), "marginal")
        for one, other in ((before, after), (after, before))
    )
    assert there["divergence"].item() == pytest.approx(back["divergence"].item())
    assert there["divergence"].item() >= -1e-12


def many(count: int = 60) -> ReportInputs:
    """Trajectories of two steps, of which the labeler knows the answers better and better."""
    names = [f"t{number:02}" for number in range(count)]
    rows = logprobs(
        {
            name: {
                ("question", -1): [0.01 + number / count, 0.5],
                ("step", 0): [0.02 + number / count, 0.4],
                ("step", 1): [0.9, 0.1],
            }
            for number, name in enumerate(names)
        }
    )
    scores = template_scores(rows, ["marginal"])
    rewards = scores.select("trajectory_id", "step_index", reward="cpmi", reward_type=pl.lit("cpmi"))
    trajectories = pl.DataFrame(
        {
            "trajectory_id": names,
            "question_id": [f"q{number // 2}" for number in range(count)],
            "row_number": range(count),
            "steps": [["a", "b"]] * count,
            "shepherd_labels": [None] * count,
        },
        schema_overrides={"shepherd_labels": pl.List(pl.Boolean)},
    )
    truth = pl.DataFrame({"row_number": range(count), "correct": [[number % 3 > 0, True] for number in range(count)]})
    frames = {
        "labels/answer_logprobs": rows,
        "labels/template_scores": scores,
        "labels/step_rewards": rewards,
        "alignment/trajectories": trajectories,
        "sources/step_truth": truth,
    }
    return ReportInputs(frames, bootstrap_samples=50)


def test_thirds_divide_trajectories_by_knowledge_and_their_ends_are_compared():
    figures = knowledge.measure_knowledge(many())
    assert figures["column"].to_list() == [*knowledge.THIRDS, knowledge.INTERACTION]
    assert figures["n"].to_list() == [20, 20, 20, 40]
    low, _, high, apart = figures["measured"]
    assert apart == pytest.approx(high - low)


def test_a_single_template_is_all_of_them():
    figures = knowledge.measure_templates(many())
    correlation = figures.filter(column="Rank correlation with all")
    assert correlation.select("row", "measured").rows() == [("Template 1", pytest.approx(1.0))]


def test_correlations_with_the_divergence_are_scipys():
    inputs = many()
    figures = knowledge.measure_jeffreys(inputs)
    rewards = inputs.frames["labels/step_rewards"]
    divergences = jeffreys_divergences(inputs.frames["labels/answer_logprobs"], "marginal")
    both = rewards.join(divergences, on=["trajectory_id", "step_index"])
    expected = {
        ("CPMI", "Spearman"): stats.spearmanr(both["reward"], both["divergence"]).statistic,
        ("CPMI", "Pearson"): stats.pearsonr(both["reward"], both["divergence"]).statistic,
        ("|CPMI|", "Spearman"): stats.spearmanr(both["reward"].abs(), both["divergence"]).statistic,
    }
    measured = {(row, column): value for row, column, value in figures.select("row", "column", "measured").iter_rows()}
    assert {key: measured[key] for key in expected} == pytest.approx(expected)


def test_the_labelers_row_says_what_it_knows_and_how_good_its_labels_are():
    figures = knowledge.measure_labelers_knowledge(many())
    assert figures["row"].unique().to_list() == ["Labeler"]
    columns = figures["column"].to_list()
    assert columns[:2] == [knowledge.MEDIAN, knowledge.UNSURE] and "CPMI AUC, without last steps" in columns


def test_nothing_is_measured_without_truth_or_scores():
    for measure in (knowledge.measure_knowledge, knowledge.measure_labelers_knowledge, knowledge.measure_jeffreys):
        assert measure(ReportInputs()).is_empty()
