"""Uncertainty of a figure: the bootstrap over problems, grouped by question, and the paired comparison of two models.

A resample draws as many questions as there are, with replacement; a problem counts as often as its question was drawn.
Any figure that is a function of sums over problems is then a function of `weights @ sums per question`:

    problem   question   right   counted
    0         q0         1       1          question   right   counted       weights         q0   q1
    1         q0         0       1     ->   q0         1       2             all questions   1    1
    2         q1         1       1          q1         1       1             resample        0    2

The resample drew q1 twice: right = 2, counted = 2, an accuracy of 1. The same seed and questions give the same
resamples, so the figures of two models can be subtracted resample by resample. A threshold that is chosen on the
problems it judges is chosen again in every resample (`thresholds`); else its figure's interval would be too narrow.

Resamples of few questions are alike, and an interval would be too narrow: below `FEWEST_UNITS` there is neither an
interval nor a p-value, and of so few questions people are not shown the figure either. An interval
narrows with the root of the number judged: to halve it takes four times as many.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.files.text import counted

Floats = npt.NDArray[np.float64]

QUESTION = "question"
INTERVAL = (0.025, 0.975)
FEWEST_UNITS = 10
"""Resampled units from which an interval, a p-value or a verdict is taken."""
HALF_WIDTH = 0.05
"""Of an interval that is narrow enough."""
CELLS_PER_BLOCK = 200_000
CHANCE_DRAWS = 100
"""Random judges that the level of chance is averaged over."""


def too_few(units: int | None, unit: str | None) -> str:
    """`too few (1 question)`, in place of an interval, p-value or verdict; empty if there are enough units.

    Args:
        units: None if nothing is resampled.
    """
    return "" if units is None or units >= FEWEST_UNITS else f"too few ({counted(units, unit or QUESTION)})"


def is_left_out(units: int | None, unit: str | None) -> bool:
    """Whether people are not shown a figure, since it is of fewer than `FEWEST_UNITS` questions.

    A ratio of costs is shown, though its interval would resample few shards: it counts all that was spent.
    """
    return unit == QUESTION and bool(too_few(units, unit))


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % bootstrap interval.

    Attributes:
        value: NaN if too few units give none, as for a p-value.
        low: lower end of the interval; None if there is none, as from too few units.
        n: problems or steps that the figure is over.
        units: how many are resampled, of two kinds that are compared those with the rarer one; None if nothing is.
        unit: what is resampled.
        p_value: of a difference: two-sided, of no difference; None from too few units.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    units: int | None = None
    unit: str = QUESTION
    p_value: float | None = None

    def through(self, change: Callable[[float], float]) -> "Estimate":
        """The figure in another unit of measure; `change` is monotone."""
        ends = [change(end) for end in (self.low, self.high) if end is not None]
        low, high = min(ends, default=None), max(ends, default=None)
        return replace(self, value=change(self.value), low=low, high=high)

    def scaled(self, factor: float) -> "Estimate":
        """The figure and its interval, multiplied by a factor above 0: 100 for percent."""
        return self.through(lambda value: factor * value)


def share_lacking(figure: Estimate, half_width: float = HALF_WIDTH) -> float | None:
    """Further judgements, as a multiple of those made, that narrow a figure's interval to ± `half_width`.

    Returns:
        None for a point or no interval, and if no number of them is enough.
    """
    if figure.low is None or figure.high is None or figure.low == figure.high or not half_width:
        return None
    times_too_wide = (figure.high - figure.low) / 2 / half_width
    return max(0.0, times_too_wide * times_too_wide - 1)


def shown(figure: Estimate) -> str:
    """`0.601 [0.569, 0.632; n=103]`, `too few (1 question)`"""
    ends = f" [{figure.low:.3f}, {figure.high:.3f}; n={figure.units}]" if figure.low is not None else ""
    return too_few(figure.units, figure.unit) or f"{figure.value:.3f}{ends}"


@dataclass(frozen=True, eq=False)
class Resampled:
    """A figure and its value in each resample; NaN if a resample leaves it undefined.

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

    @classmethod
    def of_judges(cls, figures: Floats, n: int) -> "Resampled":
        """The mean of [judges] figures, each of which is a draw."""
        return cls(float(figures.mean()), figures, n, len(figures), "judge")

    def estimate(self) -> Estimate:
        """The figure with its percentile interval; resamples without a value are left out.

        Raises:
            BenchmarkError: no resample has a value.
        """
        if too_few(self.units, self.unit):
            return Estimate(self.value, None, None, self.n, self.units, self.unit)
        defined = self.draws[np.isfinite(self.draws)]
        if not len(defined):
            raise BenchmarkError("no resample has both right and wrong items; the set is too small for an interval")
        low, high = np.quantile(defined, INTERVAL).tolist()
        return Estimate(self.value, low, high, self.n, self.units, self.unit)

    def minus(self, other: "Resampled") -> Estimate:
        """This figure minus another's over the same problems, resample by resample, with its p-value.

        Raises:
            BenchmarkError: the two were not resampled alike.
        """
        if self.draws.shape != other.draws.shape or self.n != other.n:
            raise BenchmarkError("a paired difference needs both figures over the same problems and resamples")
        draws, units = self.draws - other.draws, min(self.units, other.units)
        apart = Resampled(self.value - other.value, draws, self.n, units, self.unit).estimate()
        if apart.low is None:
            return apart
        # twice the share of resamples on the rarer side of 0; one is added so that it is never 0
        defined = draws[np.isfinite(draws)]
        rarer = min(np.count_nonzero(defined <= 0), np.count_nonzero(defined >= 0))
        return replace(apart, p_value=float(min(1.0, 2 * (rarer + 1) / (len(defined) + 1))))


def group_numbers(groups: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Number the distinct values of `groups` (a question per row) from 0, in sorted order."""
    column = groups if isinstance(groups, pl.Series) else pl.Series(np.asarray(groups))
    if column.dtype != pl.String:
        return np.unique(column.to_numpy(), return_inverse=True)[1].reshape(-1)
    # far faster than to sort texts of which most are repeats
    return column.cast(pl.Enum(column.unique().sort())).to_physical().to_numpy().astype(np.intp)


def weight_blocks(groups: int, samples: int, seed: int, width: int = 1) -> Iterator[Floats]:
    """How often each group counts: once in the first block's only row, then as often as each resample draws it.

    Args:
        seed: the same seed gives the same resamples.
        width: cells a caller needs per resample; blocks are kept small enough for that.

    Yields:
        [block, groups] counts; each row sums to `groups`.
    """
    yield np.ones((1, groups))
    rng = np.random.default_rng(seed)
    block = max(1, CELLS_PER_BLOCK // max(groups, width))
    for start in range(0, samples, block):
        size = min(block, samples - start)
        drawn = rng.integers(groups, size=(size, groups)) + np.arange(size)[:, None] * groups
        counts = np.bincount(drawn.reshape(-1), minlength=size * groups)
        yield counts.reshape(size, groups).astype(np.float64)


def question_weights(questions: int, samples: int, seed: int) -> Floats:
    """All `weight_blocks` as one array, [1 + samples, questions]."""
    return np.concatenate(list(weight_blocks(questions, samples, seed)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's p-values: the chance that any true null hypothesis among those tested is rejected at this level.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none is below a smaller one's, none above 1. A
    missing p-value is not among the m, and stays missing.
    """
    tested = np.array([value for value in p_values if value is not None], dtype=np.float64)
    order = np.argsort(tested)
    adjusted = np.empty_like(tested)
    adjusted[order] = np.minimum(np.maximum.accumulate(tested[order] * np.arange(len(tested), 0, -1)), 1)
    remaining = iter(adjusted.tolist())
    return [None if value is None else next(remaining) for value in p_values]


def bootstrap(
    sums: npt.ArrayLike,
    statistic: Callable[[Floats], Floats],
    samples: int,
    seed: int,
    groups: npt.ArrayLike | None = None,
) -> Resampled:
    """A figure that is a function of sums over problems, with its resamples.

    Args:
        sums: [problems, k] what each problem adds to each of k counts.
        statistic: maps [..., k] totals to [...] figures.
        groups: [problems] question of each problem; by default each problem has its own.

    Raises:
        BenchmarkError: there are no problems.
    """
    totals, units = resampled_totals(sums, samples, seed, groups)
    return Resampled.of(statistic(totals), len(np.asarray(sums)), units)


def resampled_totals(
    sums: npt.ArrayLike, samples: int, seed: int, groups: npt.ArrayLike | None = None
) -> tuple[Floats, int]:
    """[1 + samples, k] sums over all problems and over each resample, and how many questions add to them.

    Args:
        sums, groups: as of `bootstrap`.

    Raises:
        BenchmarkError: there are no problems.
    """
    table = np.asarray(sums, dtype=np.float64)
    if not len(table):
        raise BenchmarkError("there are no problems to compute a figure over; check the benchmark's source")
    numbers = np.arange(len(table)) if groups is None else group_numbers(groups)
    per_group = np.column_stack([np.bincount(numbers, column) for column in table.T]).astype(np.float64, copy=False)
    totals = [weights @ per_group for weights in weight_blocks(len(per_group), samples, seed)]
    return np.concatenate(totals), int(np.count_nonzero(per_group.any(axis=1)))


def bootstrap_mean(values: npt.ArrayLike, samples: int, seed: int, groups: npt.ArrayLike | None = None) -> Resampled:
    """The mean of one value per problem, with its resamples."""
    column = np.asarray(values, dtype=np.float64)
    sums = np.column_stack([column, np.ones_like(column)])
    return bootstrap(sums, lambda totals: totals[..., 0] / totals[..., 1], samples, seed, groups)
