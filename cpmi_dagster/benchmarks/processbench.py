"""ProcessBench: find the first wrong step of a solution, or say that there is none.

    {"id": "math-0", "problem": "Determine the remainder of 194 (mod 11).", "steps": ["To …", "Since …"], "label": 0}

`label` is the 0-based first wrong step, -1 for none. The prediction is the first step whose probability is below the
threshold, else -1; so a problem is judged right by exactly the thresholds of one interval:

    probabilities        label   judged right by thresholds in
    [0.9, 0.8, 0.3]      2       (0.3, 0.8]
    [0.9, 0.8, 0.3]      0       none: a threshold above 0.9 flags step 0, so (0.9, inf)
    [0.9, 0.8, 0.3]      -1      (-inf, 0.3]

F1 = 2 err cor / (err + cor), of the accuracies on solutions with an error and without. All figures are shares, not
percent. Protocol `official` takes the threshold best on GSM8K for all subsets, `paper` the best of each subset.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.metrics import candidate_thresholds, f1_of_accuracies
from cpmi_dagster.benchmarks.predictions import with_probabilities
from cpmi_dagster.benchmarks.registry import AVERAGED_BENCHMARKS, SUBSETS
from cpmi_dagster.benchmarks.resampling import Difference, Floats, Resampled, bootstrap
from cpmi_dagster.errors import BenchmarkError

Protocol = Literal["official", "paper"]

THRESHOLD_SUBSET = "gsm8k"
AVERAGE = "average"
ALL_SUBSETS: tuple[str, ...] = tuple(SUBSETS.values())
AVERAGED: tuple[str, ...] = tuple(SUBSETS[name] for name in AVERAGED_BENCHMARKS)


@dataclass(frozen=True, eq=False)
class _SubsetScore:
    """What one subset scores at its threshold."""

    threshold: float
    err: float
    cor: float
    f1: Resampled


def predicted_first_error(probabilities: pl.Expr, threshold: float) -> pl.Expr:
    """The first step of a list column whose probability is below the threshold, else -1."""
    below = probabilities.list.eval(pl.element() < threshold)
    return pl.when(below.list.any()).then(below.list.arg_max()).otherwise(-1).cast(pl.Int64)


def best_threshold(low: Floats, high: Floats, erroneous: np.ndarray) -> float:
    """The threshold with the highest F1, exact over all scores; the lowest of several.

    Args:
        low: [problems] problem i is judged right by thresholds t with low[i] < t <= high[i].
        high: [problems] see `low`.
        erroneous: [problems] whether the solution has an error.
    """
    ends = np.concatenate([low, high])
    thresholds = candidate_thresholds(ends[np.isfinite(ends)])
    possible = low < high

    def accuracy(kind: np.ndarray) -> Floats:
        above = np.searchsorted(np.sort(low[kind & possible]), thresholds, side="left")
        passed = np.searchsorted(np.sort(high[kind & possible]), thresholds, side="left")
        return (above - passed) / np.count_nonzero(kind)

    return float(thresholds[np.argmax(f1_of_accuracies(accuracy(erroneous), accuracy(~erroneous)))])


def processbench_scores(
    predictions: pl.DataFrame,
    problems: pl.DataFrame,
    protocol: Protocol,
    bootstrap_samples: int,
    seed: int,
    subsets: Collection[str] = AVERAGED,
) -> pl.DataFrame:
    """Err, Corr and F1 of every subset and the plain mean of the paper's four, as shares.

    The interval holds the threshold fixed and resamples questions.

    Args:
        predictions: `ProcessBenchPredictions` columns of one recipe (recipe may be left out).
        problems: `BenchmarkProblems` rows; those of other benchmarks are ignored.
        subsets: which subsets to score; `official` needs GSM8K among them.

    Returns:
        subset, err, cor, f1, low, high, n, threshold; the last row is `average`, its threshold null under `paper`, and
        absent unless all four are scored.

    Raises:
        BenchmarkError: a subset is empty or one-sided, predictions do not fit it, or GSM8K is missing.
    """
    judged = _judged_subsets(predictions, problems, protocol, bootstrap_samples, seed, subsets)
    rows = [_score_row(name, s.err, s.cor, s.f1, s.threshold) for name, s in judged.items()]
    if not set(AVERAGED) <= set(judged):
        return pl.DataFrame(rows)
    err, cor = np.mean([(judged[name].err, judged[name].cor) for name in AVERAGED], axis=0).tolist()
    threshold = judged[THRESHOLD_SUBSET].threshold if protocol == "official" else None
    return pl.DataFrame([*rows, _score_row(AVERAGE, err, cor, _average(judged), threshold)])


def processbench_difference(
    first: pl.DataFrame, second: pl.DataFrame, problems: pl.DataFrame, protocol: Protocol, samples: int, seed: int
) -> Difference:
    """Average F1 of one model minus another's, over the same resampled questions."""
    models = [_average(_judged_subsets(each, problems, protocol, samples, seed)) for each in (first, second)]
    return models[0].minus(models[1])


def _judged_subsets(
    predictions: pl.DataFrame,
    problems: pl.DataFrame,
    protocol: Protocol,
    samples: int,
    seed: int,
    subsets: Collection[str] = AVERAGED,
) -> dict[str, _SubsetScore]:
    """The subsets scored at their thresholds, in the order of `SUBSETS`."""
    names = {name: subset for name, subset in SUBSETS.items() if subset in subsets}
    if protocol == "official" and THRESHOLD_SUBSET not in subsets:
        raise BenchmarkError("the official protocol takes its threshold from GSM8K; judge processbench_gsm8k too")
    judged = with_probabilities(predictions, problems.filter(pl.col("benchmark").is_in(list(names))))
    tables = {subset: _right_intervals(judged.filter(benchmark=name), name) for name, subset in names.items()}
    scores = {}
    for subset, table in tables.items():
        threshold = best_threshold(*_arrays(tables[THRESHOLD_SUBSET] if protocol == "official" else table))
        scores[subset] = _score(table, threshold, samples, seed + ALL_SUBSETS.index(subset))
    return scores


def _right_intervals(judged: pl.DataFrame, name: str) -> pl.DataFrame:
    """question, low, high, erroneous: thresholds in (low, high] judge the problem right."""
    erroneous = judged["first_error"] >= 0
    if erroneous.all() or not erroneous.any():
        raise BenchmarkError(f"{name} needs solutions both with and without an error for its F1; it has {len(judged)}")
    scores, label = pl.col("probabilities"), pl.col("first_error")
    before = scores.list.head(label.clip(0)).list.min().fill_null(float("inf"))
    return judged.select(
        "question",
        pl.when(label < 0).then(-float("inf")).otherwise(scores.list.get(label.clip(0))).alias("low"),
        pl.when(label < 0).then(scores.list.min()).otherwise(before).alias("high"),
        (label >= 0).alias("erroneous"),
    )


def _arrays(table: pl.DataFrame) -> tuple[Floats, Floats, np.ndarray]:
    return table["low"].to_numpy(), table["high"].to_numpy(), table["erroneous"].to_numpy()


def _score(table: pl.DataFrame, threshold: float, samples: int, seed: int) -> _SubsetScore:
    low, high, erroneous = _arrays(table)
    right = (low < threshold) & (threshold <= high)
    sums = np.column_stack([right & erroneous, erroneous, right & ~erroneous, ~erroneous]).astype(np.float64)
    err, cor = right[erroneous].mean(), right[~erroneous].mean()
    f1 = bootstrap(sums, _f1_of_sums, samples, seed, table["question"].to_numpy())
    return _SubsetScore(threshold, float(err), float(cor), f1)


def _f1_of_sums(totals: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return f1_of_accuracies(totals[..., 0] / totals[..., 1], totals[..., 2] / totals[..., 3])


def _average(judged: dict[str, _SubsetScore]) -> Resampled:
    """Plain mean of the F1 of the paper's subsets; each subset is resampled on its own."""
    f1 = [judged[name].f1 for name in AVERAGED]
    return Resampled(
        float(np.mean([each.value for each in f1])),
        np.mean([each.draws for each in f1], axis=0),
        sum(each.n for each in f1),
    )


def _score_row(subset: str, err: float, cor: float, f1: Resampled, threshold: float | None) -> dict[str, object]:
    figure = asdict(f1.estimate())
    return {"subset": subset, "err": err, "cor": cor, "f1": figure.pop("value"), **figure, "threshold": threshold}
