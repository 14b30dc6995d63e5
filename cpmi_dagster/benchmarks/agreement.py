"""How far two people agree on the steps that both have judged, and how many steps a figure still lacks.

    step   one     other
    a      right   right
    b      right   wrong        they agree on 2 of 3 steps; Cohen's kappa, agreement beyond chance, is 0.4
    c      wrong   wrong

The interval of a figure narrows with the root of the number of steps: to halve it takes four times as many.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cpmi_dagster.benchmarks.resampling import Estimate, Floats, Resampled, bootstrap, share

HALF_WIDTH = 0.05


class Agreement(NamedTuple):
    """How far two people agree.

    Attributes:
        alike: the share of steps of which both say the same.
        kappa: Cohen's; None where chance alone has them agree, as both say the same of every step.
    """

    alike: Resampled
    kappa: Resampled | None


def agreement(one: npt.ArrayLike, other: npt.ArrayLike, questions: npt.ArrayLike, samples: int, seed: int) -> Agreement:
    """How far two people agree, resampled over questions.

    Args:
        one: [steps] whether each is right, by one of them.
        other: [steps] by the other.
        questions: [steps] question of each.
    """
    first, second = np.asarray(one, dtype=bool), np.asarray(other, dtype=bool)
    sums = np.column_stack([first == second, np.ones_like(first), first, second]).astype(np.float64)
    alike = bootstrap(sums[:, :2], share, samples, seed, questions)
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = bootstrap(sums, _kappa, samples, seed, questions)
    return Agreement(alike, None if math.isnan(kappa.value) else kappa)


def steps_lacking(figure: Estimate) -> int | None:
    """About how many more steps bring a figure's interval down to ± `HALF_WIDTH`; None for a point or no interval."""
    now = 0 if figure.low is None or figure.high is None else (figure.high - figure.low) / 2
    return max(0, math.ceil(figure.n * (now / HALF_WIDTH) ** 2) - figure.n) if now else None


def _kappa(sums: Floats) -> Floats:
    """[..., 4] sums of alike, steps, right by one, right by the other -> [...]"""
    alike, first, second = (sums[..., column] / sums[..., 1] for column in (0, 2, 3))
    chance = first * second + (1 - first) * (1 - second)
    return (alike - chance) / (1 - chance)
