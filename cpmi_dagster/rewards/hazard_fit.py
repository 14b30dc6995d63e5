"""Fits the hazard of the first error on judged solutions.

    solution   steps judged            at risk   wrong
    a          right right wrong  -    0 1 2     2
    b          right right right       0 1 2     none
    c          right -     right       0         none: nobody has judged step 1

From nothing: a logistic regression with a ridge of 1 on standardised features. From weights fitted elsewhere: the
level first, an intercept and a slope of their log-odds, and a ridge of `SHRINKAGE` around what they say of a feature:
twenty solutions, about 85 steps at risk with ten errors, weigh about as much as the weights.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cpmi_dagster.errors import BenchmarkError
from cpmi_dagster.files.text import counted
from cpmi_dagster.rewards.hazard import OUTCOME, PARTS, Fit, Solution, Weights, shipped_weights, standardised

RIDGE, SHRINKAGE = 1.0, 10.0
STEPS_OF_NEWTON, CONVERGED = 100, 1e-10
DECIMALS = 4
FEWEST_SOLUTIONS, FEWEST_PARTS = 20, 2
"""Judged solutions, and parts of the questions that they are of, below which nothing is fitted."""
Judged = tuple[Solution, Sequence[bool | None]]
"""A solution, and whether each of its steps is right; null if nobody says."""


@dataclass(frozen=True, eq=False)
class AtRisk:
    """Steps at risk of judged solutions.

    Attributes:
        features: [steps, features]
        is_wrong: [steps]
        parts: [steps] of their questions.
        solutions: [steps] number of the solution, which may be there with the labels of several labelers.
    """

    names: tuple[str, ...]
    features: np.ndarray
    is_wrong: np.ndarray
    parts: np.ndarray
    solutions: np.ndarray


def steps_at_risk(judged: Iterable[Judged], labels: Sequence[str]) -> AtRisk:
    """The steps up to the first wrong one, or to the first unjudged one, of solutions that have the labels."""
    names: tuple[str, ...] = ()
    features, wrong, parts, numbers = [], [], [], []
    numbered: dict[str, int] = {}
    for solution, correct in judged:
        number = numbered.setdefault(solution.trajectory_id, len(numbered))
        if not solution.known.issuperset(labels):
            continue
        values = solution.features(labels)
        names = tuple(values)
        for step, row in enumerate(np.column_stack(list(values.values()))):
            if correct[step] is None:
                break
            features.append(row)
            wrong.append(not correct[step])
            parts.append(solution.part)
            numbers.append(number)
            if not correct[step]:
                break
    shape = (len(wrong), len(names))
    return AtRisk(
        names, np.array(features).reshape(shape), np.array(wrong, bool), np.array(parts, int), np.array(numbers, int)
    )


def fit_hazard(
    steps: AtRisk, labels: Sequence[str], prior: Fit | None = None, resamples: int = 0, seed: int = 0
) -> Fit:
    """A fit for solutions with some labels: one line without each part of the questions.

    Args:
        steps: of `steps_at_risk` with the same labels.
        prior: weights to start from, with the same features.
        resamples: of questions, or rather of their solutions, for intervals; none without.

    Returns:
        Numbers rounded to four decimals.
    """
    means, deviations = (
        (steps.features.mean(axis=0), steps.features.std(axis=0))
        if prior is None
        else (np.array(prior.means), np.array(prior.deviations))
    )
    deviations = np.where(deviations > 0, deviations, 1.0)
    standard = standardised(steps.features, means, deviations)

    def line(chosen: np.ndarray, part: int) -> np.ndarray:
        before = None if prior is None else np.array(prior.coefficients[part])
        return _newton(standard[chosen], steps.is_wrong[chosen], before)

    lines = [line(steps.parts != part, part) for part in range(PARTS)]
    low = high = np.zeros(0)
    if resamples:
        draws = np.array([line(chosen, 0) for chosen in _resampled(steps.solutions, resamples, seed)])
        low, high = np.percentile(draws[:, 1:], (2.5, 97.5), axis=0)
    return Fit(
        labels=tuple(labels),
        features=steps.names,
        means=_rounded(means),
        deviations=_rounded(np.maximum(deviations, 10.0**-DECIMALS)),
        intercepts=_rounded(np.array([each[0] for each in lines])),
        coefficients=tuple(_rounded(each[1:]) for each in lines),
        low=_rounded(low),
        high=_rounded(high),
    )


def fitted_weights(judged: Sequence[Judged], names: Sequence[str], profile: str) -> Weights:
    """Fits with and without the final answer, with every set of labels that solutions have and without any.

    Each starts from the weights that ship for most of its labels.

    Raises:
        BenchmarkError: in no solution with a wrong step are all steps before it judged.
    """
    shipped, fits = shipped_weights().by_labels, []
    had = {(), *(tuple(name for name in names if name in solution.labels) for solution, _ in judged)}
    sets = [
        (*outcome, *labels)
        for outcome in ((OUTCOME,), ())
        for labels in sorted(had, key=lambda each: (-len(each), each))
    ]
    for labels in sets:
        steps = steps_at_risk(judged, labels)
        solutions, parts = len(np.unique(steps.solutions)), len(np.unique(steps.parts))
        is_mixed = 0 < steps.is_wrong.sum() < len(steps.is_wrong)
        if solutions >= FEWEST_SOLUTIONS and parts >= FEWEST_PARTS and is_mixed:
            nearest = max(
                (fit for read, fit in shipped.items() if read <= frozenset(labels)), key=lambda fit: len(fit.features)
            )
            fits.append(fit_hazard(steps, labels, widened(nearest, labels, steps)))
    if not fits:
        raise BenchmarkError(
            f"of the judged solutions of profile `{profile}`, none with a wrong step has all steps before it judged; "
            "judge each solution up to its first wrong step"
        )
    named = f"{counted(len(judged), 'judged solution')} of profile {profile}"
    return Weights(fitted_on=named, solutions=len(judged), fits=tuple(fits))


def widened(fit: Fit, labels: Sequence[str], steps: AtRisk) -> Fit:
    """A fit of more labels, with the features of steps that have them: what it does not read adds nothing."""
    places = {name: place for place, name in enumerate(fit.features)}
    deviations = np.where(steps.features.std(axis=0) > 0, steps.features.std(axis=0), 1.0)
    means, deviations = (
        tuple(
            of_fit[places[name]] if name in places else float(value)
            for name, value in zip(steps.names, values, strict=True)
        )
        for of_fit, values in ((fit.means, steps.features.mean(axis=0)), (fit.deviations, deviations))
    )
    coefficients = tuple(
        tuple(each[places[name]] if name in places else 0.0 for name in steps.names) for each in fit.coefficients
    )
    return Fit(
        labels=tuple(labels),
        features=steps.names,
        means=means,
        deviations=deviations,
        intercepts=fit.intercepts,
        coefficients=coefficients,
    )


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) + 0.0 for value in values.round(DECIMALS))


def _resampled(solutions: np.ndarray, resamples: int, seed: int) -> Iterable[np.ndarray]:
    """The steps of solutions drawn with replacement."""
    random = np.random.default_rng(seed)
    each = [np.flatnonzero(solutions == number) for number in np.unique(solutions)]
    for _ in range(resamples):
        yield np.concatenate([each[number] for number in random.integers(len(each), size=len(each))])


def _newton(features: np.ndarray, is_wrong: np.ndarray, before: np.ndarray | None) -> np.ndarray:
    """[1 + features] intercept and coefficients with the highest likelihood less the ridge.

    Args:
        features: [steps, features] standardised.
        before: [features] coefficients to stay near to.
    """
    ones = np.ones((len(features), 1))
    if before is None:
        design, ridge = np.hstack([ones, features]), np.array([0.0] + [RIDGE] * features.shape[1])
        start = np.zeros(design.shape[1])
    else:
        design = np.hstack([ones, features @ before[:, None], features])
        ridge = np.array([0.0, RIDGE] + [SHRINKAGE] * features.shape[1])
        start = np.zeros(design.shape[1])
        start[1] = 1.0
    centre, fitted = start.copy(), start
    # of steps that are all right, the likelihood has no highest point: half a wrong step more, and half a right one
    weights, target = np.ones(len(design)), is_wrong.astype(float)
    design = np.vstack([design, np.tile(design.mean(axis=0), (2, 1))])
    weights, target = np.append(weights, [0.5, 0.5]), np.append(target, [0.0, 1.0])
    for _ in range(STEPS_OF_NEWTON):
        chance = 1 / (1 + np.exp(-(design @ fitted)))
        slope = design.T @ (weights * (target - chance)) - ridge * (fitted - centre)
        curve = design.T @ (design * (weights * chance * (1 - chance))[:, None]) + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        fitted = fitted + step / max(1.0, np.abs(step).max() / 2)
        if np.abs(step).max() < CONVERGED:
            break
    return fitted if before is None else np.append(fitted[0], fitted[1] * before + fitted[2:])
