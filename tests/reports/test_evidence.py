"""The questions that were fixed beforehand, label AUC by groups, templates and the Jeffreys divergence, by hand."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.reports import evidence
from cpmi_dagster.reports.evidence import ACROSS, APART, BY_KNOWLEDGE, OTHER, TO_MC, WITHIN, measure_evidence
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.reward_rows import METHOD
from cpmi_dagster.scoring.conditionings import jeffreys_divergences, template_scores

COUNT = 60
NAMES = [f"t{number:02}" for number in range(COUNT)]
LOGPROBS, REWARDS = "labels/answer_logprobs", "labels/step_rewards"


def logprobs(by_trajectory: dict[str, dict[tuple[str, int], list[float]]]) -> pl.DataFrame:
    """Rows of one template with one token an answer, from probabilities by context, gold first."""
    rows = [
        (name, 0, context, step, rank, math.log(probability), 1)
        for name, contexts in by_trajectory.items()
        for (context, step), probabilities in contexts.items()
        for rank, probability in enumerate(probabilities)
    ]
    return AnswerLogprobs.cast(pl.DataFrame(rows, schema=AnswerLogprobs.column_names(), orient="row"))


def inputs(rewards: pl.DataFrame, truth: list[list[bool]], questions: list[str] = NAMES) -> ReportInputs:
    """Solutions with as many steps as their truth has."""
    trajectories = pl.DataFrame(
        {
            "trajectory_id": NAMES,
            "question_id": questions,
            "row_number": range(COUNT),
            "steps": [["s"] * len(steps) for steps in truth],
            "shepherd_labels": [None] * COUNT,
        },
        schema_overrides={"shepherd_labels": pl.List(pl.Boolean)},
    )
    of_truth = pl.DataFrame({"row_number": range(COUNT), "correct": truth})
    frames = {REWARDS: rewards, "alignment/trajectories": trajectories, "sources/step_truth": of_truth}
    return ReportInputs(frames, bootstrap_samples=200)


def labelled(**labels: np.ndarray) -> ReportInputs:
    """Solutions of three steps, the second of which is wrong in every other one; rewards [solutions, steps] by type."""
    steps = pl.DataFrame({"trajectory_id": NAMES}).join(pl.DataFrame({"step_index": [0, 1, 2]}), how="cross")
    rewards = pl.concat(
        steps.with_columns(reward_type=pl.lit(name), reward=pl.Series(values.reshape(-1)))
        for name, values in labels.items()
    )
    return inputs(rewards, [[True, number % 2 == 0, True] for number in range(COUNT)])


def without(given_inputs: ReportInputs, dropped: pl.Expr) -> ReportInputs:
    """The same inputs without some rewards."""
    rewards = given_inputs.table(REWARDS).filter(~dropped)
    return replace(given_inputs, frames={**given_inputs.frames, REWARDS: rewards})


ERRORS = np.array([[0.0, number % 2, 0.0] for number in range(COUNT)])
NOISE = np.random.default_rng(0).normal(size=(COUNT, 3))
LAST_IS_LOWEST = np.tile([2.0, 1.0, 0.0], (COUNT, 1))


def figures(table: pl.DataFrame, column: str) -> dict[str, float]:
    return dict(table.filter(column=column).select("row", "measured").iter_rows())


def test_labels_that_find_every_error_are_compared_with_the_free_label_that_finds_most():
    step_length = NOISE[:, ::-1].copy()
    table = measure_evidence(labelled(cpmi=NOISE - 10 * ERRORS, position=LAST_IS_LOWEST, step_length=step_length))
    assert figures(table, METHOD)[WITHIN] == 1
    assert figures(table, OTHER)[WITHIN] == pytest.approx(1 / 3, abs=0.2)
    assert set(figures(table, METHOD)) == {WITHIN, ACROSS}
    assert table.filter(row=WITHIN)["n"].unique().to_list() == [COUNT // 2]


def test_a_difference_is_paired_and_the_primary_p_value_stands_alone():
    labels = NOISE - 10 * ERRORS
    table = measure_evidence(labelled(cpmi=labels, mc=labels, position=LAST_IS_LOWEST))
    assert figures(table, APART)[TO_MC] == 0
    assert set(figures(table, f"{APART} p")) == {WITHIN, ACROSS, TO_MC}
    adjusted = figures(table, f"{APART} p (Holm)")
    assert set(adjusted) == {ACROSS, TO_MC}
    assert adjusted[ACROSS] == pytest.approx(2 * figures(table, f"{APART} p")[ACROSS])


def test_labels_are_compared_over_the_solutions_that_both_have():
    both = labelled(cpmi=NOISE, mc=NOISE - ERRORS, position=LAST_IS_LOWEST)
    few_rollouts = without(both, (pl.col("reward_type") == "mc") & ~pl.col("trajectory_id").is_in(NAMES[:20]))
    assert measure_evidence(few_rollouts).filter(row=TO_MC)["n"].unique().to_list() == [60]
    unlabelled = without(both, (pl.col("reward_type") == "cpmi") & (pl.col("trajectory_id") == NAMES[1]))
    assert measure_evidence(unlabelled).filter(row=WITHIN)["n"].unique().to_list() == [COUNT // 2 - 1]


def test_the_best_free_label_is_chosen_anew_in_every_resample():
    """Two labels that find the errors of one half each: their better half is above one half in most resamples."""
    first = np.arange(COUNT)[:, None] < COUNT // 2
    position, length = (np.where(half, -ERRORS, ERRORS) for half in (first, ~first))
    table = measure_evidence(labelled(cpmi=NOISE, position=position, step_length=length))
    best = table.filter(row=WITHIN, column=OTHER).row(0, named=True)
    assert best["measured"] == 0.5
    assert best["low"] >= 0.5


def test_labels_work_better_where_the_labeler_knows_more_and_nothing_is_said_of_what_was_not_scored():
    """Of every third question the labeler knows little, and its labels are noise there."""
    known = np.arange(COUNT) % 3
    scored = {name: {("question", -1): [(0.1, 0.5, 0.9)[third], 0.5]} for name, third in zip(NAMES, known, strict=True)}
    labels = np.where((known == 0)[:, None], NOISE, NOISE - 10 * ERRORS)
    unscored = labelled(cpmi=labels, position=LAST_IS_LOWEST)
    table = measure_evidence(replace(unscored, frames={**unscored.frames, LOGPROBS: logprobs(scored)}))
    assert figures(table, METHOD)[BY_KNOWLEDGE] == 1
    assert table.filter(row=BY_KNOWLEDGE, column=APART)["low"].item() > 0
    assert BY_KNOWLEDGE not in set(measure_evidence(unscored)["row"])


def test_nothing_is_measured_without_the_method_truth_or_scores():
    assert measure_evidence(labelled(mc=NOISE)).is_empty()
    for measure in (
        measure_evidence,
        evidence.measure_label_auc,
        evidence.measure_jeffreys,
        evidence.measure_templates,
    ):
        assert measure(ReportInputs()).is_empty()


def many() -> ReportInputs:
    """Trajectories of two steps, of which the labeler knows the answers better and better."""
    rows = logprobs({
        name: {
            ("question", -1): [0.01 + number / COUNT, 0.5],
            ("step", 0): [0.02 + number / COUNT, 0.4],
            ("step", 1): [0.9, 0.1],
        }
        for number, name in enumerate(NAMES)
    })  # fmt: skip
    scores = template_scores(rows, ["marginal"])
    rewards = scores.select("trajectory_id", "step_index", reward="cpmi", reward_type=pl.lit("cpmi"))
    truth = [[number % 3 > 0, True] for number in range(COUNT)]
    unscored = inputs(rewards, truth, [f"q{number // 2}" for number in range(COUNT)])
    return replace(unscored, frames={**unscored.frames, LOGPROBS: rows, "labels/template_scores": scores})


ONE_STEP = {"t": {("question", -1): [0.1, 0.3], ("step", 0): [0.6, 0.2]}}


def test_knowledge_is_the_gold_answers_share_of_the_candidates():
    known = evidence.gold_probabilities(ReportInputs({LOGPROBS: logprobs(ONE_STEP)}))
    assert known.rows() == [("t", pytest.approx(0.25))]


def test_log_probabilities_that_are_read_shard_by_shard_give_the_same_figures():
    whole = many()
    rows = whole.table(LOGPROBS)
    parts = [rows.filter(pl.col("trajectory_id").is_in(names)) for names in (NAMES[:10], NAMES[10:])]
    frames = {key: frame for key, frame in whole.frames.items() if key != LOGPROBS}
    by_shard = replace(whole, frames=frames, shards={LOGPROBS: lambda: iter(parts)})
    for measure in (measure_evidence, evidence.measure_label_auc, evidence.measure_jeffreys):
        assert measure(by_shard).equals(measure(whole))


def test_thirds_divide_trajectories_by_knowledge_and_their_ends_are_compared():
    table = evidence.measure_label_auc(many()).filter(pl.col("row").str.starts_with("Knowledge: "))
    ends = [*evidence.THIRDS, "Highest − lowest"]
    assert table["row"].to_list() == [f"Knowledge: {words}" for words in ends]
    assert table["n"].to_list() == [20, 20, 20, 40]
    low, _, high, apart = table["measured"]
    assert apart == pytest.approx(high - low)


def test_the_labelers_rows_say_what_it_knows_and_how_good_its_labels_are():
    table = evidence.measure_label_auc(many()).filter(pl.col("row").str.starts_with("Labeler: "))
    assert table.select("row", "column").rows() == [
        ("Labeler: Labeler", evidence.MEDIAN),
        ("Labeler: Labeler", evidence.UNSURE),
        ("Labeler: Labeler", "CPMI"),
        ("Labeler: Labeler, without last steps", "CPMI"),
    ]


def test_label_auc_has_a_row_for_every_group_whose_steps_the_truth_describes(comparisons: dict[str, pl.DataFrame]):
    rows = comparisons["label_auc"].filter(column="CPMI")["row"].to_list()
    described = [
        "Kind: Calculation",
        *(f"Operations: {words}" for words in ("0 left", "1 left", "2 left", "3 or more")),
    ]
    assert rows[:8] == [*(f"Position: {place} steps" for place in ("First", "Middle", "Last")), *described]


def test_a_single_template_is_all_of_them():
    correlation = evidence.measure_templates(many()).filter(column="Rank correlation with all")
    assert correlation.select("row", "measured").rows() == [("Template 1", pytest.approx(1.0))]


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


def test_correlations_with_the_divergence_are_scipys():
    given_inputs = many()
    table = evidence.measure_jeffreys(given_inputs)
    divergences = jeffreys_divergences(given_inputs.table(LOGPROBS), "marginal")
    both = given_inputs.table(REWARDS).join(divergences, on=["trajectory_id", "step_index"])
    expected = {
        ("CPMI", "Spearman"): stats.spearmanr(both["reward"], both["divergence"]).statistic,
        ("CPMI", "Pearson"): stats.pearsonr(both["reward"], both["divergence"]).statistic,
        ("|CPMI|", "Spearman"): stats.spearmanr(both["reward"].abs(), both["divergence"]).statistic,
        ("CPMI", "Negative"): (both["reward"] < 0).mean(),
    }
    measured = {(row, column): value for row, column, value in table.select("row", "column", "measured").iter_rows()}
    assert {key: measured[key] for key in expected} == pytest.approx(expected)
