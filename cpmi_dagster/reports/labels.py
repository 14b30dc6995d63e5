"""Quality of the labels where the truth is known, and statistics of the data set.

row "CPMI", column "Label AUC"                 ROC-AUC of the raw rewards against the true step labels
row "CPMI", column "Without last steps"        the same, over the other steps
row "CPMI", column "Difference to MC"          paired difference over the same questions
row "CPMI", column "Difference to best control"  likewise, to the free control with the highest AUC
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import (
    IS_LAST,
    label_aucs,
    labelled_steps,
    paired_differences,
    true_steps,
    within_solutions,
)
from cpmi_dagster.benchmarks.resampling import Resampled
from cpmi_dagster.contracts.keys import STATISTICS, STEP_REWARDS, TRAJECTORIES, TRUTH
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame, measurement
from cpmi_dagster.rewards.registry import CORPUS_LABELS, REWARD_TYPES, listing_place, reward_label

TRUE_LABELS = [name for name, entry in REWARD_TYPES.items() if entry.needs.truth]
LABEL_AUC = "Label AUC"
WITHOUT_LAST = "Without last steps"
TO_BASELINE = "Difference to MC"
TO_CONTROL = "Difference to best control"
CORPUS_AUC = "AUC against the corpus's labels"
PAIRS, FOUND, BLIND = "Pairs ranked right", "First wrong step found", "Blind pick"
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
    """`labelled_steps` of the profile; empty where too little truth is known. True steps are not judged as labels."""
    judged = inputs.table(STEP_REWARDS).filter(~pl.col("reward_type").is_in(TRUE_LABELS))
    tables = (judged, inputs.table(TRAJECTORIES), inputs.table(TRUTH))
    if any(table.is_empty() for table in tables) or min(right_and_wrong(inputs)) < inputs.fewest_judged:
        return pl.DataFrame()
    return labelled_steps(*tables)


def right_and_wrong(inputs: ReportInputs) -> tuple[int, int]:
    """How many of the steps with labels are truly right, and how many wrong."""
    if (truth := inputs.table(TRUTH)).is_empty():
        return 0, 0
    labelled = inputs.table(TRAJECTORIES).join(inputs.table(STEP_REWARDS), on="trajectory_id", how="semi")
    correct = true_steps(labelled, truth)["correct"]
    return int(correct.sum()), int((~correct).sum())


def in_order(names: Iterable[str]) -> list[str]:
    """Reward types in the order in which tables list them."""
    frame = pl.DataFrame({"name": list(names)}, schema={"name": pl.String})
    return frame.sort(listing_place("name"), maintain_order=True)["name"].to_list()


def best_free_control(figures: Mapping[str, Resampled]) -> str | None:
    """The reward type with the highest figure among controls that take the trajectory alone; None without any."""
    free = [name for name in figures if name in REWARD_TYPES and REWARD_TYPES[name].is_free]
    return max(free, key=lambda name: figures[name].value, default=None)


def best_anew(figures: Sequence[Resampled]) -> Resampled:
    """The best of some figures, chosen again in every resample."""
    draws = np.fmax.reduce([figure.draws for figure in figures])
    units = min(figure.units for figure in figures)
    return Resampled(max(figure.value for figure in figures), draws, figures[0].n, units)


def auc_figures(aucs: Mapping[str, Resampled], column: str = "", row: str = "") -> list[Measurement]:
    """Label AUC of every reward type, in its row of a column or in its column of a row."""
    labels = {name: reward_label(name) for name in in_order(aucs)}
    return [measurement(row or label, column or label, aucs[name].estimate()) for name, label in labels.items()]


def measure_label_quality(inputs: ReportInputs) -> pl.DataFrame:
    """How well every reward type ranks true right steps above wrong ones, and those that the corpus calls so."""
    steps, measured = steps_with_truth(inputs), []
    if steps.height:
        aucs = label_aucs(steps, *inputs.draws)
        measured += auc_figures(aucs, LABEL_AUC)
        measured += auc_figures(label_aucs(steps.filter(~IS_LAST), *inputs.draws), WITHOUT_LAST)
        measure = partial(label_aucs, samples=inputs.bootstrap_samples, seed=inputs.seed)
        for column, baseline in ((TO_BASELINE, "mc"), (TO_CONTROL, best_free_control(aucs))):
            if baseline in aucs:
                apart = paired_differences(steps, aucs, baseline, measure)
                measured += [measurement(reward_label(name), column, apart[name]) for name in in_order(apart)]
    # the corpus's own labels in the place of the truth, as in the authors' notebook
    rewards, trajectories = inputs.table(STEP_REWARDS), inputs.table(TRAJECTORIES)
    labels = trajectories.select("row_number", correct="shepherd_labels").drop_nulls()
    names = rewards["reward_type"].unique(maintain_order=True) if labels.height else []
    against_corpus: dict[str, Resampled] = {}
    # one type after another: the steps of all of them at once take gigabytes
    for name in names:
        if name not in (CORPUS_LABELS, *TRUE_LABELS):
            steps = labelled_steps(rewards.filter(reward_type=name), trajectories, labels)
            against_corpus |= label_aucs(steps.filter(reward_type=name), *inputs.draws)
    return measured_frame([*measured, *auc_figures(against_corpus, CORPUS_AUC)])


def first_errors_found(steps: pl.DataFrame, inputs: ReportInputs) -> dict[str, Resampled]:
    """How often the lowest label of a solution with an error is on its first wrong step, by reward type."""
    return {name: figure.found for name, figure in within_solutions(steps, *inputs.draws).items() if figure.found}


def measure_label_within(inputs: ReportInputs) -> pl.DataFrame:
    """How labels rank the steps of one solution, and how often the lowest is the first wrong step."""
    steps = steps_with_truth(inputs)
    figures = {} if steps.is_empty() else within_solutions(steps, *inputs.draws)
    if not figures:
        return measured_frame([])
    found = {name: figure.found for name, figure in figures.items() if figure.found}
    control = best_free_control(found)
    measure = partial(first_errors_found, inputs=inputs)
    differences = paired_differences(steps, found, control, measure) if control else {}
    measured: list[Measurement] = []
    for name in in_order(figures):
        row, pairs = reward_label(name), figures[name].pairs
        measured += [measurement(row, PAIRS, pairs.estimate())] if pairs else []
        measured += [measurement(row, FOUND, found[name].estimate())] if name in found else []
        measured += [measurement(row, TO_CONTROL, differences[name])] if name in differences else []
    measured.append(Measurement(BLIND, PAIRS, 0.5))
    blind = max((figure.blind for figure in figures.values() if figure.blind), key=lambda each: each.n, default=None)
    return measured_frame([*measured, measurement(BLIND, FOUND, blind.estimate())] if blind else measured)


def measure_reward_distribution(inputs: ReportInputs) -> pl.DataFrame:
    """Mean and quantiles of the raw rewards of every type."""
    rewards, measured = inputs.table(STEP_REWARDS), []
    for name in in_order(rewards["reward_type"].unique()):
        values = rewards.filter(reward_type=name)["reward"].to_numpy()
        quantiles = {column: float(np.quantile(values, share)) for column, share in QUANTILES.items()}
        for column, value in {"Mean": float(values.mean()), **quantiles}.items():
            measured.append(Measurement(reward_label(name), column, value, n=len(values)))
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
    statistics: dict[str, float] = dict(inputs.table(STATISTICS).select("statistic", "actual").iter_rows())
    count = int(statistics.get("trajectories", 0))
    measured = [
        Measurement(row, "Count", statistics[name], n=count) for name, row in COUNT_ROWS.items() if name in statistics
    ]
    for row, (name, whole, columns) in PART_ROWS.items():
        if name in statistics:
            for column, share in zip(columns, (statistics[name], 1 - statistics[name]), strict=True):
                measured.append(Measurement(row, column, share * whole, n=count))
    return measured_frame(measured)
