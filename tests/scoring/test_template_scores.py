"""Eq. 3 from stored log-probabilities: by hand, and by its laws."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.contexts import contexts_of
from cpmi_dagster.contracts.tables import AnswerLogprobs, TemplateScores
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.scoring.conditionings import hardest_negatives, template_scores

ALL = ("marginal", "incremental", "prefix", "leave_one_out")
SCHEMA = {name: column.dtype for name, column in AnswerLogprobs.columns().items()}


def table(means, counts=(2, 4, 5), trajectory="t", template=0):
    """Log-probabilities from mean ones: {(context, step): (gold, negative 1, negative 2)}."""
    rows = [
        (trajectory, template, context, step, rank, mean * count, count)
        for (context, step), values in means.items()
        for rank, (mean, count) in enumerate(zip(values, counts, strict=False))
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


BY_HAND = table(
    {
        ("question", -1): (-1.5, -2.0, -2.0),
        ("prefix", 0): (-0.5, -2.0, -1.0),
        ("prefix", 1): (-0.25, -3.0, -2.5),
        ("step", 0): (-0.5, -2.0, -1.0),
        ("step", 1): (-1.75, -2.5, -3.0),
        ("all_but", 0): (-1.75, -2.5, -3.0),
        ("all_but", 1): (-0.5, -2.0, -1.0),
    }
)


@pytest.mark.parametrize(
    ("conditioning", "step", "gold_shift", "negative_shift"),
    [
        # gold: -0.5 - -1.5; negatives: mean(-2 - -2, -1 - -2)
        ("marginal", 0, 1.0, 0.5),
        # gold: -1.75 - -1.5; negatives: mean(-2.5 - -2, -3 - -2)
        ("marginal", 1, -0.25, -0.75),
        ("incremental", 0, 1.0, 0.5),
        # gold: -0.25 - -0.5; negatives: mean(-3 - -2, -2.5 - -1)
        ("incremental", 1, 0.25, -1.25),
        ("prefix", 0, 1.0, 0.5),
        # gold: -0.25 - -1.5; negatives: mean(-3 - -2, -2.5 - -2)
        ("prefix", 1, 1.25, -0.75),
        # gold: -0.25 - -1.75; negatives: mean(-3 - -2.5, -2.5 - -3)
        ("leave_one_out", 0, 1.5, 0.0),
        ("leave_one_out", 1, 0.25, -1.25),
    ],
)
def test_shifts_are_those_computed_by_hand(conditioning, step, gold_shift, negative_shift):
    scores = template_scores(BY_HAND, [conditioning])
    row = scores.row(by_predicate=pl.col("step_index") == step, named=True)
    assert row["gold_shift"] == pytest.approx(gold_shift)
    assert row["negative_shift"] == pytest.approx(negative_shift)
    assert row["cpmi"] == pytest.approx(gold_shift - negative_shift)


def test_scores_meet_the_contract_and_stand_in_order():
    scores = template_scores(BY_HAND, ALL)
    assert TemplateScores.is_valid(scores)
    assert scores.height == 2 * 4
    assert scores.equals(scores.sort(TemplateScores.primary_key()))


def test_the_first_negatives_are_the_hardest_given_the_question_over_templates():
    means = {("question", -1): (-1.0, -3.0, -2.0, -2.0), ("step", 0): (-1.0, -3.0, -1.0, -1.5)}
    other = {("question", -1): (-1.0, -0.5, -2.0, -2.0), ("step", 0): (-1.0, -3.0, -1.0, -1.5)}
    logprobs = pl.concat([table(means, (1, 2, 3, 4)), table(other, (1, 2, 3, 4), template=1)])
    # means over templates: -1.75, -2, -2; the tie goes to the lower rank
    assert hardest_negatives(logprobs)["answer_rank"].to_list() == [1, 2, 3]
    one = template_scores(logprobs, ["marginal"], count=1)
    assert one["negative_shift"].to_list() == pytest.approx([0.0, -2.5])
    two = template_scores(logprobs, ["marginal"], count=2)
    assert two["negative_shift"].to_list() == pytest.approx([0.5, -0.75])


@pytest.mark.parametrize(
    ("logprobs", "conditioning", "words"),
    [
        (BY_HAND.filter(pl.col("answer_rank") == 0), "marginal", "`t` lacks hard negatives under context step, step 0"),
        (BY_HAND.filter(pl.col("answer_rank") > 0), "prefix", "`t` lacks a gold answer under context prefix"),
        (BY_HAND.filter(pl.col("context") != "all_but"), "leave_one_out", "context all_but, step 0"),
        (BY_HAND.filter(pl.col("context") != "question"), "incremental", "context question, step -1"),
    ],
)
def test_what_is_missing_is_named(logprobs, conditioning, words):
    with pytest.raises(ScoringError) as error:
        template_scores(logprobs, [conditioning])
    assert words in str(error.value)


def test_hardness_needs_the_bare_question():
    without_question = BY_HAND.filter(pl.col("context") != "question")
    with pytest.raises(ScoringError, match="cannot be ordered by hardness"):
        template_scores(without_question, ["leave_one_out"], count=1)
    with pytest.raises(ScoringError, match="at least one hard negative"):
        template_scores(BY_HAND, ["marginal"], count=0)


def test_no_logprobs_give_no_scores():
    scores = template_scores(BY_HAND.clear(), ALL)
    assert scores.schema == TemplateScores.create_empty().schema


@st.composite
def logprob_tables(draw):
    """Two templates of a trajectory of up to three steps, with two negatives."""
    means = st.tuples(*[st.floats(-9, -0.01)] * 3)
    contexts = contexts_of(ALL, draw(st.integers(1, 3)))
    return pl.concat([table({context: draw(means) for context in contexts}, template=k) for k in range(2)])


@given(logprob_tables(), st.randoms())
@settings(max_examples=20, deadline=None)
def test_rows_in_any_order_give_the_same_scores(logprobs, random):
    order = list(range(logprobs.height))
    random.shuffle(order)
    assert template_scores(logprobs[order], ALL, count=1).equals(template_scores(logprobs, ALL, count=1))


@given(logprob_tables(), st.floats(-3, 0))
@settings(max_examples=20, deadline=None)
def test_a_constant_on_every_gold_logprob_leaves_all_shifts(logprobs, constant):
    is_gold = pl.col("answer_rank") == 0
    raised = logprobs.with_columns(logprob_sum=pl.col("logprob_sum") + pl.when(is_gold).then(constant).otherwise(0.0))
    shifts = [template_scores(frame, ALL)["gold_shift", "negative_shift"] for frame in (logprobs, raised)]
    for name in ("gold_shift", "negative_shift"):
        assert (shifts[0][name] - shifts[1][name]).abs().max() < 1e-9
