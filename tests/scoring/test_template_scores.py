"""Eq. 3 from stored log-probabilities, by hand; its laws are those of the rewards made from it."""

import polars as pl
import pytest
from scoring_examples import ALL_CONDITIONINGS

from cpmi_dagster.contracts.tables import AnswerLogprobs, TemplateScores
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.scoring.conditionings import hardest_negatives, template_scores

SCHEMA = AnswerLogprobs.create_empty().schema


def table(means, counts=(2, 4, 5), template=0):
    """Log-probabilities from mean ones: {(context, step): (gold, negative 1, negative 2)}."""
    rows = [
        ("t", template, context, step, rank, mean * count, count)
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
    scores = template_scores(BY_HAND, ALL_CONDITIONINGS)
    assert TemplateScores.is_valid(scores) and scores.equals(scores.sort(TemplateScores.primary_key()))
    row = scores.filter(conditioning=conditioning, step_index=step).select("gold_shift", "negative_shift", "cpmi")
    assert row.rows() == [pytest.approx((gold_shift, negative_shift, gold_shift - negative_shift))]


def test_the_first_negatives_are_the_hardest_given_the_question_over_templates():
    means = {("question", -1): (-1.0, -3.0, -2.0, -2.0), ("step", 0): (-1.0, -3.0, -1.0, -1.5)}
    other = {**means, ("question", -1): (-1.0, -0.5, -2.0, -2.0)}
    logprobs = pl.concat([table(means, (1, 2, 3, 4)), table(other, (1, 2, 3, 4), template=1)])
    # means over templates: -1.75, -2, -2; the tie goes to the lower rank
    assert hardest_negatives(logprobs)["answer_rank"].to_list() == [1, 2, 3]
    for count, expected in ((1, [0.0, -2.5]), (2, [0.5, -0.75])):
        assert template_scores(logprobs, ["marginal"], count)["negative_shift"].to_list() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("logprobs", "conditioning", "count", "words"),
    [
        (BY_HAND.filter(answer_rank=0), "marginal", None, "`t` lacks hard negatives under context step, step_index 0"),
        (BY_HAND.filter(pl.col("answer_rank") > 0), "prefix", None, "`t` lacks a gold answer under context prefix"),
        (BY_HAND.filter(pl.col("context") != "all_but"), "leave_one_out", None, "context all_but, step_index 0"),
        (BY_HAND.filter(pl.col("context") != "question"), "leave_one_out", 1, "cannot be ordered by hardness"),
    ],
)
def test_what_is_missing_is_named(logprobs, conditioning, count, words):
    with pytest.raises(ScoringError) as error:
        template_scores(logprobs, [conditioning], count)
    assert words in str(error.value)
