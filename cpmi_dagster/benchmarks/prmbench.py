"""PRMBench: judge every step of a solution into which one kind of error was written.

    {"idx": "prm_test_p1_0", "classification": "circular", "modified_question": "Three pencils and …",
     "modified_process": ["1. Let's …", "2. We have …", "3. …"], "error_steps": [3, 4], …}

`error_steps` counts from 1 in the source and from 0 here. Some rows name a step past their last one (46 of the 3,114
even rows): the number stays in `error_steps`, so that the source's claim can be read, but no step has it, and so it
enters no figure. `multi_solutions` rows have no wrong step.

A step is passed if its probability is at least the threshold, else flagged. With 5 valid steps passed, 1 wrong one
passed, 2 valid ones flagged and 2 wrong ones flagged:

    F1     = 2·5 / (2·5 + 1 + 2) = 0.769   valid steps as positive
    F1_neg = 2·2 / (2·2 + 2 + 1) = 0.571   wrong steps as positive
    PRMScore = (F1 + F1_neg) / 2 = 0.670

`multi_solutions` has no wrong steps and uses F1 alone. A group's score is the unweighted mean of its categories; the
overall score pools the steps of all categories. Figures are shares, not percent.

Protocols differ in the one threshold for all steps. For random scores, with a sixth of the steps wrong:

    released   maximises F1_neg, as in the paper      all is flagged: F1 = 0, F1_neg = 0.29, PRMScore = 0.14
    best       maximises the overall PRMScore         some are flagged; nothing flagged has 0.45 already
    fixed      0.5                                    half is flagged: F1 = 0.63, F1_neg = 0.25, PRMScore = 0.44

A probability always speaks for the step: no protocol tries the inverted sign.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.readers import CATEGORIES, CLASSIFICATIONS
from cpmi_dagster.benchmarks.registry import PRMBENCH
from cpmi_dagster.benchmarks.resampling import CHANCE_DRAWS, Floats, Resampled, group_numbers, question_weights
from cpmi_dagster.benchmarks.thresholds import Chosen, Tally, choose, cross_fitted_totals, totals_at
from cpmi_dagster.errors import BenchmarkError

GROUPS: tuple[str, ...] = tuple(dict.fromkeys(category.group for category in CATEGORIES))
OVERALL = "Overall"
FIGURES: tuple[tuple[str, str], ...] = (
    *(("category", category.short_name) for category in CATEGORIES),
    *(("group", group) for group in GROUPS),
    ("overall", OVERALL),
)
COUNTS = ("valid_passed", "wrong_passed", "valid_flagged", "wrong_flagged")
F1_ALONE = "multi_solutions"
Protocol = Literal["released", "best", "fixed"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
CROSS_FITTED = f"{OVERALL}, cross-fitted"
KINDS = 2
"""Cells of a category: valid steps, then wrong ones."""
ALL = np.array([np.inf])
"""The threshold that flags every step."""


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps as one model has judged them.

    Attributes:
        tally: of their scores; cells are valid and wrong steps of each of `CATEGORIES`.
        problems: [categories] how many problems each has.
        questions: [categories] of how many original questions they are.
        weights: [1 + samples, questions] how often each question counts: see `question_weights`.
        protocol: how the threshold is chosen.
    """

    tally: Tally
    problems: np.ndarray
    questions: np.ndarray
    weights: Floats
    protocol: Protocol = "released"

    def thresholds(self, weights: Floats) -> Chosen:
        """The protocol's choice for every row of [1 + samples, questions] weights."""
        if self.protocol == "fixed":
            return Chosen.fixed(weights)
        pooled = replace(self.tally, cells=self.tally.cells % KINDS, shape=(self.tally.shape[0], KINDS))
        return choose(
            [pooled],
            weights,
            lambda flagged, rows: protocol_objective(flagged, pooled.below(ALL, rows), self.protocol),
        )

    def counts(self, flagged: Floats) -> Floats:
        """[rows, categories, counts] from [rows, cells] of flagged steps."""
        passed = self.tally.below(ALL, self.weights)[:, 0] - flagged
        return np.concatenate([each.reshape(-1, len(CATEGORIES), KINDS) for each in (passed, flagged)], axis=-1)

    def sizes(self, level: str, name: str) -> tuple[int, int]:
        """Problems behind a figure, and questions: those of its smallest category."""
        if level == "overall":
            return int(self.problems.sum()), self.weights.shape[1]
        places = [number for number, each in enumerate(CATEGORIES) if name in (each.short_name, each.group)]
        return int(self.problems[places].sum()), int(self.questions[places].min())

    def figures(self, flagged: Floats) -> dict[tuple[str, str], Resampled]:
        """Every figure with its resamples, by level and name, from [rows, cells] of flagged steps."""
        scores = prm_scores(self.counts(flagged))
        return {figure: Resampled.of(scores[:, number], *self.sizes(*figure)) for number, figure in enumerate(FIGURES)}


class PrmScores(NamedTuple):
    """The figures of one judge by one protocol.

    Attributes:
        figures: PRMScore as a share, by level (category, group, overall) and name (NR, …, Simplicity, …, Overall).
        counts: [categories, 4] of steps over all questions, in the order of `COUNTS`.
        threshold: probability from which a step is valid, over all questions.
    """

    figures: Mapping[tuple[str, str], Resampled]
    counts: Floats
    threshold: float


def prmbench_scores(
    predictions: pl.DataFrame | float,
    problems: pl.DataFrame,
    bootstrap_samples: int,
    seed: int,
    protocols: Collection[Protocol] = PROTOCOLS,
) -> dict[Protocol, PrmScores]:
    """PRMScore of every category and group and overall, by protocol.

    The interval resamples questions; a threshold that the protocol chooses is chosen again in every resample. If one is
    chosen, `CROSS_FITTED` has each half of the questions judged at the threshold chosen on the other.

    Args:
        predictions: `PRMBenchPredictions` columns of one recipe (recipe and category may be left out), or one
            probability for all steps: with 1 the fixed threshold flags nothing.
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.

    Raises:
        BenchmarkError: a category is empty, or predictions do not fit the problems.
    """
    judged, scores = _judged_steps(predictions, problems, bootstrap_samples, seed), {}
    for protocol in protocols:
        steps = replace(judged, protocol=protocol)
        chosen = steps.thresholds(steps.weights)
        flagged = totals_at([steps.tally], chosen, steps.weights)
        figures = steps.figures(flagged)
        if protocol != "fixed":
            refitted = cross_fitted_totals([steps.tally], steps.thresholds, steps.weights, seed)
            figures["overall", CROSS_FITTED] = steps.figures(refitted)["overall", OVERALL]
        scores[protocol] = PrmScores(figures, steps.counts(flagged)[0], float(chosen.thresholds[0]))
    return scores


def prmbench_chance(problems: pl.DataFrame, protocol: Protocol, seed: int) -> dict[tuple[str, str], Resampled]:
    """The figures of uniform random step probabilities: means over `CHANCE_DRAWS` judges, each of which is a draw."""
    steps = replace(_judged_steps(1.0, problems, 0, seed), protocol=protocol)
    random, judges = np.random.default_rng(seed), []
    for _ in range(CHANCE_DRAWS):
        guess = replace(steps, tally=replace(steps.tally, values=random.random(len(steps.tally.values))))
        flagged = totals_at([guess.tally], guess.thresholds(steps.weights), steps.weights)
        judges.append(prm_scores(guess.counts(flagged))[0])
    means = zip(FIGURES, np.array(judges).T, strict=True)
    return {figure: Resampled.of_judges(scores, steps.sizes(*figure)[0]) for figure, scores in means}


def _judged_steps(predictions: pl.DataFrame | float, problems: pl.DataFrame, samples: int, seed: int) -> Steps:
    wanted = problems.filter(benchmark=PRMBENCH).sort("problem_id")
    for classification in CLASSIFICATIONS:
        if classification not in wanted["category"]:
            raise BenchmarkError(f"PRMBench has no problems of `{classification}`; check its source, split and limit")
    judged = with_probabilities(predictions, wanted)
    # the commonest wording among the rows of one `idx`: some categories write their error into the question
    index = pl.col("problem_id").str.replace(r":\w+(:\d+)?$", "")
    original = judged.select(pl.col("question").mode().sort().first().over(index)).to_series()
    judged = judged.with_columns(
        pl.col("category").replace_strict(CLASSIFICATIONS, range(len(CATEGORIES)), return_dtype=pl.Int64),
        question=group_numbers(original.to_numpy()),
        step_index=pl.int_ranges(pl.col("steps").list.len()),
    )
    steps = judged.explode("step_index", "probabilities", empty_as_null=False)
    is_wrong = steps.select(pl.col("step_index").is_in(pl.col("error_steps"))).to_series().to_numpy()
    categories, questions, scores = (steps[name].to_numpy() for name in ("category", "question", "probabilities"))
    count = judged["question"].n_unique()
    cells = (count, KINDS * len(CATEGORIES))
    categories_asked = judged.unique(["category", "question"])["category"]
    return Steps(
        Tally(scores, np.ones(len(steps)), KINDS * categories + is_wrong, questions, cells),
        *(np.bincount(each.to_numpy(), minlength=len(CATEGORIES)) for each in (judged["category"], categories_asked)),
        weights=question_weights(count, samples, seed),
    )


def f1_of_counts(hits: npt.ArrayLike, false_alarms: npt.ArrayLike, misses: npt.ArrayLike) -> Floats:
    """F1 from true positives, false positives and false negatives, 0 if there are no true positives."""
    twice = 2 * np.asarray(hits, dtype=np.float64)
    total = twice + np.asarray(false_alarms) + np.asarray(misses)
    return twice / np.where(total == 0, 1, total)


def f1_pair(counts: Floats) -> tuple[Floats, Floats]:
    """F1 of valid steps and F1 of wrong steps, 0 if undefined.

    Args:
        counts: [..., 4] in the order of `COUNTS`.
    """
    valid_passed, wrong_passed, valid_flagged, wrong_flagged = np.moveaxis(counts, -1, 0)
    f1 = f1_of_counts(valid_passed, wrong_passed, valid_flagged)
    return f1, f1_of_counts(wrong_flagged, valid_flagged, wrong_passed)


def prm_scores(counts: Floats) -> Floats:
    """Scores of all `FIGURES`.

    Args:
        counts: [..., 9, 4] by `CATEGORIES` and `COUNTS`.

    Returns:
        [..., 13] in the order of `FIGURES`.
    """
    f1, f1_negative = f1_pair(counts)
    categories = np.where(np.array(CLASSIFICATIONS) == F1_ALONE, f1, (f1 + f1_negative) / 2)
    groups = [categories[..., members(group)].mean(axis=-1) for group in GROUPS]
    overall = np.mean(f1_pair(counts.sum(axis=-2)), axis=0)
    return np.concatenate([categories, np.stack([*groups, overall], axis=-1)], axis=-1)


def members(group: str) -> list[int]:
    """Positions in `CATEGORIES` of a group's categories."""
    return [number for number, category in enumerate(CATEGORIES) if category.group == group]


def protocol_objective(flagged: Floats, everything: Floats, how: Protocol) -> Floats:
    """The figure that a protocol maximises.

    Args:
        flagged: [..., 2] how many valid and wrong steps are below a threshold.
        everything: [..., 2] how many there are.
    """
    (valid_flagged, wrong_flagged), (valid, wrong) = (np.moveaxis(counts, -1, 0) for counts in (flagged, everything))
    reached = f1_of_counts(wrong_flagged, valid_flagged, wrong - wrong_flagged)
    if how == "best":
        reached += f1_of_counts(valid - valid_flagged, wrong - wrong_flagged, valid_flagged)
    return reached
