"""The hazard of the first error: the probability that a step is wrong if those before it are right.

    question and solution of 3 steps, final answer wrong    hazard h     0.10   0.40   0.30
    no error up to and including the step                   S            0.90   0.54   0.38
    first error, before the final answer is looked at       h S before   0.10   0.36   0.16    sum 0.62
    first error, since one is somewhere                     P            0.16   0.58   0.26    sum 1

People mark the first wrong step, and later ones are not judged: survival data. A step is at risk while no step before
it is wrong; a logistic regression on steps at risk gives the hazard (discrete-time survival analysis). What it reads
are labels of the steps, as they are and as z-scores within the solution, and places in the solution.

Which labels a solution has decides which fit reads it: one is fitted for each set, and none is imputed. Each fit has
coefficients for five parts of the questions, fitted on the other four; a question's text names its part. So no step is
judged by coefficients that its own question has shaped, whether people have judged it or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import polars as pl
import yaml
from numpy.typing import ArrayLike
from pydantic import Field, FiniteFloat, ValidationError, model_validator

from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError, first_complaint
from cpmi_dagster.rewards.dataset import step_lists

SHIPPED = Path(__file__).with_name("first_error.yaml")
PARTS = 5
"""Parts of the questions, each read by coefficients that are fitted on the others."""
OUTCOME, LENGTH = "final_answer", "step_length"
RAW = ("mc",)
"""Labels that are read as they are too: probabilities, which mean the same whichever model makes them."""
LABELS = ("step_surprisal", "cpmi_incremental", "cpmi", "mc")
"""Labels that a hazard reads beside step length and final answer, if the profile computes them."""
PLACES = ("first_step", "last_step", "log_position", "log_steps", "relative_position")
FARTHEST = 3.0
"""Standard deviations from the mean that a feature counts at most: a step of 4,000 characters says no more than one of
1,400, as judged solutions have no longer one to learn from."""
SMALLEST = 1e-6
"""No hazard is nearer to 0 or 1, so that probabilities of a solution can be divided."""


class Fit(Frozen):
    """A logistic regression on the steps at risk, fitted without each part of the questions.

    Attributes:
        labels: of `LABELS`, and `final_answer`, that it reads beside step length and places.
        features: names, in the order of the numbers.
        means, deviations: [features] of the steps it is fitted on.
        intercepts: [parts] log-odds.
        coefficients: [parts, features] log-odds per standard deviation.
        low, high: [features] 95 % interval of the coefficients on all questions, resampled by question.
    """

    labels: tuple[str, ...]
    features: tuple[str, ...]
    means: tuple[FiniteFloat, ...]
    deviations: tuple[Annotated[FiniteFloat, Field(gt=0)], ...]
    intercepts: Annotated[tuple[FiniteFloat, ...], Field(min_length=PARTS, max_length=PARTS)]
    coefficients: Annotated[tuple[tuple[FiniteFloat, ...], ...], Field(min_length=PARTS, max_length=PARTS)]
    low: tuple[FiniteFloat, ...] = ()
    high: tuple[FiniteFloat, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if unknown := sorted(set(self.labels) - {*LABELS, OUTCOME}):
            raise ValueError(f"a fit reads `{unknown[0]}`; it can read {', '.join((*LABELS, OUTCOME))}")
        pair = np.array([0.0, 1.0])
        expected = tuple(Solution("", pair, dict.fromkeys(LABELS, pair), True, 0).features(self.labels))
        columns = (self.means, self.deviations, *self.coefficients)
        if self.features != expected or any(len(column) != len(expected) for column in columns):
            raise ValueError(
                f"a fit of {', '.join(self.labels) or 'no labels'} has other features, or lists of other lengths"
            )
        return self

    def contributions(self, features: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """[steps, features] what each feature adds to a step's log-odds, from [steps, features] and [steps] parts."""
        return standardised(features, self.means, self.deviations) * np.array(self.coefficients)[parts]

    def hazards(self, features: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """[steps] probabilities that a step is wrong if those before it are right."""
        log_odds = self.contributions(features, parts).sum(axis=1) + np.array(self.intercepts)[parts]
        return np.clip(1 / (1 + np.exp(-log_odds)), SMALLEST, 1 - SMALLEST)


class Weights(Frozen):
    """What a file of weights holds: what they were fitted on, and a fit for each set of labels.

    Attributes:
        fitted_on: in words, for reports and cards.
        solutions: judged solutions that they were fitted on.
        is_calibrated: whether their level holds for the data at hand; those that ship rank, and do not know it.
    """

    fitted_on: str
    solutions: Annotated[int, Field(ge=0)]
    is_calibrated: bool = False
    fits: Annotated[tuple[Fit, ...], Field(min_length=1)]

    @property
    def origin(self) -> str:
        """What they were fitted on, and what that says of their level."""
        level = "" if self.is_calibrated else "; it ranks steps, and the level of its probabilities is of those data"
        return f"{self.fitted_on}{level}"

    @cached_property
    def digest(self) -> str:
        """Hash of what they hold."""
        return blake2b(self.model_dump_json().encode(), digest_size=16).hexdigest()

    @cached_property
    def by_labels(self) -> dict[frozenset[str], Fit]:
        """The fits by the labels that they read."""
        return {frozenset(fit.labels): fit for fit in self.fits}


def read_weights(path: Path) -> Weights:
    """The weights of a file that `cpmi calibrate` or `scripts.first_error` has written.

    Raises:
        SettingsError: it cannot be read, or is not of that form.
    """
    try:
        return _parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}); give weights that `cpmi calibrate` wrote") from error


@cache
def _parse(text: str, name: str) -> Weights:
    try:
        return Weights.model_validate(yaml.load(text, yaml.CSafeLoader))
    except yaml.YAMLError as error:
        raise SettingsError(f"{name} is not YAML; give weights that `cpmi calibrate` wrote") from error
    except ValidationError as error:
        raise SettingsError(f"{name}: {first_complaint(error)}; give weights that `cpmi calibrate` wrote") from error


def shipped_weights() -> Weights:
    """The weights that come with the package."""
    return read_weights(SHIPPED)


def part_of(question: str) -> int:
    """The part of the questions that a question belongs to, 0 to 4, by its text."""
    return blake2b(" ".join(question.split()).encode("utf-8", "replace"), digest_size=8).digest()[0] % PARTS


@dataclass(frozen=True, eq=False)
class Solution:
    """What a hazard knows of one solution.

    Attributes:
        lengths: [steps] characters.
        labels: by name of `LABELS`, [steps] finite rewards.
        is_right: whether its final answer is; None if it states none, or there is no gold answer.
        part: of its question.
    """

    trajectory_id: str
    lengths: np.ndarray
    labels: Mapping[str, np.ndarray]
    is_right: bool | None
    part: int

    @property
    def known(self) -> frozenset[str]:
        """The labels that it has."""
        return frozenset(self.labels) | ({OUTCOME} if self.is_right is not None else frozenset())

    def features(self, labels: Sequence[str]) -> dict[str, np.ndarray]:
        """Features by name, each [steps], of step length, places and some labels that it has."""
        count = len(self.lengths)
        index = np.arange(count)
        relative = index / max(1, count - 1)
        values = {
            LENGTH: self.lengths / 100,
            f"log_{LENGTH}": np.log1p(self.lengths),
            f"z_{LENGTH}": within(self.lengths),
            "first_step": (index == 0).astype(float),
            "last_step": (index == count - 1).astype(float),
            "log_position": np.log1p(index),
            "log_steps": np.full(count, np.log(count)),
            "relative_position": relative,
        }
        for name in LABELS:
            if name in labels:
                values |= {name: self.labels[name]} if name in RAW else {}
                values[f"z_{name}"] = within(self.labels[name])
        if OUTCOME in labels:
            right = np.full(count, float(bool(self.is_right)))
            values |= {OUTCOME: right, f"{OUTCOME}_relative_position": right * relative}
        return values


def standardised(features: np.ndarray, means: ArrayLike, deviations: ArrayLike) -> np.ndarray:
    """[steps, features] in standard deviations from the mean, `FARTHEST` at most, from [steps, features]."""
    return ((features - np.asarray(means)) / np.asarray(deviations)).clip(-FARTHEST, FARTHEST)


def within(values: np.ndarray) -> np.ndarray:
    """z-scores within a solution; 0 if all steps have the same value."""
    deviation = values.std()
    return (values - values.mean()) / deviation if deviation > 1e-9 * (1 + abs(values).max()) else np.zeros(len(values))


def fit_for(solution: Solution, weights: Weights) -> Fit:
    """The fit that reads most of what a solution has: the final answer before labels; of equal ones the first."""
    given, shipped = (
        [fit for fit in source.fits if solution.known.issuperset(fit.labels)] for source in (weights, shipped_weights())
    )
    with_outcome = [fit for fit in given if OUTCOME in fit.labels] or [fit for fit in shipped if OUTCOME in fit.labels]
    return max(with_outcome or given or shipped, key=lambda fit: len(fit.labels))


def explain(solution: Solution, weights: Weights) -> pl.DataFrame:
    """Why a step: what step length, place, each label and the final answer add to the log-odds of its hazard.

    Returns:
        step_index, first_error_probability, log_odds, and in the same unit: before_any (of no feature), step_length,
        place, and the labels and final_answer that the fit reads.
    """
    fit = fit_for(solution, weights)
    features, parts = _columns(solution, fit), np.full(len(solution.lengths), solution.part)
    added = fit.contributions(features, parts)
    groups: dict[str, np.ndarray] = {"before_any": np.array(fit.intercepts)[parts]}
    for name, column in zip(fit.features, added.T, strict=True):
        group = "place" if name in PLACES else next(each for each in (OUTCOME, LENGTH, *LABELS) if each in name)
        groups[group] = groups.get(group, 0.0) + column
    return pl.DataFrame(
        {
            "step_index": np.arange(len(features)),
            "first_error_probability": probabilities_by(fit, solution),
            "log_odds": np.sum(list(groups.values()), axis=0),
            **groups,
        }
    )


def _columns(solution: Solution, fit: Fit) -> np.ndarray:
    values = solution.features(fit.labels)
    return np.column_stack([values[name] for name in fit.features])


def first_error_probabilities(solution: Solution, weights: Weights) -> np.ndarray:
    """[steps] P(the first error is at the step); of a wrong final answer they sum to 1."""
    return probabilities_by(fit_for(solution, weights), solution)


def probabilities_by(fit: Fit, solution: Solution) -> np.ndarray:
    """[steps] P(the first error is at the step) by one fit."""
    hazards = fit.hazards(_columns(solution, fit), np.full(len(solution.lengths), solution.part))
    return posterior(hazards, solution.is_right if OUTCOME in fit.labels else None)


def posterior(hazards: np.ndarray, is_right: bool | None) -> np.ndarray:
    """[steps] P(the first error is at the step) from [steps] hazards; of a wrong final answer they sum to 1."""
    at = hazards * np.concatenate([[1.0], np.cumprod(1 - hazards)[:-1]])
    return at / at.sum() if is_right is False else at


def readable_labels(conditioning: Conditioning) -> list[str]:
    """Those of `LABELS` that are read: `cpmi` under the paper's conditioning alone, as its coefficients are."""
    return [name for name in LABELS if name != "cpmi" or conditioning == PAPERS]


def read_solutions(
    trajectories: pl.DataFrame, labels: pl.DataFrame, outcomes: Mapping[str, bool], conditioning: Conditioning = PAPERS
) -> list[Solution]:
    """Solutions with what is known of them.

    Args:
        trajectories: trajectory_id, question, steps.
        labels: trajectory_id, step_index, reward_type, reward; other types than `LABELS` are not read. A solution with
            a step that has no finite reward of a type does not have that type.
        outcomes: whether the final answer is right, by trajectory_id.
        conditioning: of the type `cpmi`, as in `readable_labels`.
    """
    lists = step_lists(labels.filter(pl.col("reward_type").is_in(readable_labels(conditioning))))
    rows = lists.select("trajectory_id", "reward_type", "reward").iter_rows()
    values = {(name, label): np.array(rewards, dtype=float) for name, label, rewards in rows}
    solutions = []
    for name, question, steps in trajectories.select("trajectory_id", "question", "steps").iter_rows():
        lengths = np.array([len(step) for step in steps], dtype=float)
        known = {label: values[name, label] for label in LABELS if (name, label) in values}
        whole = {label: each for label, each in known.items() if len(each) == len(steps) and np.isfinite(each).all()}
        solutions.append(Solution(name, lengths, whole, outcomes.get(name), part_of(question)))
    return solutions
