"""PRMScore: from counts of judged steps to the figures of PRMBench's tables.

A step is passed if its probability is at least the threshold, else flagged. With 5 valid steps passed, 1 wrong one
passed, 2 valid ones flagged and 2 wrong ones flagged:

    F1     = 2·5 / (2·5 + 1 + 2) = 0.769   valid steps as positive
    F1_neg = 2·2 / (2·2 + 2 + 1) = 0.571   wrong steps as positive
    PRMScore = (F1 + F1_neg) / 2 = 0.670

`multi_solutions` has no wrong steps and uses F1 alone. A group's score is the unweighted mean of its categories; the
overall score pools the steps of all categories. Figures are shares, not percent.

Protocols differ in the one threshold for all steps, here of random scores, where a sixth of the steps is wrong:

    released   maximises F1_neg, as in the paper      all is flagged: F1 = 0, F1_neg = 0.29, PRMScore = 0.14
    best       maximises the overall PRMScore         some are flagged; nothing flagged has 0.45 already
    fixed      0.5                                    half is flagged: F1 = 0.63, F1_neg = 0.25, PRMScore = 0.44

A probability always speaks for the step: no protocol tries the inverted sign.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from cpmi_dagster.benchmarks.resampling import Floats


@dataclass(frozen=True)
class Category:
    """One kind of error: its name in the source, in the paper's tables, and its group."""

    classification: str
    short_name: str
    group: str


CATEGORIES: tuple[Category, ...] = (
    Category("redundency", "NR", "Simplicity"),
    Category("circular", "NCL", "Simplicity"),
    Category("counterfactual", "ES", "Soundness"),
    Category("step_contradiction", "SC", "Soundness"),
    Category("domain_inconsistency", "DC", "Soundness"),
    Category("confidence", "CI", "Soundness"),
    Category("missing_condition", "PS", "Sensitivity"),
    Category("deception", "DR", "Sensitivity"),
    Category("multi_solutions", "MS", "Sensitivity"),
)
CLASSIFICATIONS: tuple[str, ...] = tuple(category.classification for category in CATEGORIES)
GROUPS: tuple[str, ...] = ("Simplicity", "Soundness", "Sensitivity")
OVERALL = "Overall"
FIGURES: tuple[tuple[str, str], ...] = (
    *(("category", category.short_name) for category in CATEGORIES),
    *(("group", group) for group in GROUPS),
    ("overall", OVERALL),
)
COUNTS = ("valid_passed", "wrong_passed", "valid_flagged", "wrong_flagged")
F1_ALONE = "multi_solutions"
Protocol = Literal["released", "best", "fixed"]
FIXED_THRESHOLD = 0.5


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


def worth_of_threshold(flagged: Floats, everything: Floats, how: Protocol) -> Floats:
    """What a protocol maximises.

    Args:
        flagged: [..., 2] how many valid and wrong steps are below a threshold.
        everything: [..., 2] how many there are.
    """
    (valid_flagged, wrong_flagged), (valid, wrong) = (np.moveaxis(counts, -1, 0) for counts in (flagged, everything))
    worth = f1_of_counts(wrong_flagged, valid_flagged, wrong - wrong_flagged)
    if how == "best":
        worth += f1_of_counts(valid - valid_flagged, wrong - wrong_flagged, valid_flagged)
    return worth
