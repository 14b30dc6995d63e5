"""Quality of the labels where the truth is known, and statistics of the data set.

row "CPMI", column "Label AUC"          ROC-AUC of the raw rewards against the true step labels
row "CPMI", column "Difference to MC"   paired difference over the same questions
"""

import polars as pl

from cpmi_dagster.benchmarks.label_quality import label_quality, label_quality_differences
from cpmi_dagster.reports.inputs import Measurement, ReportInputs, measured_frame
from cpmi_dagster.rewards.registry import listing_place, reward_label

REWARDS = "labels/step_rewards"
TRAJECTORIES = "alignment/trajectories"
TRUTH = "sources/step_truth"
STATISTICS = "dataset/dataset_statistics"
LABEL_AUC = "Label AUC"
DIFFERENCE = "Difference to MC"
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


def measure_label_quality(inputs: ReportInputs) -> pl.DataFrame:
    """How well every reward type ranks true right steps above wrong ones; empty where no truth is known."""
    tables = (inputs.table(REWARDS), inputs.table(TRAJECTORIES), inputs.table(TRUTH))
    if any(table.is_empty() for table in tables):
        return measured_frame([])
    draws = (inputs.bootstrap_samples, inputs.seed)
    aucs = _by_reward_type(label_quality(*tables, *draws), "auc", LABEL_AUC)
    if "mc" not in tables[0]["reward_type"]:
        return measured_frame(aucs)
    differences = label_quality_differences(*tables, *draws)
    return measured_frame([*aucs, *_by_reward_type(differences, "difference", DIFFERENCE)])


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


def _by_reward_type(figures: pl.DataFrame, figure: str, column: str) -> list[Measurement]:
    ordered = figures.sort(listing_place("reward_type"), maintain_order=True)
    rows = ordered.select("reward_type", figure, "low", "high", "n").iter_rows()
    return [Measurement(reward_label(reward_type), column, *estimate) for reward_type, *estimate in rows]
