"""PRMBench: judge every step of a solution into which one kind of error was written.

    {"idx": "prm_test_p1_0", "classification": "circular", "modified_question": "Three pencils and …",
     "modified_process": ["1. Let's …", "2. We have …", "3. …"], "error_steps": [3, 4], …}

`error_steps` counts from 1 in the source and from 0 here. Some rows name a step past their last one (46 of the 3,114
even rows): the number stays in `error_steps`, so that the source's claim can be read, but no step has it, and so it
enters no figure. `multi_solutions` rows have no wrong step.
"""

from dataclasses import replace

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.prm_score import (
    CATEGORIES,
    CLASSIFICATIONS,
    COUNTS,
    FIGURES,
    best_threshold,
    f1_pair,
    members,
    prm_scores,
)
from cpmi_dagster.benchmarks.registry import PRMBENCH
from cpmi_dagster.benchmarks.resampling import Difference, Floats, Resampled, bootstrap
from cpmi_dagster.errors import BenchmarkError


def prmbench_scores(
    predictions: pl.DataFrame,
    problems: pl.DataFrame,
    bootstrap_samples: int,
    seed: int,
    threshold: float | None = None,
) -> pl.DataFrame:
    """PRMScore of every category and group and overall, as shares.

    The interval holds the threshold fixed and resamples questions.

    Args:
        predictions: `PRMBenchPredictions` columns of one recipe (recipe and category may be left out).
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.
        threshold: probability from which a step is valid; by default the one with the best overall score (paper).

    Returns:
        level (category, group, overall), name (NR, …, Simplicity, …, Overall), score, f1, f1_negative (null for
        groups), low, high, n (problems), threshold.

    Raises:
        BenchmarkError: a category is empty, or predictions do not fit the problems.
    """
    steps = _judged_steps(predictions, problems)
    chosen = _best_threshold(steps) if threshold is None else threshold
    counts = _counts_per_problem(steps, chosen)
    totals = _by_category(counts).sum(axis=0)
    f1, f1_negative = f1_pair(np.vstack([totals, np.full((3, len(COUNTS)), np.nan), totals.sum(axis=0)]))
    estimates = [_figure(counts, number, bootstrap_samples, seed).estimate() for number in range(len(FIGURES))]
    scores = pl.DataFrame(FIGURES, schema=["level", "name"], orient="row").hstack(pl.DataFrame(estimates))
    return scores.select(
        "level",
        "name",
        score="value",
        f1=pl.Series(f1, nan_to_null=True),
        f1_negative=pl.Series(f1_negative, nan_to_null=True),
        low="low",
        high="high",
        n="n",
        threshold=pl.lit(chosen),
    )


def prmbench_difference(
    first: pl.DataFrame, second: pl.DataFrame, problems: pl.DataFrame, samples: int, seed: int
) -> Difference:
    """Overall PRMScore of one model minus another's, each at its best threshold, over the same resampled questions."""

    def overall(predictions: pl.DataFrame) -> Resampled:
        steps = _judged_steps(predictions, problems)
        return _figure(_counts_per_problem(steps, _best_threshold(steps)), len(FIGURES) - 1, samples, seed)

    return overall(first).minus(overall(second))


def _judged_steps(predictions: pl.DataFrame, problems: pl.DataFrame) -> pl.DataFrame:
    """category, problem_id, original_question, probability, valid of every step."""
    wanted = problems.filter(benchmark=PRMBENCH)
    for classification in CLASSIFICATIONS:
        if classification not in wanted["category"]:
            raise BenchmarkError(f"PRMBench has no problems of `{classification}`; check its source and split")
    judged = with_probabilities(predictions.drop("category", strict=False), wanted)
    steps = judged.select(
        "category",
        "problem_id",
        "error_steps",
        _original_question(),
        pl.int_ranges(pl.col("steps").list.len()).alias("step_index"),
        pl.col("probabilities").alias("probability"),
    ).explode("step_index", "probability", empty_as_null=False)
    return steps.with_columns(valid=~pl.col("step_index").is_in(pl.col("error_steps")))


def _original_question() -> pl.Expr:
    """The commonest wording among the rows of one `idx`: some categories write their error into the question."""
    index = pl.col("problem_id").str.replace(r":\w+(:\d+)?$", "")
    return pl.col("question").mode().sort().first().over(index).alias("original_question")


def _best_threshold(steps: pl.DataFrame) -> float:
    return best_threshold(steps["probability"].to_numpy(), steps["valid"].to_numpy())


def _counts_per_problem(steps: pl.DataFrame, threshold: float) -> pl.DataFrame:
    passed, valid = pl.col("probability") >= threshold, pl.col("valid")
    outcomes = (passed & valid, passed & ~valid, ~passed & valid, ~passed & ~valid)
    return steps.group_by("problem_id", maintain_order=True).agg(
        pl.first("category", "original_question"),
        *(outcome.sum().alias(name) for name, outcome in zip(COUNTS, outcomes, strict=True)),
    )


def _by_category(counts: pl.DataFrame) -> Floats:
    """[problems, categories, counts]: a problem's counts in the place of its category, 0 elsewhere."""
    own = counts["category"].to_numpy()[:, None] == np.array(CLASSIFICATIONS)
    return own[:, :, None] * counts.select(COUNTS).to_numpy()[:, None, :].astype(np.float64)


def _figure(counts: pl.DataFrame, number: int, samples: int, seed: int) -> Resampled:
    """Figure `number` of `FIGURES` with its resamples; n counts its own problems."""
    level, name = FIGURES[number]
    own = {"category": [number], "group": members(name), "overall": list(range(len(CATEGORIES)))}[level]
    problems = counts["category"].is_in([CLASSIFICATIONS[i] for i in own]).sum()

    def score(totals: Floats) -> Floats:
        return prm_scores(totals.reshape(*totals.shape[:-1], len(CATEGORIES), len(COUNTS)))[..., number]

    sums = _by_category(counts).reshape(len(counts), -1)
    questions = counts["original_question"].to_numpy()
    return replace(bootstrap(sums, score, samples, seed, questions), n=int(problems))
