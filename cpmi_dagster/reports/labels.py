"""Quality of the labels where the truth is known, and statistics of the data set.

row "CPMI", column "Label AUC"                 ROC-AUC of the raw rewards against the true step labels
row "CPMI", column "Without last steps"        the same, over the other steps
row "CPMI", column "Difference to MC"          paired difference over the same questions
row "CPMI", column "Difference to best control"  likewise, to the free control with the highest AUC
"""

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import (
    IS_LAST,
    PLACES,
    label_aucs,
    labelled_steps,
    paired_differences,
    within_solutions,
)
from cpmi_dagster.benchmarks.resampling import Resampled
from cpmi_dagster.contracts.keys import STATISTICS, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.reports.quality import measurement
from cpmi_dagster.rewards.registry import CORPUS_LABELS, REWARD_TYPES, listing_place, reward_label

LABEL_AUC = "Label AUC"
WITHOUT_LAST = "Without last steps"
TO_BASELINE = "Difference to MC"
TO_CONTROL = "Difference to best control"
CORPUS_AUC = "AUC against the corpus's labels"
PLACE_COLUMNS = {"first": "First steps", "middle": "Middle steps", "last": "Last steps"}
PAIRS, FOUND, BLIND = "Pairs ranked right", "First wrong step found", "Blind pick"
MOST_LEFT = 3
"""Operations left to do from which steps are taken together."""
OPERATION_COLUMNS = (*(f"{count} left" for count in range(MOST_LEFT)), f"{MOST_LEFT} or more")
QUANTILES = {"5 %": 0.05, "25 %": 0.25, "Median": 0.5, "75 %": 0.75, "95 %": 0.95}
COUNT_ROWS = {
    "trajectories": "Total samples",
    "unlabelled_trajectories": "Samples without labels of their source",
    "questions": "Questions",
    "most_trajectories_per_question": "Most trajectories of a question",
    "steps": "Steps",
    "mean_steps": "Steps of a trajectory, mean",
    "max_steps": "Steps of the longest trajectory",
}
"""Row label by statistic."""
PART_ROWS = {
    "Task Source (GSM8K : MATH)": ("gsm8k_share", 2, ("GSM8K", "MATH")),
    "Composition (mixed : pure)": ("mixed_share", 10, ("mixed", "pure")),
}
"""By row label: the share of the first part, the sum of the paper's parts, and their columns."""


def steps_with_truth(inputs: ReportInputs) -> pl.DataFrame:
    """`labelled_steps` of the profile; empty where no truth is known."""
    tables = (inputs.table(STEP_REWARDS), inputs.table(TRAJECTORIES), inputs.table(TRUTH))
    return pl.DataFrame() if any(table.is_empty() for table in tables) else labelled_steps(*tables)


def is_free_control(name: str) -> bool:
    """Whether a reward type is a control that takes the trajectory alone."""
    return name in REWARD_TYPES and REWARD_TYPES[name].is_free


def best_free_control(figures: Mapping[str, Resampled]) -> str | None:
    """The free control with the highest figure; None where there is none."""
    return max(filter(is_free_control, figures), key=lambda name: figures[name].value, default=None)


def measure_label_quality(inputs: ReportInputs) -> pl.DataFrame:
    """How well every reward type ranks true right steps above wrong ones; empty where no truth is known."""
    return measured_frame([*_against_truth(inputs), *_against_corpus(inputs)])


def label_auc_figures(inputs: ReportInputs) -> list[Measurement]:
    """Label AUC of every reward type over all steps; none where no truth is known."""
    steps = steps_with_truth(inputs)
    return [] if steps.is_empty() else _auc_figures(_aucs(inputs, steps), LABEL_AUC)


def measure_label_positions(inputs: ReportInputs) -> pl.DataFrame:
    """Label AUC of first, middle and last steps."""
    steps = steps_with_truth(inputs)
    if steps.is_empty():
        return measured_frame([])
    return measured_frame(
        figure
        for place, column in PLACE_COLUMNS.items()
        for figure in _auc_figures(_aucs(inputs, steps.filter(PLACES[place])), column)
    )


def measure_label_kinds(inputs: ReportInputs) -> pl.DataFrame:
    """Label AUC of right steps against wrong ones of each kind, where the truth names kinds."""
    steps = steps_with_truth(inputs)
    if "kind" not in steps.columns:
        return measured_frame([])
    kinds = steps["kind"].drop_nulls().unique().sort()
    of_kind = {kind: steps.filter(pl.col("correct") | (pl.col("kind") == kind)) for kind in kinds}
    return measured_frame(
        figure for kind, chosen in of_kind.items() for figure in _auc_figures(_aucs(inputs, chosen), kind.capitalize())
    )


def measure_label_operations(inputs: ReportInputs) -> pl.DataFrame:
    """Label AUC by the operations that are left to do after a step, where the truth counts them."""
    steps = steps_with_truth(inputs)
    if "operations_left" not in steps.columns:
        return measured_frame([])
    left = pl.col("operations_left")
    parts = [*(left == count for count in range(MOST_LEFT)), left >= MOST_LEFT]
    return measured_frame(
        figure
        for column, chosen in zip(OPERATION_COLUMNS, parts, strict=True)
        for figure in _auc_figures(_aucs(inputs, steps.filter(chosen)), column)
    )


def measure_label_within(inputs: ReportInputs) -> pl.DataFrame:
    """How labels rank the steps of one solution, and how often the lowest is the first wrong step."""
    steps = steps_with_truth(inputs)
    if steps.is_empty():
        return measured_frame([])
    figures = within_solutions(steps, inputs.bootstrap_samples, inputs.seed)
    found = {name: figure.found for name, figure in figures.items()}
    control = best_free_control(found)
    measure = partial(first_errors_found, inputs=inputs)
    differences = paired_differences(steps, found, control, measure) if control else {}
    measured: list[Measurement] = []
    for name in in_order(figures):
        row, pairs = reward_label(name), figures[name].pairs
        measured += [measurement(row, PAIRS, pairs.estimate())] if pairs else []
        measured.append(measurement(row, FOUND, found[name].estimate()))
        measured += [measurement(row, TO_CONTROL, differences[name])] if name in differences else []
    if figures:
        blind = max((figure.blind for figure in figures.values()), key=lambda figure: figure.n)
        measured += [Measurement(BLIND, PAIRS, 0.5), measurement(BLIND, FOUND, blind.estimate())]
    return measured_frame(measured)


def first_errors_found(steps: pl.DataFrame, inputs: ReportInputs) -> dict[str, Resampled]:
    """How often the lowest label of a solution with an error is on its first wrong step, by reward type."""
    figures = within_solutions(steps, inputs.bootstrap_samples, inputs.seed)
    return {name: figure.found for name, figure in figures.items()}


def measure_reward_distribution(inputs: ReportInputs) -> pl.DataFrame:
    """Mean and quantiles of the raw rewards of every type."""
    rewards = inputs.table(STEP_REWARDS)
    measured = []
    for name in in_order(rewards["reward_type"].unique()):
        values = rewards.filter(reward_type=name)["reward"]
        quantiles = {column: float(np.quantile(values.to_numpy(), share)) for column, share in QUANTILES.items()}
        figures = {"Mean": float(values.to_numpy().mean()), **quantiles}
        measured += [
            Measurement(reward_label(name), column, value, n=values.len()) for column, value in figures.items()
        ]
    return measured_frame(measured)


def reward_histogram_steps(inputs: ReportInputs) -> dict[str, pl.DataFrame]:
    """By row label, the rewards of every method but merges, with `correct`, which is null where no truth is known."""
    rewards, steps = inputs.table(STEP_REWARDS), steps_with_truth(inputs)
    if steps.is_empty():
        steps = rewards.with_columns(correct=pl.lit(None, pl.Boolean))
    return {
        reward_label(name): steps.filter(reward_type=name).select("reward", "correct")
        for name in in_order(rewards["reward_type"].unique())
        if name in REWARD_TYPES and REWARD_TYPES[name].kind == "method" and not REWARD_TYPES[name].merge
    }


def measure_dataset_statistics(inputs: ReportInputs) -> pl.DataFrame:
    """Counts of the data set, and its shares in the unit of the paper's ratios."""
    table = inputs.table(STATISTICS)
    if table.is_empty():
        return measured_frame([])
    statistics: dict[str, float] = dict(table.select("statistic", "actual").iter_rows())
    count = int(statistics["trajectories"])
    counts = [
        Measurement(row, "Count", statistics[name], n=count) for name, row in COUNT_ROWS.items() if name in statistics
    ]
    parts = [
        Measurement(row, column, share * whole, n=count)
        for row, (name, whole, columns) in PART_ROWS.items()
        if name in statistics
        for column, share in zip(columns, (statistics[name], 1 - statistics[name]), strict=True)
    ]
    return measured_frame([*counts, *parts])


def _against_truth(inputs: ReportInputs) -> list[Measurement]:
    steps = steps_with_truth(inputs)
    if steps.is_empty():
        return []
    aucs = _aucs(inputs, steps)
    measured = _auc_figures(aucs, LABEL_AUC)
    measured += _auc_figures(_aucs(inputs, steps.filter(~IS_LAST)), WITHOUT_LAST)
    baselines = {TO_BASELINE: "mc" if "mc" in aucs else None, TO_CONTROL: best_free_control(aucs)}
    for column, baseline in baselines.items():
        if baseline:
            differences = paired_differences(steps, aucs, baseline, partial(_aucs, inputs))
            measured += [measurement(reward_label(name), column, differences[name]) for name in in_order(differences)]
    return measured


def _against_corpus(inputs: ReportInputs) -> list[Measurement]:
    """Label AUC with the corpus's own labels in the place of the truth, as in the authors' notebook."""
    rewards, trajectories = inputs.table(STEP_REWARDS), inputs.table(TRAJECTORIES)
    if rewards.is_empty() or trajectories.is_empty():
        return []
    labels = trajectories.select("row_number", correct="shepherd_labels").drop_nulls()
    names = rewards["reward_type"].unique(maintain_order=True) if labels.height else []
    aucs: dict[str, Resampled] = {}
    # one type after another: the steps of all of them at once take gigabytes
    for name in names:
        if name != CORPUS_LABELS:
            steps = labelled_steps(rewards.filter(reward_type=name), trajectories, labels)
            aucs |= _aucs(inputs, steps.filter(reward_type=name))
    return _auc_figures(aucs, CORPUS_AUC)


def _aucs(inputs: ReportInputs, steps: pl.DataFrame) -> dict[str, Resampled]:
    return label_aucs(steps, inputs.bootstrap_samples, inputs.seed)


def _auc_figures(aucs: Mapping[str, Resampled], column: str) -> list[Measurement]:
    return [measurement(reward_label(name), column, aucs[name].estimate()) for name in in_order(aucs)]


def in_order(names: Iterable[str]) -> list[str]:
    """Reward types in the order in which tables list them."""
    frame = pl.DataFrame({"name": list(names)}, schema={"name": pl.String})
    return frame.sort(listing_place("name"), maintain_order=True)["name"].to_list()
