"""`cpmi calibrate`: one label from several, fitted on steps whose truth is known.

    label                 Coefficient   AUC, without last steps
    Step surprisal        0.61          0.66 [0.55, 0.78]
    Step length           0.35          0.65 [0.56, 0.74]
    CPMI (incremental)    0.44          0.64 [0.57, 0.73]
    Together                            0.74 [0.66, 0.82]
    More than the best                  0.08 [0.03, 0.13]
    If the interval of the gain includes 0: use step length alone
    -> calibrated.jsonl   {"trajectory_id": "t000000036", "rewards": [0.91, 0.72, 0.13]}

A profile that names the file in `sources.step_labels` has the combination as a reward type. The probability of a judged
step comes from a regression on other questions, so that it can be compared with the judgement.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import (
    FEWEST_SOLUTIONS,
    IS_LAST,
    STEP,
    label_aucs,
    out_of_fold,
    regression_on,
    steps_with_labels,
)
from cpmi_dagster.benchmarks.resampling import Estimate, shown
from cpmi_dagster.contracts.keys import STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.errors import BenchmarkError, UsageError
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.best_label import FREE_LABELS, Folds, best_free, best_of
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.labels import steps_with_truth
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.registry import reward_label

TOGETHER = "together"


class Calibration(NamedTuple):
    """A combination of labels.

    Attributes:
        coefficients: log-odds per standard deviation of each label, by reward type.
        alone: label AUC without last steps, by reward type.
        together: label AUC of the combination, cross-validated by question.
        gain: of `together` over the best label, chosen on other questions; None if too few have a wrong step.
        instead: the label to use alone if the gain is not shown to be positive; else empty.
        solutions: number of fitted solutions.
        probabilities: trajectory_id, step_index and reward of each step.
    """

    coefficients: dict[str, float]
    alone: dict[str, Estimate]
    together: Estimate
    gain: Estimate | None
    instead: str
    solutions: int
    probabilities: pl.DataFrame

    @property
    def advice(self) -> str:
        """Which label to use alone; empty if the combination is shown to be better."""
        if not self.instead:
            return ""
        named = f"{reward_label(self.instead)} ({self.instead})"
        return f"Together they are not shown to be better than one label: use {named} alone."

    @property
    def table(self) -> pl.DataFrame:
        """The table of the module's docstring: label, coefficient, AUC."""
        weights = self.coefficients
        rows = [(reward_label(name), round(weights[name], 3), shown(auc)) for name, auc in self.alone.items()]
        rows += [("Together", None, shown(self.together))]
        rows += [("More than the best", None, shown(self.gain))] if self.gain else []
        schema = {"label": pl.String, "coefficient": pl.Float64, "AUC, without last steps": pl.String}
        return pl.DataFrame(rows, schema, orient="row")


def calibrate(judged: Settings, names: Sequence[str], asked: Settings) -> Calibration:
    """Fit a regression on the judged steps of one profile, and apply it to the steps of another.

    Args:
        judged: a finished profile with `sources.step_truth`.
        names: reward types that both profiles have.
        asked: a finished profile, possibly the same.

    Raises:
        UsageError: fewer than two names, or one twice.
        BenchmarkError: a profile lacks a label, or too few solutions are judged.
    """
    if len(set(names)) < max(2, len(names)):
        raise UsageError("--labels needs at least two reward types, each once, such as step_surprisal,step_length")
    lake = Lake.of(judged)
    fitted, rewards = lake.read(STEP_REWARDS), Lake.of(asked).read(STEP_REWARDS)
    for settings, present in ((judged, fitted), (asked, rewards)):
        if missing := sorted(set(names) - set(present["reward_type"].unique())):
            raise BenchmarkError(
                f"profile `{settings.profile}` has no labels `{', '.join(missing)}`; add them to rewards.types and "
                "run it"
            )
    frames = {STEP_REWARDS: fitted, TRAJECTORIES: lake.read(TRAJECTORIES), TRUTH: lake.read(TRUTH)}
    inputs = ReportInputs(frames, bootstrap_samples=judged.benchmarks.bootstrap_samples, seed=judged.seed)
    steps = steps_with_truth(inputs)
    if steps.is_empty():
        raise BenchmarkError(f"profile `{judged.profile}` has no judged steps; name them in sources.step_truth")
    return combined(steps, rewards, names, *inputs.draws, is_judged=asked.home == judged.home)


def combined(
    steps: pl.DataFrame, rewards: pl.DataFrame, names: Sequence[str], samples: int, seed: int, is_judged: bool
) -> Calibration:
    """A logistic regression on several labels of judged steps, applied to `rewards`.

    Args:
        steps: rows of `labelled_steps`.
        rewards: rows of `StepRewards`.
        is_judged: `rewards` includes the judged steps, whose probabilities come from regressions on other questions.

    Raises:
        BenchmarkError: too few solutions are judged.
    """
    labelled = steps_with_labels(steps, names)
    solutions = labelled["trajectory_id"].n_unique()
    features, correct, questions = (labelled[of].to_numpy() for of in (names, "correct", "question_id"))
    scores = out_of_fold(features, correct, questions, seed)
    if solutions < FEWEST_SOLUTIONS or scores is None:
        raise BenchmarkError(
            f"{solutions} judged solutions have these labels, and a regression needs {FEWEST_SOLUTIONS} with right and "
            f"wrong steps; judge {max(1, FEWEST_SOLUTIONS - solutions)} more that have them with `cpmi explore`; if "
            "there are none, label more"
        )
    scored = labelled.with_columns(score=scores, known=1 / (1 + np.exp(-scores)))
    inner = steps.filter(~IS_LAST, pl.col("reward_type").is_in(names)).join(labelled, on=STEP, how="semi")
    together = inner.filter(reward_type=names[0]).join(scored.select(*STEP, "score"), on=STEP, maintain_order="left")
    together = together.with_columns(reward="score", reward_type=pl.lit(TOGETHER)).select(inner.columns)
    measured = pl.concat([inner, together])
    aucs, regression = label_aucs(measured, samples, seed), regression_on(features, correct)
    both = Folds.of(measured, label_aucs, samples, seed).compare([TOGETHER], names)
    gain = both and both[0].minus(both[1])
    is_better = gain is not None and gain.low is not None and gain.low > 0
    wide = rewards.filter(pl.col("reward_type").is_in(names)).pivot("reward_type", index=STEP, values="reward")
    wide = wide.drop_nulls(names).sort(STEP)
    wide = wide.with_columns(reward=regression.predict_proba(wide[names].to_numpy())[:, 1])
    if is_judged:
        wide = wide.join(scored.select(*STEP, "known"), on=STEP, how="left", maintain_order="left")
        wide = wide.with_columns(reward=pl.coalesce("known", "reward"))
    return Calibration(
        coefficients=dict(zip(names, regression[-1].coef_[0].tolist(), strict=True)),
        alone={name: aucs[name].estimate() for name in names},
        together=aucs[TOGETHER].estimate(),
        gain=gain,
        instead="" if is_better else best_alone(steps.filter(~IS_LAST), names, samples, seed),
        solutions=solutions,
        probabilities=wide.select(*STEP, "reward"),
    )


def best_alone(inner: pl.DataFrame, names: Sequence[str], samples: int, seed: int) -> str:
    """The best single label; a free control instead, unless the best is shown to be better."""
    aucs = label_aucs(inner, samples, seed)
    best, free = best_of(aucs, names) or names[0], best_free(aucs)
    if free is None or free == best:
        return best
    both = Folds.of(inner, label_aucs, samples, seed).compare(names, FREE_LABELS)
    low = both[0].minus(both[1]).low if both else None
    return best if low is not None and low > 0 else free


def write_labels(probabilities: pl.DataFrame, path: Path) -> int:
    """Write probabilities as user-supplied labels; returns the number of trajectories."""
    rows = probabilities.group_by("trajectory_id", maintain_order=True).agg(rewards="reward")
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows.iter_rows(named=True)))
    return rows.height
