"""Agreement of two people on the steps that both have judged, and how much more has to be judged.

    step   first   second
    a      right   right
    b      right   wrong        they agree on 2 of 3 steps; Cohen's kappa, agreement beyond chance, is 0.4
    c      wrong   wrong

The interval of a figure narrows with the root of the number judged: to halve it takes four times as many.
"""

import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cpmi_dagster.benchmarks.resampling import Estimate, Resampled, bootstrap_mean, group_numbers, question_weights

HALF_WIDTH = 0.05


class Agreement(NamedTuple):
    """Agreement of two people.

    Attributes:
        alike: the share of steps of which both say the same.
        kappa: Cohen's; None if chance alone has them agree, as both say the same of every step.
    """

    alike: Resampled
    kappa: Resampled | None


def agreement(
    first: npt.ArrayLike, second: npt.ArrayLike, questions: npt.ArrayLike, samples: int, seed: int
) -> Agreement:
    """Agreement of two people, resampled over questions.

    Args:
        first: [steps] whether each is right, by one person.
        second: [steps] by the other.
        questions: [steps] question of each.
    """
    from sklearn.metrics import cohen_kappa_score

    ours, theirs, numbers = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool), group_numbers(questions)
    alike = bootstrap_mean(ours == theirs, samples, seed, questions)
    if len({*ours.tolist(), *theirs.tolist()}) < 2:
        return Agreement(alike, None)
    weights = question_weights(int(numbers.max()) + 1, samples, seed)[:, numbers]
    with warnings.catch_warnings(action="ignore"):  # a resample may leave it undefined
        kappas = [cohen_kappa_score(ours, theirs, sample_weight=each, labels=[False, True]) for each in weights]
    return Agreement(alike, Resampled.of(np.array(kappas), alike.n, alike.units))


def share_lacking(figure: Estimate, half_width: float = HALF_WIDTH) -> float | None:
    """Further judgements, as a multiple of those made, that narrow a figure's interval to ± `half_width`.

    Returns:
        None for a point or no interval, and if no number of them is enough.
    """
    if figure.low is None or figure.high is None or figure.low == figure.high or not half_width:
        return None
    times_too_wide = (figure.high - figure.low) / 2 / half_width
    return max(0.0, times_too_wide * times_too_wide - 1)
