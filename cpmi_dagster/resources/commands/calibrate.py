"""`cpmi calibrate`: weights of the first error, fitted on solutions whose steps people have judged.

    label                        First wrong step found   AUC, without last steps
    First error, fitted          0.43 [0.33, 0.53]        0.84 [0.78, 0.89]
    First error, as it ships     0.35 [0.26, 0.45]        0.82 [0.76, 0.88]
    Step length                  0.32 [0.24, 0.41]        0.63 [0.56, 0.70]

    than the weights that ship   0.08 [-0.02, 0.18]
    than the best single label   0.11 [0.01, 0.21]
    -> first_error.yaml, for `rewards: {weights: ./first_error.yaml}`

Each question is read by coefficients that are fitted on the other four parts of the questions, here as in every later
run: the figures are those of questions that have not shaped them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import yaml

from cpmi_dagster.benchmarks.label_quality import IS_LAST, STEP, first_errors_found, label_aucs, with_truth_so_far
from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS, Estimate, Resampled, shown
from cpmi_dagster.contracts.contexts import PAPERS, Conditioning
from cpmi_dagster.contracts.keys import STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.errors import BenchmarkError, UsageError
from cpmi_dagster.files.text import counted
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.best_label import Folds
from cpmi_dagster.reports.figures import ABOVE, BELOW, ReportInputs, side_of
from cpmi_dagster.reports.labels import in_order, steps_with_truth
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.hazard import (
    LABELS,
    Weights,
    first_error_probabilities,
    fit_for,
    read_solutions,
    readable_labels,
    shipped_weights,
)
from cpmi_dagster.rewards.hazard_fit import FEWEST_PARTS, FEWEST_SOLUTIONS, Judged, fitted_weights
from cpmi_dagster.rewards.registry import REWARD_TYPES, reward_label
from cpmi_dagster.rewards.reward_type import LabelInputs
from cpmi_dagster.trajectories.step_truth import with_truth

FITTED, AS_SHIPPED = "fitted", "shipped"
NAMES = {FITTED: "First error, fitted", AS_SHIPPED: "First error, as it ships"}
HEADER = "# Written by cpmi calibrate; rewards: {weights: THIS FILE} in a profile takes it.\n"


class Figures(NamedTuple):
    """A label's share of first wrong steps found, and its AUC without last steps; None from too few solutions."""

    found: Estimate | None
    auc: Estimate | None


@dataclass(frozen=True)
class Calibration:
    """Weights, and what they are worth on questions that have not shaped them.

    Attributes:
        figures: by label: `fitted`, `shipped`, and each reward type.
        gains: first wrong steps found beyond the shipped weights, and beyond the best single label chosen on other
            questions; by `shipped` and `single`; without those that too few solutions allow.
        brier: mean squared error of `right_so_far` as fitted, as shipped, and of a constant.
        read: number of the judged solutions that these weights read; those that ship read the others.
    """

    weights: Weights
    figures: Mapping[str, Figures]
    gains: Mapping[str, Estimate]
    brier: tuple[float, float, float]
    read: int

    @property
    def table(self) -> pl.DataFrame:
        """The first table of the module's docstring."""
        rows = [
            (NAMES.get(name) or reward_label(name), *("" if each is None else shown(each) for each in figures))
            for name, figures in self.figures.items()
        ]
        columns = ("label", "First wrong step found", "AUC, without last steps")
        return pl.DataFrame(rows, dict.fromkeys(columns, pl.String), orient="row")

    @property
    def advice(self) -> str:
        """What the figures say of the weights, in sentences."""
        fitted, shipped, constant = self.brier
        judged = counted(self.weights.solutions, "judged solution")
        lines = [f"Fitted on {judged}, shrunk towards the weights that ship."]
        if self.read < self.weights.solutions:
            lines.append(
                f"They read {self.read:,} of the {judged}; those that ship read the others, whose final answer is "
                f"known: judge more of these, as a fit takes {FEWEST_SOLUTIONS}, right and wrong ones."
            )
        singles = "the best single label, chosen on other questions"
        for name, words in ((AS_SHIPPED, "the weights that ship"), ("single", singles)):
            if gain := self.gains.get(name):
                verdict = {ABOVE: "more", BELOW: "fewer"}.get(side_of(gain), "not shown to be more")
                lines.append(f"First wrong steps found beyond {words}: {shown(gain)}, {verdict}.")
            else:
                lines.append(f"Whether it finds more first wrong steps than {words} cannot be told from so few.")
        level = "calibrated" if self.weights.is_calibrated else "no better calibrated than before"
        if constant < fitted < shipped:
            level = "better calibrated than as it ships, and no better than a constant"
        lines.append(
            f"right_so_far is {level}: mean squared error {fitted:.3f}, as it ships {shipped:.3f}, of a constant "
            f"{constant:.3f}."
        )
        return "\n".join(lines)


def calibrate(settings: Settings, names: Sequence[str] | None = None) -> Calibration:
    """Fit the hazard of the first error on a profile's judged solutions.

    Args:
        settings: a finished profile with `sources.step_truth`.
        names: labels that it reads beside step length and places; by default all that the profile has.

    Raises:
        UsageError: a label is none that the hazard reads.
        BenchmarkError: the profile lacks a label or judged solutions, or they are all right or all wrong.
    """
    lake = Lake.of(settings)
    rewards = lake.read(STEP_REWARDS)
    conditioning = settings.rewards.default_conditioning
    read = labels_to_read(names, rewards["reward_type"].unique(), conditioning, settings.profile)
    frames = {STEP_REWARDS: rewards, TRAJECTORIES: lake.read(TRAJECTORIES), TRUTH: lake.read(TRUTH)}
    evidence = LabelInputs(frames[TRAJECTORIES], same=settings.answers.comparison.same, conditioning=conditioning)
    judged = judged_solutions(evidence, frames[TRUTH], rewards)
    check_judged(judged, settings.profile)
    weights = fitted_weights(judged, read, settings.profile)
    inputs = ReportInputs(frames, bootstrap_samples=settings.benchmarks.bootstrap_samples, seed=settings.seed)
    return measured(weights, judged, steps_with_truth(inputs), *inputs.draws)


def labels_to_read(
    names: Sequence[str] | None, types: Iterable[str], conditioning: Conditioning, profile: str
) -> list[str]:
    """The labels that a fit reads: those that are named, by default all that it can read of a profile's reward types.

    Raises:
        UsageError, BenchmarkError: as `calibrate`.
    """
    if unknown := sorted(set(names or ()) - set(LABELS)):
        raise UsageError(f"--labels {', '.join(unknown)}: the first error is read from {', '.join(LABELS)}")
    if "cpmi" in set(names or ()) - set(readable_labels(conditioning)):
        raise UsageError(
            f"--labels cpmi: the first error reads cpmi under the conditioning {PAPERS} of the paper alone, and that "
            f"of profile `{profile}` is {conditioning}"
        )
    present = [name for name in readable_labels(conditioning) if name in types]
    if missing := [name for name in names or () if name not in present]:
        raise BenchmarkError(
            f"profile `{profile}` has no labels {', '.join(missing)}; add them to rewards.types and run it"
        )
    return present if names is None else list(names)


def judged_solutions(evidence: LabelInputs, truth: pl.DataFrame, rewards: pl.DataFrame) -> list[Judged]:
    """The solutions with judged steps, and what people said of each step."""
    labelled = evidence.trajectories.join(rewards, on="trajectory_id", how="semi")
    known = with_truth(labelled, truth.select("row_number", "correct"))
    solutions = read_solutions(known, rewards, evidence.outcomes, evidence.conditioning)
    both = zip(solutions, known["correct"].to_list(), strict=True)
    return [(solution, correct) for solution, correct in both if correct and correct[0] is not None]


def check_judged(judged: Sequence[Judged], profile: str) -> None:
    """Refuse judged solutions that are too few, all right, all wrong, or of one part of the questions.

    Raises:
        BenchmarkError: says what to judge.
    """
    if (count := len(judged)) < FEWEST_SOLUTIONS:
        raise BenchmarkError(
            f"profile `{profile}` has {counted(count, 'judged solution')} with labels, and a fit takes "
            f"{FEWEST_SOLUTIONS}; judge {FEWEST_SOLUTIONS - count} more with `cpmi explore`, or name a file of them in "
            "sources.step_truth"
        )
    wrong = sum(False in correct for _, correct in judged)
    if wrong in (0, count):
        raise BenchmarkError(
            f"all {count} judged solutions of profile `{profile}` are {'wrong' if wrong else 'right'}: a fit takes "
            "both; judge others"
        )
    if len({solution.part for solution, _ in judged}) < FEWEST_PARTS:
        raise BenchmarkError(
            f"the {count} judged solutions of profile `{profile}` are of too few questions: each is read by a fit on "
            "other questions; judge solutions of other questions"
        )


def measured(weights: Weights, judged: Sequence[Judged], steps: pl.DataFrame, samples: int, seed: int) -> Calibration:
    """Figures of the fitted and the shipped weights beside those of every label of the profile.

    Args:
        steps: rows of `labelled_steps`; empty if too few steps are judged for figures.
    """
    read = {FITTED: _read(judged, weights), AS_SHIPPED: _read(judged, shipped_weights())}
    fitted, shipped = (with_truth_so_far(each) for each in read.values())
    truth = fitted["correct"].cast(pl.Float64)
    errors = (truth - truth.mean(), *(truth - each["so_far"] for each in (fitted, shipped)))
    constant, *brier = (float(np.mean(error.to_numpy() ** 2)) for error in errors)
    figures: dict[str, Figures] = {}
    gains: dict[str, Estimate] = {}
    if not steps.is_empty():
        columns = steps.drop("reward", "reward_type").unique(STEP, maintain_order=True)
        ours = [
            columns.join(each.select(*STEP, "reward"), on=STEP).with_columns(reward_type=pl.lit(name))
            for name, each in read.items()
        ]
        together = [name for name, entry in REWARD_TYPES.items() if entry.reads_labels]
        singles = steps.filter(~pl.col("reward_type").is_in(together))
        singles = singles.join(ours[0], on="trajectory_id", how="semi")
        every = pl.concat([*(each.select(singles.columns) for each in ours), singles])
        types = [FITTED, AS_SHIPPED, *in_order(singles["reward_type"].unique())]
        found, aucs = first_errors_found(every, samples, seed), label_aucs(every.filter(~IS_LAST), samples, seed)
        figures = {name: Figures(_enough(found.get(name)), _enough(aucs.get(name))) for name in types}
        folds = Folds.of(every, first_errors_found, samples, seed)
        pairs = {AS_SHIPPED: (found[FITTED], found[AS_SHIPPED])} if FITTED in found else {}
        pairs |= {"single": both} if (both := folds.compare([FITTED], types[2:])) else {}
        gains = {
            name: ours.minus(other)
            for name, (ours, other) in pairs.items()
            if min(ours.units, other.units) >= FEWEST_UNITS
        }
    by_these = sum(any(fit_for(solution, weights) is fit for fit in weights.fits) for solution, _ in judged)
    is_calibrated = by_these == len(judged) and brier[0] <= min(brier[1], constant)
    known = weights.model_copy(update={"is_calibrated": is_calibrated})
    return Calibration(known, figures, gains, (brier[0], brier[1], constant), by_these)


def _read(judged: Sequence[Judged], weights: Weights) -> pl.DataFrame:
    """Every step of judged solutions: trajectory_id, step_index, correct, reward (first_error), so_far, reward_type."""
    rows = [
        (solution.trajectory_id, step, correct[step], float(1 - at[step]), float(1 - before))
        for solution, correct in judged
        for at in [first_error_probabilities(solution, weights)]
        for step, before in enumerate(np.cumsum(at))
    ]
    kinds = (pl.String, pl.Int64, pl.Boolean, pl.Float64, pl.Float64)
    schema = dict(zip((*STEP, "correct", "reward", "so_far"), kinds, strict=True))
    return pl.DataFrame(rows, schema, orient="row").with_columns(reward_type=pl.lit("first_error"))


def _enough(figure: Resampled | None) -> Estimate | None:
    return figure.estimate() if figure is not None and figure.units >= FEWEST_UNITS else None


def write_weights(weights: Weights, path: Path) -> None:
    """Write weights as YAML, for `rewards.weights`.

    Raises:
        UsageError: a file of another kind is there.
    """
    if path.exists() and not (path.is_file() and path.read_bytes().startswith(HEADER.partition(";")[0].encode())):
        raise UsageError(f"--output {path} is there, and is no file of weights; give another name")
    values = weights.model_dump(mode="json")
    write_whole(path, HEADER + yaml.safe_dump(values, default_flow_style=None, sort_keys=False, width=10_000))
