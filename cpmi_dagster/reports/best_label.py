"""The best of several labels, chosen on other questions than those it is measured on.

The label that is best on some questions looks better there than it is, and what is compared with it there looks worse.
So questions are dealt into three folds, and each fold is measured with the labels that are best on the one before it:

    fold   best free label of the fold before   AUC of CPMI   of this label
    0      step length                          0.62          0.66
    1      step length                          0.58          0.60
    2      position                             0.61          0.55

The difference is the mean over folds. No two folds choose for each other, as two halves would: the label that is lucky
in one half is unlucky, by comparison, in the other, so that both differences err alike and the interval is too narrow.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import paired_figures
from cpmi_dagster.benchmarks.resampling import Estimate, Resampled
from cpmi_dagster.rewards.registry import REWARD_TYPES

FOLDS = 3
FREE_LABELS = tuple(name for name, entry in REWARD_TYPES.items() if entry.is_free)
"""Reward types that take the trajectory alone."""
Measure = Callable[[pl.DataFrame, int, int], Mapping[str, Resampled]]
"""Figures by reward type of some steps, from rows of `labelled_steps`, a number of resamples and a seed."""


def best_free(figures: Mapping[str, Estimate] | Mapping[str, Resampled]) -> str | None:
    """The key of the free label with the highest figure; of equal ones the first in tables; None without any.

    Args:
        figures: by reward type, or by the label of its row.
    """
    return best_of(figures, [key for name in FREE_LABELS for key in (name, REWARD_TYPES[name].label)])


def best_of(figures: Mapping[str, Estimate] | Mapping[str, Resampled], keys: Collection[str]) -> str | None:
    """The first of the keys with the highest figure; None if none has one."""
    return max((key for key in keys if key in figures), key=lambda key: figures[key].value, default=None)


@dataclass(frozen=True)
class Folds:
    """Judged steps by fold, with the figures of every label.

    Attributes:
        steps: rows of `labelled_steps` of each fold.
        figures: of each fold, by reward type.
        measure: a figure of some steps of the fold with a number.
    """

    steps: tuple[pl.DataFrame, ...]
    figures: tuple[Mapping[str, Resampled], ...]
    measure: Callable[[int, pl.DataFrame], Mapping[str, Resampled]]

    @classmethod
    def of(cls, steps: pl.DataFrame, measure: Measure, samples: int, seed: int) -> "Folds":
        """Deal the questions, those with and without a wrong step alike; each fold is resampled by a seed of its own.

        Args:
            steps: rows of `labelled_steps`.
        """

        def measure_fold(number: int, rows: pl.DataFrame) -> Mapping[str, Resampled]:
            return measure(rows, samples, seed + number)

        dealt = tuple(
            steps.join(fold, on="question_id", how="semi", maintain_order="left") for fold in _deal(steps, seed)
        )
        return cls(dealt, tuple(measure_fold(*fold) for fold in enumerate(dealt)), measure_fold)

    def compare(self, ours: Collection[str], others: Collection[str]) -> tuple[Resampled, Resampled] | None:
        """The figure of the best of our labels, and of the best of others, both chosen on the fold before.

        Returns:
            Means over the folds, for `Resampled.minus`; None if a fold lacks one of them.
        """
        pairs = []
        for number, steps in enumerate(self.steps):
            one, other = (best_of(self.figures[number - 1], names) for names in (ours, others))
            if one is None or other is None:
                return None
            pairs.append(paired_figures(steps, self.figures[number], one, other, partial(self.measure, number)))
        if None in pairs or any(figure.units < 2 for pair in pairs for figure in pair):
            return None
        first, second = (_mean([pair[side] for pair in pairs]) for side in (0, 1))
        return first, second


def _deal(steps: pl.DataFrame, seed: int) -> list[pl.DataFrame]:
    """question_id of each fold."""
    questions = steps.group_by("question_id").agg(wrong=(~pl.col("correct")).any()).sort("question_id")
    order = pl.Series(np.random.default_rng(seed).permutation(questions.height))
    dealt = questions.with_columns(order=order).sort("wrong", "order").with_row_index("place")
    return [dealt.filter(pl.col("place") % FOLDS == number).select("question_id") for number in range(FOLDS)]


def _mean(figures: Sequence[Resampled]) -> Resampled:
    """The mean of a figure over folds, by their size.

    Resamples of m questions spread less than m questions do, by (m - 1) / m, and a fold has few.
    """
    weights = np.array([figure.n for figure in figures]) / sum(figure.n for figure in figures)
    value = float(sum(weight * figure.value for weight, figure in zip(weights, figures, strict=True)))
    draws = [
        weight * (figure.draws - figure.value) * math.sqrt(figure.units / (figure.units - 1))
        for weight, figure in zip(weights, figures, strict=True)
    ]
    units = sum(figure.units for figure in figures)
    return Resampled(value, value + np.sum(draws, axis=0), sum(figure.n for figure in figures), units, figures[0].unit)
