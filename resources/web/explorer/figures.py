"""What judged steps say: how well each reward type ranks them, how far annotators agree, how many steps are lacking."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import polars as pl

from cpmi_dagster.benchmarks.agreement import agreement, steps_lacking
from cpmi_dagster.benchmarks.label_quality import FEWEST_OF_EACH, label_aucs
from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.contracts.keys import STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.labels import in_order, steps_with_truth
from cpmi_dagster.resources.web.explorer import queries
from cpmi_dagster.resources.web.explorer.own_labels import OwnLabel
from cpmi_dagster.resources.web.explorer.snapshot import View


@dataclass(frozen=True)
class LabelAuc:
    """The ROC-AUC of a reward type on the judged steps, and about how many more bring it to ± 0.05."""

    reward_type: str
    auc: Estimate
    lacking: int | None


@dataclass(frozen=True)
class PairOfAnnotators:
    """How far two annotators agree on the steps that both have judged."""

    one: str
    other: str
    alike: Estimate
    kappa: Estimate | None


@dataclass(frozen=True)
class Figures:
    """What judged steps say.

    Attributes:
        counts: steps that each annotator has judged.
        right: steps that most annotators call right.
        wrong: and wrong.
        split: steps of which as many say right as wrong; they are left out.
        fewest: right steps, and wrong ones, from which on the report uses them.
    """

    counts: dict[str, int]
    right: int
    wrong: int
    split: int
    aucs: list[LabelAuc]
    pairs: list[PairOfAnnotators]
    fewest: int = FEWEST_OF_EACH

    @property
    def are_few(self) -> bool:
        """Whether there are too few right or wrong steps to rely on an interval."""
        return min(self.right, self.wrong) < self.fewest


def figures_of(view: View, labels: Mapping[str, OwnLabel], settings: Settings) -> Figures:
    """The figures of some labels, as the report has them once enough are judged and their file is its step truth."""
    ids = list(labels)
    trajectories = view.frame(queries.JUDGED_TRAJECTORIES, ids=ids)
    known = [labels[name] for name in trajectories["trajectory_id"]]
    words = [label.majority for label in known]
    truth = [[word.get(step) for step in range(len(label.rewards))] for word, label in zip(words, known, strict=True)]
    frames = {
        STEP_REWARDS: view.frame(queries.JUDGED_REWARDS, ids=ids),
        TRAJECTORIES: trajectories,
        TRUTH: trajectories.select("row_number", correct=pl.Series(truth, dtype=pl.List(pl.Boolean))),
    }
    inputs = ReportInputs(frames, bootstrap_samples=settings.benchmarks.bootstrap_samples, seed=settings.seed)
    steps = steps_with_truth(inputs)
    aucs = label_aucs(steps, *inputs.draws) if steps.height else {}
    estimates = {name: aucs[name].estimate() for name in in_order(aucs)}
    verdicts = [right for word in words for right in word.values()]
    judged = _judged(known, dict(trajectories.select("trajectory_id", "question_id").iter_rows()))
    return Figures(
        counts=dict(judged.group_by("annotator", maintain_order=True).len().iter_rows()),
        right=verdicts.count(True),
        wrong=verdicts.count(False),
        split=verdicts.count(None),
        aucs=[LabelAuc(name, auc, steps_lacking(auc)) for name, auc in estimates.items()],
        pairs=_pairs(judged, *inputs.draws),
    )


def _judged(labels: list[OwnLabel], questions: Mapping[str, str]) -> pl.DataFrame:
    """annotator, trajectory_id, step, question_id, right: every judgement of every annotator."""
    rows = [
        (annotator, label.trajectory_id, step, questions[label.trajectory_id], right)
        for label in labels
        for annotator, said in label.by.items()
        for step, right in said.items()
    ]
    schema = {"annotator": pl.String, "trajectory_id": pl.String, "step": pl.Int64, "question_id": pl.String}
    return pl.DataFrame(rows, {**schema, "right": pl.Boolean}, orient="row").sort("annotator", maintain_order=True)


def _pairs(judged: pl.DataFrame, samples: int, seed: int) -> list[PairOfAnnotators]:
    found = []
    for one, other in combinations(judged["annotator"].unique().sort(), 2):
        first, second = (judged.filter(annotator=name) for name in (one, other))
        both = first.join(second, on=["trajectory_id", "step", "question_id"])
        if both.height:
            alike, kappa = agreement(both["right"], both["right_right"], both["question_id"], samples, seed)
            found.append(PairOfAnnotators(one, other, alike.estimate(), kappa.estimate() if kappa else None))
    return found
