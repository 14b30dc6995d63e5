"""Uncertainty of a figure: the bootstrap over problems, grouped by question, and the paired comparison of two models.

A resample draws as many questions as there are, with replacement; a problem counts as often as its question was drawn.
Any figure that is a function of sums over problems is then a function of `draws @ sums per question`:

    problem   question   right   counted
    0         q0         1       1          question   right   counted
    1         q0         0       1     ->   q0         1       2
    2         q1         1       1          q1         1       1

A resample that drew q1 twice has right = 2, counted = 2: an accuracy of 1. The same seed and questions give the same
resamples, so the figures of two models can be subtracted resample by resample.

A threshold that is chosen on the problems it judges is chosen again in every resample (`thresholds`); else the interval
of its figure would be too narrow. `question_weights` says how often each question counts:

    question       q0   q1
    all questions   1    1
    resample        0    2

Resamples of few questions are alike, and an interval would be too narrow: below `FEWEST_UNITS` there is neither an
interval nor a p-value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.files.text import counted

Floats = npt.NDArray[np.float64]

QUESTION = "question"
INTERVAL = (0.025, 0.975)
FEWEST_UNITS = 10
"""Resampled units from which an interval, a p-value or a verdict is taken."""
CELLS_PER_BLOCK = 200_000
FOLDS = 2
"""Parts of the questions between which thresholds are cross-fitted."""
CHANCE_DRAWS = 100
"""Random judges that the level of chance is averaged over."""


def too_few(units: int | None, unit: str | None) -> str:
    """What stands in the place of an interval, a p-value or a verdict: `too few (1 question)`; empty from enough units.

    Args:
        units: None where nothing is resampled.
    """
    return "" if units is None or units >= FEWEST_UNITS else f"too few ({counted(units, unit or QUESTION)})"


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % bootstrap interval.

    Attributes:
        low: lower end of the interval; None where there is none, as from too few units.
        n: problems or steps that the figure is over.
        units: how many are resampled, where two kinds are compared those with the rarer one; None where nothing is.
        unit: what is resampled.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    units: int | None = None
    unit: str = QUESTION

    def through(self, change: Callable[[float], float]) -> "Estimate":
        """The figure in another unit of measure; `change` is monotone."""
        ends = [change(end) for end in (self.low, self.high) if end is not None]
        low, high = min(ends, default=None), max(ends, default=None)
        return Estimate(change(self.value), low, high, self.n, self.units, self.unit)


@dataclass(frozen=True)
class Difference(Estimate):
    """A difference, with the two-sided bootstrap p-value of none; null from too few units."""

    p_value: float | None = None


def shown(figure: Estimate) -> str:
    """`0.601 [0.569, 0.632; n=103]`, `0.601 too few (1 question)`"""
    ends = f"[{figure.low:.3f}, {figure.high:.3f}; n={figure.units}]" if figure.low is not None else ""
    return f"{figure.value:.3f} {ends or too_few(figure.units, figure.unit)}".strip()


@dataclass(frozen=True, eq=False)
class Resampled:
    """A figure and what it would be in each resample; NaN where a resample leaves it undefined.

    Attributes:
        n, units, unit: as of an `Estimate`.
    """

    value: float
    draws: Floats
    n: int
    units: int
    unit: str = QUESTION

    @classmethod
    def of(cls, figures: Floats, n: int, units: int) -> "Resampled":
        """From [1 + samples] figures, the first of them over all questions, as `question_weights` has them."""
        return cls(float(figures[0]), figures[1:], n, units)

    def estimate(self) -> Estimate:
        """The figure with its percentile interval; resamples without a value are left out.

        Raises:
            BenchmarkError: no resample has a value.
        """
        return Estimate(self.value, *self._interval(), self.n, self.units, self.unit)

    def minus(self, other: "Resampled") -> Difference:
        """This figure minus another's over the same problems, resample by resample.

        Raises:
            BenchmarkError: the two were not resampled alike.
        """
        if self.draws.shape != other.draws.shape or self.n != other.n:
            raise BenchmarkError("a paired difference needs both figures over the same problems and resamples")
        units = min(self.units, other.units)
        apart = Resampled(self.value - other.value, self.draws - other.draws, self.n, units, self.unit)
        (low, high), p_value = apart._interval(), None
        if low is not None:
            # twice the share of resamples on the rarer side of 0; one is added so that it is never 0
            defined = apart.draws[np.isfinite(apart.draws)]
            rarer = min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0))
            p_value = float(min(1.0, 2 * (rarer + 1) / (len(defined) + 1)))
        return Difference(apart.value, low, high, self.n, units, self.unit, p_value)

    def _interval(self) -> tuple[float, float] | tuple[None, None]:
        if too_few(self.units, self.unit):
            return None, None
        defined = self.draws[np.isfinite(self.draws)]
        if not len(defined):
            raise BenchmarkError("no resample has both right and wrong items; the set is too small for an interval")
        low, high = np.quantile(defined, INTERVAL)
        return float(low), float(high)


def mean_of_values(figures: Sequence[Resampled]) -> Resampled:
    """The mean of one figure of several judges, each of whom is a draw."""
    return of_judges(np.array([figure.value for figure in figures]), figures[0].n)


def of_judges(values: Floats, n: int) -> Resampled:
    """The mean of [judges] figures, each of whom is a draw."""
    return Resampled(float(values.mean()), values, n, len(values), "judge")


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


def question_weights(questions: int, samples: int, seed: int) -> Floats:
    """How often each question counts: once in the first row, then as often as each resample draws it.

    Returns:
        [1 + samples, questions]; the same seed gives the same resamples as `bootstrap`.
    """
    return np.concatenate([np.ones((1, questions)), *resample_counts(questions, samples, seed)])


def fold_numbers(questions: int, seed: int) -> npt.NDArray[np.intp]:
    """[questions] which of `FOLDS` equal parts each question is in, drawn at random."""
    return np.random.default_rng(seed).permutation(questions) % FOLDS


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's p-values: the chance that any true null hypothesis among those tested is rejected at this level.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none is below a smaller one's, none above 1. What
    has no p-value is not among the m, and has none.
    """
    given = np.array([value for value in p_values if value is not None], dtype=np.float64)
    order = np.argsort(given)
    steps = given[order] * np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    found = iter(adjusted.tolist())
    return [None if value is None else next(found) for value in p_values]


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
    per_group = np.column_stack([np.bincount(numbers, column) for column in table.T]).astype(np.float64, copy=False)
    draws = np.concatenate([counts @ per_group for counts in resample_counts(len(per_group), samples, seed)])
    units = int(np.count_nonzero(per_group.any(axis=1)))
    return Resampled(float(statistic(table.sum(axis=0))), statistic(draws), len(table), units)


def bootstrap_mean(values: npt.ArrayLike, samples: int, seed: int, groups: npt.ArrayLike | None = None) -> Resampled:
    """The mean of one value per problem, with its resamples."""
    column = np.asarray(values, dtype=np.float64)
    sums = np.column_stack([column, np.ones_like(column)])
    return bootstrap(sums, share, samples, seed, groups)


def share(totals: Floats) -> Floats:
    """The first of two sums as a share of the second: [..., 2] -> [...]."""
    return totals[..., 0] / totals[..., 1]
