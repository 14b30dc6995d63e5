"""PRMBench: judge every step of a solution into which one kind of error was written.

    {"idx": "prm_test_p1_0", "classification": "circular", "modified_question": "Three pencils and …",
     "modified_process": ["1. Let's …", "2. We have …", "3. …"], "error_steps": [3, 4], …}

`error_steps` counts from 1 in the source and from 0 here. Some rows name a step past their last one (46 of the 3,114
even rows): the number stays in `error_steps`, so that the source's claim can be read, but no step has it, and so it
enters no figure. `multi_solutions` rows have no wrong step.
"""

from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.metrics import candidate_thresholds
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.prm_score import (
    CATEGORIES,
    CLASSIFICATIONS,
    COUNTS,
    FIGURES,
    FIXED_THRESHOLD,
    OVERALL,
    Protocol,
    f1_pair,
    members,
    prm_scores,
    worth_of_threshold,
)
from cpmi_dagster.benchmarks.registry import PRMBENCH
from cpmi_dagster.benchmarks.resampling import (
    CHANCE_DRAWS,
    FOLDS,
    Floats,
    Resampled,
    fold_numbers,
    group_numbers,
    mean_of_values,
    question_weights,
)
from cpmi_dagster.benchmarks.thresholds import Tally, choose
from cpmi_dagster.errors import BenchmarkError

CROSS_FITTED = f"{OVERALL}, cross-fitted"
KINDS = 2
"""Cells of a category: valid steps, then wrong ones."""


@dataclass(frozen=True, eq=False)
class _Steps:
    """All steps as one model has judged them.

    Attributes:
        probability: [steps] scores.
        valid: [steps] whether each is right.
        category: [steps] place in `CATEGORIES`.
        question: [steps] number of the original question.
        problems: [categories] how many problems each has.
        questions: [categories] of how many original questions they are.
        weights: [1 + samples, questions] how often each question counts: see `question_weights`.
    """

    probability: Floats
    valid: np.ndarray
    category: np.ndarray
    question: np.ndarray
    problems: np.ndarray
    questions: np.ndarray
    weights: Floats

    def tally(self, cells: np.ndarray, count: int) -> Tally:
        """The steps by their cell, of so many."""
        shape = (self.weights.shape[1], count)
        return Tally(self.probability, np.ones(len(cells)), cells, self.question, shape)


def prmbench_scores(
    predictions: pl.DataFrame,
    problems: pl.DataFrame,
    protocol: Protocol,
    bootstrap_samples: int,
    seed: int,
    *,
    cross_fitted: bool = False,
) -> pl.DataFrame:
    """PRMScore of every category and group and overall, as shares.

    The interval resamples questions; a threshold that the protocol chooses is chosen again in every resample.

    Args:
        predictions: `PRMBenchPredictions` columns of one recipe (recipe and category may be left out).
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.
        protocol: how the probability is found from which a step is valid.
        cross_fitted: whether to add the overall score where each half of the questions is judged at the threshold
            chosen on the other, as `Overall, cross-fitted`; there is none where nothing is chosen.

    Returns:
        level (category, group, overall), name (NR, …, Simplicity, …, Overall), score, f1, f1_negative (null for
        groups), low, high, n (problems), units and unit (a group's: of its smallest category), threshold.

    Raises:
        BenchmarkError: a category is empty, or predictions do not fit the problems.
    """
    steps = _judged_steps(predictions, problems, bootstrap_samples, seed)
    thresholds = _thresholds(steps, protocol, steps.weights)
    totals = _totals(steps, thresholds, steps.weights)
    f1, f1_negative = f1_pair(np.vstack([totals[0], np.full((3, len(COUNTS)), np.nan), totals[0].sum(axis=0)]))
    scores = _frame(_figures(steps, totals)).with_columns(
        f1=pl.Series(f1, nan_to_null=True),
        f1_negative=pl.Series(f1_negative, nan_to_null=True),
        threshold=pl.lit(float(thresholds[0])),
    )
    if cross_fitted and protocol != "fixed":
        folds, totals = fold_numbers(steps.weights.shape[1], seed), np.zeros_like(totals)
        for fold in range(FOLDS):
            on_others = _thresholds(steps, protocol, steps.weights * (folds != fold))
            totals += _totals(steps, on_others, steps.weights * (folds == fold))
        overall = _figures(steps, totals)[FIGURES[-1]]
        scores = pl.concat([scores, _frame({("overall", CROSS_FITTED): overall})], how="diagonal")
    figures = ("score", "f1", "f1_negative", "low", "high", "n", "units", "unit")
    return scores.select("level", "name", *figures, "threshold")


def prmbench_chance(problems: pl.DataFrame, protocol: Protocol, seed: int) -> pl.DataFrame:
    """What step scores have that are drawn uniformly from 0 to 1: means over `CHANCE_DRAWS` judges.

    Returns:
        level, name, score, low, high, n, units, unit as `prmbench_scores`, `low` and `high` the range of 95 % of these
        judges.
    """
    steps, random = _judged_steps(constant_predictions(problems, 1.0), problems, 0, seed), np.random.default_rng(seed)
    judges = []
    for _ in range(CHANCE_DRAWS):
        guessed = replace(steps, probability=random.random(len(steps.probability)))
        judges.append(_chosen_figures(guessed, protocol))
    return _frame({figure: mean_of_values([judge[figure] for judge in judges]) for figure in FIGURES})


def constant_predictions(problems: pl.DataFrame, probability: float) -> pl.DataFrame:
    """The same probability for every step of PRMBench; with 1 the fixed threshold flags nothing."""
    steps = problems.filter(benchmark=PRMBENCH).select(
        "problem_id", pl.int_ranges(pl.col("steps").list.len()).alias("step_index")
    )
    return steps.explode("step_index", empty_as_null=False).with_columns(probability=pl.lit(probability))


def prmbench_overall(
    predictions: pl.DataFrame, problems: pl.DataFrame, protocol: Protocol, samples: int, seed: int
) -> Resampled:
    """Overall PRMScore with its resamples, the same for all models: one minus another's is a paired difference."""
    steps = _judged_steps(predictions, problems, samples, seed)
    return _chosen_figures(steps, protocol)[FIGURES[-1]]


def _judged_steps(predictions: pl.DataFrame, problems: pl.DataFrame, samples: int, seed: int) -> _Steps:
    wanted = problems.filter(benchmark=PRMBENCH)
    for classification in CLASSIFICATIONS:
        if classification not in wanted["category"]:
            raise BenchmarkError(f"PRMBench has no problems of `{classification}`; check its source, split and limit")
    judged = with_probabilities(predictions.drop("category", strict=False), wanted)
    place = pl.col("category").replace_strict(CLASSIFICATIONS, range(len(CATEGORIES)), return_dtype=pl.Int64)
    # the commonest wording among the rows of one `idx`: some categories write their error into the question
    index = pl.col("problem_id").str.replace(r":\w+(:\d+)?$", "")
    original = judged.select(pl.col("question").mode().sort().first().over(index)).to_series()
    judged = judged.with_columns(category=place)
    number = pl.Series("question", group_numbers(original.to_numpy()))
    steps = judged.select(
        "category",
        number,
        "error_steps",
        pl.int_ranges(pl.col("steps").list.len()).alias("step_index"),
        pl.col("probabilities").alias("probability"),
    ).explode("step_index", "probability", empty_as_null=False)
    steps = steps.with_columns(valid=~pl.col("step_index").is_in(pl.col("error_steps")))
    asked = judged.select("category", number).unique()["category"]
    return _Steps(
        *(steps[name].to_numpy() for name in ("probability", "valid", "category", "question")),
        problems=np.bincount(judged["category"].to_numpy(), minlength=len(CATEGORIES)),
        questions=np.bincount(asked.to_numpy(), minlength=len(CATEGORIES)),
        weights=question_weights(number.n_unique(), samples, seed),
    )


def _thresholds(steps: _Steps, protocol: Protocol, weights: Floats) -> Floats:
    """[rows] the threshold of every row of [1 + samples, questions] weights."""
    if protocol == "fixed":
        return np.full(len(weights), FIXED_THRESHOLD)
    kinds = steps.tally(1 - steps.valid, KINDS)
    everything = np.bincount(KINDS * kinds.questions + kinds.cells, minlength=KINDS * weights.shape[1])
    by_question = everything.reshape(-1, KINDS).astype(np.float64)

    def worth(flagged: Floats, rows: Floats) -> Floats:
        return worth_of_threshold(flagged, (rows @ by_question)[:, None], protocol)

    return choose([kinds], [candidate_thresholds(steps.probability)], weights, worth).thresholds


def _totals(steps: _Steps, thresholds: Floats, weights: Floats) -> Floats:
    """[rows, categories, counts] of every row of weights at its threshold."""
    count = KINDS * len(CATEGORIES)
    tally = steps.tally(KINDS * steps.category + 1 - steps.valid, count)
    flagged, everything = (tally.at(at, weights) for at in (thresholds, np.full(len(weights), np.inf)))
    parts = (counts.reshape(-1, len(CATEGORIES), KINDS) for counts in (everything - flagged, flagged))
    return np.concatenate(list(parts), axis=-1)


def _chosen_figures(steps: _Steps, protocol: Protocol) -> dict[tuple[str, str], Resampled]:
    """Every figure where each row of weights has the threshold that the protocol chooses on it."""
    return _figures(steps, _totals(steps, _thresholds(steps, protocol, steps.weights), steps.weights))


def _figures(steps: _Steps, totals: Floats) -> dict[tuple[str, str], Resampled]:
    """Every figure with its resamples, by level and name; n counts its own problems."""
    scores = prm_scores(totals)
    figures = {}
    for number, (level, name) in enumerate(FIGURES):
        own = {"category": [number], "group": members(name), "overall": list(range(len(CATEGORIES)))}[level]
        units = steps.weights.shape[1] if level == "overall" else int(steps.questions[own].min())
        figures[level, name] = Resampled.of(scores[:, number], int(steps.problems[own].sum()), units)
    return figures


def _frame(figures: dict[tuple[str, str], Resampled]) -> pl.DataFrame:
    """level, name, score, low, high, n, units, unit."""
    rows = [{"level": level, "name": name, **asdict(each.estimate())} for (level, name), each in figures.items()]
    return pl.DataFrame(rows).rename({"value": "score"})
