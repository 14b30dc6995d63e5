"""Tables that set recipes against each other: terms of CPMI, hard negatives, training objectives.

row "M = 2"       reward type cpmi_m2, trained with BCE
row "PQM, CPMI"   reward type cpmi, trained with PQM
"""

import polars as pl

from cpmi_dagster.reports.inputs import ReportInputs, measured_frame
from cpmi_dagster.reports.labels import LABEL_AUC, measure_label_quality
from cpmi_dagster.reports.quality import measure_quality
from cpmi_dagster.reports.reward_rows import CONTRAST_ROWS, NEGATIVES_ROWS, objective_rows
from cpmi_dagster.rewards.registry import reward_label

CONTRAST_COLUMNS = {
    "AUC": "AUC",
    "PB": "PB",
    "PB (official)": "PB (official)",
    "PRMB": "PRMB",
    "Math": "MATH",
    "MMLU": "MMLU",
}
NEGATIVES_COLUMNS = {"ROC-AUC" if column == "AUC" else column: measure for column, measure in CONTRAST_COLUMNS.items()}
OBJECTIVE_COLUMNS = {
    "ProcessBench": "PB",
    "ProcessBench (official)": "PB (official)",
    "PRMBench": "PRMB",
    "MATH500": "MATH",
}


def measure_contrast(inputs: ReportInputs) -> pl.DataFrame:
    """The two terms of CPMI alone, and both with one and with all hard negatives."""
    return measured_frame(measure_quality(inputs, CONTRAST_ROWS, CONTRAST_COLUMNS))


def measure_objectives(inputs: ReportInputs) -> pl.DataFrame:
    """MC and CPMI labels under every training objective."""
    return measured_frame(measure_quality(inputs, objective_rows(inputs.recipes), OBJECTIVE_COLUMNS))


def measure_negatives_ablation(inputs: ReportInputs) -> pl.DataFrame:
    """The number of hard negatives: reward models, and the labels themselves where the truth is known."""
    rows = pl.DataFrame({"label": [reward_label(row.reward_type) for row in NEGATIVES_ROWS]}).with_columns(
        new=pl.Series([row.row for row in NEGATIVES_ROWS])
    )
    labels = measure_label_quality(inputs).filter(pl.col("column") == LABEL_AUC)
    of_labels = rows.join(labels, left_on="label", right_on="row", how="inner", maintain_order="left").select(
        pl.col("new").alias("row"), "column", "measured", "low", "high", "n"
    )
    return pl.concat([measured_frame(measure_quality(inputs, NEGATIVES_ROWS, NEGATIVES_COLUMNS)), of_labels])
