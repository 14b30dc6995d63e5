"""Eq. 3 from stored log-probabilities; by hand and by its laws it is tested in the rewards made of it."""

import polars as pl
import pytest

from cpmi_dagster.contracts.contexts import Context
from cpmi_dagster.contracts.tables import AnswerLogprobs
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.scoring.conditionings import (
    check_scored,
    compare_contexts,
    context_means,
    hardest_negatives,
    shift,
    template_scores,
)

SCHEMA = AnswerLogprobs.create_empty().schema


def table(means, counts, template=0):
    """Log-probabilities from mean ones: {(context, step): (gold, negative 1, negative 2)}."""
    rows = [
        ("t", template, context, step, rank, mean * count, count)
        for (context, step), values in means.items()
        for rank, (mean, count) in enumerate(zip(values, counts, strict=False))
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def test_the_first_negatives_are_the_hardest_given_the_question_over_templates():
    means = {("question", -1): (-1.0, -3.0, -2.0, -2.0), ("step", 0): (-1.0, -3.0, -1.0, -1.5)}
    other = {**means, ("question", -1): (-1.0, -0.5, -2.0, -2.0)}
    logprobs = pl.concat([table(means, (1, 2, 3, 4)), table(other, (1, 2, 3, 4), template=1)])
    # means over templates: -1.75, -2, -2; the tie goes to the lower rank
    assert hardest_negatives(logprobs)["answer_rank"].to_list() == [1, 2, 3]
    compared = compare_contexts(context_means(logprobs), ["marginal"]).sort("template")
    for count, expected in ((1, [0.0, -2.5]), (2, [0.5, -0.75])):
        assert compared.select(shift(f"m{count}")).to_series().to_list() == pytest.approx(expected)


def test_what_is_missing_is_named():
    rows = table(dict.fromkeys([("question", -1), ("step", 0), ("prefix", 0), ("all_but", 0)], (-1.0, -2.0)), (2, 4))
    with pytest.raises(ScoringError, match="`t` lacks hard negatives under context step, step_index 0"):
        template_scores(rows.filter(pl.col("answer_rank") == 0), ["marginal"])
    means = context_means(rows.filter(pl.col("context") != "question"))
    with pytest.raises(ScoringError, match="cannot be ordered by hardness"):
        check_scored(compare_contexts(means, ["leave_one_out"]), ["gold", "m1"])


def test_steps_before_the_answer_follow_from_the_context():
    contexts = [Context("question", -1), Context("prefix", 1), Context("step", 1), Context("all_but", 1)]
    assert [context.steps(3) for context in contexts] == [[], [0, 1], [1], [0, 2]]
