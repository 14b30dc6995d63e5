"""Figures on solutions judged here or in the profile's step truth: label AUC, agreement, the number still lacking."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil

import polars as pl

from cpmi_dagster.benchmarks.label_quality import IS_LAST, label_aucs
from cpmi_dagster.benchmarks.metrics import Agreement, agreement
from cpmi_dagster.benchmarks.resampling import Estimate, share_lacking
from cpmi_dagster.contracts.keys import STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.labels import in_order, judged_steps, steps_with_truth
from cpmi_dagster.resources.explorer.own_labels import OwnLabel
from cpmi_dagster.resources.explorer.queries import JUDGED_REWARDS, JUDGED_SOLUTIONS
from cpmi_dagster.resources.explorer.results import View


@dataclass(frozen=True)
class Figures:
    """Figures on judged solutions.

    Attributes:
        solutions: number with a judged step.
        of_file: number of them that `sources.step_truth` judges.
        counted: number of them that the report counts: with the label that it judges, and a judged step but the last.
        wrong: number with a wrong step, by majority.
        verdicts: majority on each judged step, else the file's; None for a tie.
        counts: number of judged solutions by annotator.
        aucs: by reward type, ROC-AUC without last steps, and the number of further solutions that bring it to ± 0.05.
        pairs: agreement of two annotators on the steps that both have judged.
    """

    solutions: int
    of_file: int
    counted: int
    wrong: int
    verdicts: list[bool | None]
    counts: dict[str, int]
    aucs: dict[str, tuple[Estimate, int | None]]
    pairs: dict[tuple[str, str], Agreement]


def figures_of(view: View, labels: Mapping[str, OwnLabel], settings: Settings, base: str) -> Figures:
    """The figures of some labels and of the profile's step truth, equal to those of a report with both.

    Args:
        base: the reward type that the report judges.
    """
    trajectories = view.frame(JUDGED_SOLUTIONS, ids=list(labels))
    labels = fitting_labels(labels, trajectories)
    trajectories = trajectories.filter(pl.col("correct").is_not_null() | pl.col("trajectory_id").is_in([*labels]))
    names = trajectories["trajectory_id"].to_list()
    known = [labels[name] for name in names if name in labels]
    sizes = trajectories["steps"].list.len()
    verdicts = [
        _verdicts(labels.get(name), correct, size)
        for name, correct, size in zip(names, trajectories["correct"].to_list(), sizes, strict=True)
    ]
    truth = [[said.get(step) for step in range(size)] for said, size in zip(verdicts, sizes, strict=True)]
    frames = {
        STEP_REWARDS: view.frame(JUDGED_REWARDS, ids=names),
        TRAJECTORIES: trajectories.drop("correct"),
        TRUTH: trajectories.select("row_number", correct=pl.Series(truth, dtype=pl.List(pl.Boolean))),
    }
    inputs = ReportInputs(frames, bootstrap_samples=settings.benchmarks.bootstrap_samples, seed=settings.seed)
    steps = steps_with_truth(inputs)
    rewarded = inputs.table(STEP_REWARDS).filter(reward_type=base)
    counted = judged_steps(inputs).filter(~IS_LAST).join(rewarded, on="trajectory_id", how="semi")
    aucs = label_aucs(steps.filter(~IS_LAST), *inputs.draws) if steps.height else {}
    estimates = {name: aucs[name].estimate() for name in in_order(aucs)}
    judged = judgements_of(known, trajectories)
    pairs = {}
    for pair in combinations(judged["annotator"].unique().sort(), 2):
        left, right = (judged.filter(annotator=name) for name in pair)
        both = left.join(right, on=["trajectory_id", "step_index", "question_id"])
        if both.height:
            pairs[pair] = agreement(both["right"], both["right_right"], both["question_id"], *inputs.draws)
    inner = steps.filter(~IS_LAST).drop_nulls("correct") if steps.height else steps
    solutions = {name: inner.filter(reward_type=name)["trajectory_id"].n_unique() for name in estimates}
    return Figures(
        solutions=len(names),
        of_file=trajectories["correct"].count(),
        counted=counted["trajectory_id"].n_unique(),
        wrong=sum(False in said.values() for said in verdicts),
        verdicts=[right for said in verdicts for right in said.values()],
        counts=dict(
            judged.group_by("annotator", maintain_order=True).agg(pl.col("trajectory_id").n_unique()).iter_rows()
        ),
        aucs={
            name: (estimate, None if (share := share_lacking(estimate)) is None else ceil(share * solutions[name]))
            for name, estimate in estimates.items()
        },
        pairs=pairs,
    )


def fitting_labels(labels: Mapping[str, OwnLabel], trajectories: pl.DataFrame) -> dict[str, OwnLabel]:
    """The labels by trajectory id, without those of trajectories that have another text by now."""
    texts = trajectories.select("trajectory_id", "question", "steps").iter_rows()
    moved = {name for name, *text in texts if name in labels and not labels[name].is_of(*text)}
    return {name: label for name, label in labels.items() if name not in moved}


def _verdicts(label: OwnLabel | None, correct: Sequence[bool | None] | None, size: int) -> dict[int, bool | None]:
    """Whether each judged step is right: as annotators say here, else as `sources.step_truth` does; None for a tie."""
    of_file = {step: right for step, right in enumerate(correct or ()) if right is not None}
    said = {**of_file, **(label.majority if label else {})}
    return {step: said[step] for step in sorted(said) if step < size}  # the source may have fewer steps by now


def judgements_of(labels: Iterable[OwnLabel], trajectories: pl.DataFrame) -> pl.DataFrame:
    """A row per judgement: annotator, trajectory_id, step_index, right, question_id, question, step."""
    rows = [
        (name, label.trajectory_id, step, right)
        for label in labels
        for name, said in label.by.items()
        for step, right in said.items()
    ]
    schema = {"annotator": pl.String, "trajectory_id": pl.String, "step_index": pl.Int64, "right": pl.Boolean}
    judged = pl.DataFrame(rows, schema, orient="row").sort("annotator", maintain_order=True)
    texts = trajectories.select("trajectory_id", "question_id", "question", step="steps")
    step = pl.col("step").list.get(pl.col("step_index"), null_on_oob=True)
    return judged.join(texts, on="trajectory_id", maintain_order="left").with_columns(step)
