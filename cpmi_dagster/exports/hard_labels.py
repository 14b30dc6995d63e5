r"""Which steps are right in hard labels: those whose reward is at least a threshold, which a rule chooses.

    reward type    rewards of a set       rule             least reward of a right step     hard labels
    cpmi           -0.4 -0.1  0.2  0.9    none given       0, since it is a difference      - - + +
    mc              0.0  0.25 0.5  1.0    none given       0.5, since it is a probability   - - + +
    cpmi_merge1     0.25 -0.1 0.2  0.9    none given       0.5 at the first step, then 0    - - + +
    step_length    -90  -40  -30  -12     none given       -30, the median of this set      - - + +
    cpmi           -0.4 -0.1  0.2  0.9    quantile:0.25    -0.1                             - + + +
    cpmi           -0.4 -0.1  0.2  0.9    0.5              0.5                              - - - +
    cpmi           -0.4 -0.1  0.2  0.9    calibrated       0.05, if people call - - + +     - - + +

A number is on the scale of the rewards. A merge has rewards of two scales: its first steps and those after them have a
threshold each by the same rule, but a number is for the steps after the first, and these keep that of their own scale.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, nan
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.metrics import candidate_thresholds
from cpmi_dagster.errors import UsageError
from cpmi_dagster.rewards.dataset import KEY
from cpmi_dagster.rewards.registry import PROBABILITY, REWARD_TYPES, Scale


class Quantile(NamedTuple):
    """The rule that the steps with the lowest rewards are wrong, this share of all; of equal rewards none or all."""

    wrong: float


MEDIAN = Quantile(0.5)
CALIBRATED: Literal["calibrated"] = "calibrated"
"""The rule that agrees best with the steps that people have judged, by balanced accuracy."""
Rule = float | Quantile | Literal["calibrated"] | None
"""A number is the threshold; None is that of the rewards' own scale, and the median where this has none."""
NONE_JUDGED = pl.DataFrame(schema={KEY: pl.String(), "correct": pl.List(pl.Boolean())})


def parse_rule(text: str | None) -> Rule:
    """The rule of `0.3`, `median`, `quantile:0.2` or `calibrated`.

    Raises:
        UsageError: it is none of them.
    """
    if text is None or text == CALIBRATED:
        return text
    if text == "median":
        return MEDIAN
    name, _, share = text.partition(":")
    try:
        number = float(share if name == "quantile" else text)
    except ValueError:
        number = nan
    if name == "quantile":
        if not 0 < number < 1:
            raise UsageError(f"--threshold {text}: give the share of wrong steps, above 0 and below 1: quantile:0.2")
        return Quantile(number)
    if not isfinite(number):
        raise UsageError(f"--threshold {text}: give a number, median, quantile:SHARE or calibrated")
    return number


class Cut(NamedTuple):
    """The steps from `first` on, up to the next cut, are right where their reward is at least `least`; and why."""

    first: int
    least: float
    why: str


@dataclass(frozen=True)
class HardLabels:
    """Which steps are right in the hard labels of a reward type.

    Attributes:
        is_probability: whether the rewards are soft labels as they are.
        cuts: one, or two of a merge.
    """

    reward_type: str
    is_probability: bool
    cuts: tuple[Cut, ...]

    @property
    def is_right(self) -> pl.Expr:
        """A list for each trajectory, from its column `rewards`."""
        ends = [*(cut.first for cut in self.cuts[1:]), None]
        parts = [
            _part("rewards", cut.first, end).list.eval(pl.element() >= cut.least)
            for cut, end in zip(self.cuts, ends, strict=True)
        ]
        return pl.concat_list(parts)

    def words(self, labelled: pl.DataFrame) -> str:
        """Which steps are right, and what share of these, as a sentence."""
        share = labelled.select(self.is_right.explode(empty_as_null=False)).to_series().mean()
        *first, last = (f"those whose reward is at least {cut.least:g}, {cut.why}" for cut in self.cuts)
        of_first = [f"; of steps up to {self.cuts[-1].first}, {rule}" for rule in first]
        return f"Hard labels call {share:.1%} of the steps right: {last}{''.join(of_first)}."


def hard_labels(
    labelled: pl.DataFrame,
    reward_type: str,
    is_probability: bool,
    rule: Rule = None,
    judged: pl.DataFrame = NONE_JUDGED,
) -> HardLabels:
    """The hard labels of a set by a rule.

    Args:
        labelled: columns trajectory_id and rewards, a list.
        is_probability: whether the rewards are soft labels as they are.
        judged: columns trajectory_id and correct, a list with null for steps that nobody has judged.

    Raises:
        UsageError: the rule is `calibrated`, and no step is judged, or all that are judged are right, or wrong.
    """
    rows = labelled.join(judged.select(KEY, "correct"), on=KEY, how="left")
    return HardLabels(reward_type, is_probability, tuple(_cuts(rows, reward_type, is_probability, rule)))


def _cuts(rows: pl.DataFrame, reward_type: str, is_probability: bool, rule: Rule) -> Iterator[Cut]:
    entry = REWARD_TYPES.get(reward_type)
    scale = PROBABILITY if is_probability else entry.scale if entry else None
    merge = None if is_probability or entry is None else entry.merge  # where all are probabilities, on one scale
    if merge:
        first = REWARD_TYPES[merge.first]
        of_first = None if isinstance(rule, float) else rule
        yield _cut(rows, 0, merge.steps, first.scale, of_first, f"since `{first.name}` is")
    yield _cut(rows, merge.steps if merge else 0, None, scale, rule, "since it is")


def _cut(rows: pl.DataFrame, first: int, end: int | None, scale: Scale | None, rule: Rule, since: str) -> Cut:
    if isinstance(rule, float):
        return Cut(first, rule, "the number given")
    if rule is None and scale:
        return Cut(first, scale.right_from, f"{since} {scale.words}")
    if rule == CALIBRATED:
        return _calibrated(rows, first, end)
    share = rule.wrong if isinstance(rule, Quantile) else MEDIAN.wrong
    least = rows.select(_part("rewards", first, end).explode(empty_as_null=False)).to_series().quantile(share, "higher")
    name = "median of this set, whatever share of its steps is right" if share == MEDIAN.wrong else None
    # no trajectory may have so many steps
    return Cut(first, 0.0 if least is None else least, f"the {name or f'quantile {share:g} of this set'}")


def _calibrated(rows: pl.DataFrame, first: int, end: int | None) -> Cut:
    judged = rows.drop_nulls("correct").select(
        reward=_part("rewards", first, end), correct=_part("correct", first, end)
    )
    steps = judged.explode("reward", "correct", empty_as_null=False).drop_nulls("correct")
    right, wrong = (np.sort(steps.filter(correct=known)["reward"].to_numpy()) for known in (True, False))
    if not len(right) or not len(wrong):
        which = f"up to step {end} " if end else f"after step {first} " if first else ""
        raise UsageError(
            f"--threshold calibrated takes steps judged right and steps judged wrong, and {which}there are "
            f"{len(right):,} and {len(wrong):,}; name judged steps as `sources.step_truth` and run `cpmi run`, or give "
            "a number"
        )
    thresholds = candidate_thresholds(steps["reward"])
    passed = 1 - np.searchsorted(right, thresholds) / len(right)
    accuracy = (passed + np.searchsorted(wrong, thresholds) / len(wrong)) / 2
    best = int(accuracy.argmax())
    why = f"with the best balanced accuracy, {accuracy[best]:.1%}, on the {steps.height:,} judged steps of this set"
    return Cut(first, float(thresholds[best]), why)


def _part(column: str, first: int, end: int | None) -> pl.Expr:
    return pl.col(column).list.slice(first, None if end is None else end - first)
