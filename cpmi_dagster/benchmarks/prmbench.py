"""PRMBench: judge every step of a solution into which one kind of error was written.

    {"idx": "prm_test_p1_0", "classification": "circular", "modified_question": "Three pencils and …",
     "modified_process": ["1. Let's …", "2. We have …", "3. …"], "error_steps": [3, 4], …}

`error_steps` counts from 1 in the source and from 0 here. Some rows name a step past their last one (46 of the 3,114
even rows): the number stays in `error_steps`, so that the source's claim can be read, but no step has it, and so it
enters no figure. `multi_solutions` rows have no wrong step.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import polars as pl

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
    Floats,
    Resampled,
    group_numbers,
    mean_of_values,
    question_weights,
)
from cpmi_dagster.benchmarks.thresholds import Chosen, Tally, choose, cross_fitted_totals, totals_at
from cpmi_dagster.errors import BenchmarkError

CROSS_FITTED = f"{OVERALL}, cross-fitted"
KINDS = 2
"""Cells of a category: valid steps, then wrong ones."""
ALL = np.array([np.inf])
"""The threshold that flags every step."""


@dataclass(frozen=True, eq=False)
class _Steps:
    """All steps as one model has judged them.

    Attributes:
        tally: of their scores; cells are valid and wrong steps of each of `CATEGORIES`.
        problems: [categories] how many problems each has.
        questions: [categories] of how many original questions they are.
        weights: [1 + samples, questions] how often each question counts: see `question_weights`.
    """

    tally: Tally
    problems: np.ndarray
    questions: np.ndarray
    weights: Floats

    def thresholds(self, protocol: Protocol, weights: Floats) -> Chosen:
        """What a protocol chooses for every row of [1 + samples, questions] weights."""
        rows = len(weights)
        if protocol == "fixed":
            return Chosen(np.zeros(rows, dtype=np.intp), np.full(rows, FIXED_THRESHOLD))
        pooled = replace(self.tally, cells=self.tally.cells % KINDS, shape=(self.tally.shape[0], KINDS))

        def worth(flagged: Floats, rows: Floats) -> Floats:
            return worth_of_threshold(flagged, pooled.below(ALL, rows), protocol)

        return choose([pooled], weights, worth)

    def figures(self, flagged: Floats) -> dict[tuple[str, str], Resampled]:
        """Every figure with its resamples, by level and name; n counts its own problems.

        Args:
            flagged: [rows, cells] of the tally.
        """
        scores, figures = prm_scores(self.counts(flagged)), {}
        for number, (level, name) in enumerate(FIGURES):
            own = {"category": [number], "group": members(name), "overall": list(range(len(CATEGORIES)))}[level]
            units = self.weights.shape[1] if level == "overall" else int(self.questions[own].min())
            figures[level, name] = Resampled.of(scores[:, number], int(self.problems[own].sum()), units)
        return figures

    def counts(self, flagged: Floats) -> Floats:
        """[rows, categories, counts] from [rows, cells] of flagged steps."""
        passed = self.tally.below(ALL, self.weights)[:, 0] - flagged
        return np.concatenate([each.reshape(-1, len(CATEGORIES), KINDS) for each in (passed, flagged)], axis=-1)

    def tuned(self, protocol: Protocol) -> tuple[Floats, float]:
        """[rows, cells] of flagged steps at each row's threshold, and that of the first row."""
        chosen = self.thresholds(protocol, self.weights)
        return totals_at([self.tally], chosen, self.weights), float(chosen.thresholds[0])


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
    flagged, threshold = steps.tuned(protocol)
    counts = steps.counts(flagged)[0]
    f1, f1_negative = f1_pair(np.vstack([counts, np.full((3, len(COUNTS)), np.nan), counts.sum(axis=0)]))
    scores = _frame(steps.figures(flagged)).with_columns(
        f1=pl.Series(f1, nan_to_null=True),
        f1_negative=pl.Series(f1_negative, nan_to_null=True),
        threshold=pl.lit(threshold),
    )
    if cross_fitted and protocol != "fixed":
        refitted = cross_fitted_totals([steps.tally], partial(steps.thresholds, protocol), steps.weights, seed)
        overall = steps.figures(refitted)[FIGURES[-1]]
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
        guessed = replace(steps, tally=replace(steps.tally, values=random.random(len(steps.tally.values))))
        judges.append(guessed.figures(guessed.tuned(protocol)[0]))
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
    return steps.figures(steps.tuned(protocol)[0])[FIGURES[-1]]


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
    is_wrong = pl.col("step_index").is_in(pl.col("error_steps"))
    steps = steps.with_columns(each=pl.lit(1.0), cell=KINDS * pl.col("category") + is_wrong.cast(pl.Int64))
    asked = judged.select("category", number).unique()["category"]
    columns = (steps[name].to_numpy() for name in ("probability", "each", "cell", "question"))
    return _Steps(
        Tally(*columns, shape=(number.n_unique(), KINDS * len(CATEGORIES))),
        problems=np.bincount(judged["category"].to_numpy(), minlength=len(CATEGORIES)),
        questions=np.bincount(asked.to_numpy(), minlength=len(CATEGORIES)),
        weights=question_weights(number.n_unique(), samples, seed),
    )


def _frame(figures: dict[tuple[str, str], Resampled]) -> pl.DataFrame:
    """level, name, score, low, high, n, units, unit."""
    rows = [{"level": level, "name": name, **asdict(each.estimate())} for (level, name), each in figures.items()]
    return pl.DataFrame(rows).rename({"value": "score"})
