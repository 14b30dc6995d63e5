"""Uncertainty of a figure: the bootstrap over problems, grouped by question, and the paired comparison of two models.

A resample draws as many questions as there are, with replacement; a problem counts as often as its question was drawn.
Any figure that is a function of sums over problems is then a function of `draws @ sums per question`:

    problem   question   right   counted
    0         q0         1       1          question   right   counted
    1         q0         0       1     ->   q0         1       2
    2         q1         1       1          q1         1       1

A resample that drew q1 twice has right = 2, counted = 2: an accuracy of 1. The same seed and questions give the same
resamples, so the figures of two models can be subtracted resample by resample.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpmi_dagster.errors import BenchmarkError

Floats = npt.NDArray[np.float64]

INTERVAL = (0.025, 0.975)
CELLS_PER_BLOCK = 200_000


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % bootstrap interval, taken over `n` problems or steps."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Difference:
    """A paired difference with its 95 % interval and the two-sided bootstrap p-value of no difference."""

    value: float
    low: float
    high: float
    p_value: float
    n: int


@dataclass(frozen=True, eq=False)
class Resampled:
    """A figure and what it would be in each resample; NaN where a resample leaves it undefined."""

    value: float
    draws: Floats
    n: int

    def estimate(self) -> Estimate:
        """The figure with its percentile interval; resamples without a value are left out.

        Raises:
            BenchmarkError: no resample has a value.
        """
        low, high = _percentiles(self.draws)
        return Estimate(self.value, low, high, self.n)

    def minus(self, other: "Resampled") -> Difference:
        """This figure minus another's over the same problems, resample by resample.

        Raises:
            BenchmarkError: the two were not resampled alike.
        """
        if self.draws.shape != other.draws.shape or self.n != other.n:
            raise BenchmarkError("a paired difference needs both figures over the same problems and resamples")
        draws = self.draws - other.draws
        low, high = _percentiles(draws)
        return Difference(self.value - other.value, low, high, _p_value(draws), self.n)


def group_numbers(groups: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Number the distinct values of `groups` (a question per row) from 0, in sorted order."""
    return np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)


def resample_counts(groups: int, samples: int, seed: int, width: int = 1) -> Iterator[Floats]:
    """How often each group is drawn, in blocks of resamples.

    Args:
        seed: the same seed gives the same resamples.
        width: cells a caller needs per resample; blocks are kept small enough for that.

    Yields:
        [block, groups] counts; each row sums to `groups`.
    """
    rng = np.random.default_rng(seed)
    block = max(1, CELLS_PER_BLOCK // max(groups, width))
    for start in range(0, samples, block):
        size = min(block, samples - start)
        drawn = rng.integers(groups, size=(size, groups)) + np.arange(size)[:, None] * groups
        counts = np.bincount(drawn.reshape(-1), minlength=size * groups)
        yield counts.reshape(size, groups).astype(np.float64)


def bootstrap(
    sums: Floats, statistic: Callable[[Floats], Floats], samples: int, seed: int, groups: npt.ArrayLike | None = None
) -> Resampled:
    """A figure that is a function of sums over problems, with its resamples.

    Args:
        sums: [problems, k] what each problem adds to each of k counts, or [problems] for k = 1.
        statistic: maps [..., k] totals to [...] figures.
        groups: [problems] question of each problem; by default each problem has its own.

    Raises:
        BenchmarkError: there are no problems.
    """
    table = np.asarray(sums, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if not len(table):
        raise BenchmarkError("there are no problems to compute a figure over; check the benchmark's source")
    numbers = np.arange(len(table)) if groups is None else group_numbers(groups)
    per_group = np.zeros((int(numbers.max()) + 1, table.shape[1]))
    np.add.at(per_group, numbers, table)
    draws = np.concatenate([counts @ per_group for counts in resample_counts(len(per_group), samples, seed)])
    return Resampled(float(statistic(table.sum(axis=0))), statistic(draws), len(table))


def bootstrap_mean(values: npt.ArrayLike, samples: int, seed: int, groups: npt.ArrayLike | None = None) -> Resampled:
    """The mean of one value per problem, with its resamples."""
    column = np.asarray(values, dtype=np.float64)
    sums = np.column_stack([column, np.ones_like(column)])
    return bootstrap(sums, lambda totals: totals[..., 0] / totals[..., 1], samples, seed, groups)


def _percentiles(draws: Floats) -> tuple[float, float]:
    defined = draws[np.isfinite(draws)]
    if not len(defined):
        raise BenchmarkError("no resample has both right and wrong items; the set is too small for an interval")
    low, high = np.quantile(defined, INTERVAL)
    return float(low), float(high)


def _p_value(differences: Floats) -> float:
    """Twice the share of resamples on the rarer side of 0; one is added so that it is never 0."""
    defined = differences[np.isfinite(differences)]
    rarer = min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0))
    return float(min(1.0, 2 * (rarer + 1) / (len(defined) + 1)))
