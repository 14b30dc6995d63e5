"""Tables that compare recipes: terms of CPMI, hard negatives, training objectives.

row "M = 2"       reward type cpmi_m2, trained with BCE
row "PQM, CPMI"   reward type cpmi, trained with PQM
"""

import polars as pl

from cpmi_dagster.reports.inputs import ReportInputs, measured_frame
from cpmi_dagster.reports.labels import label_auc_figures
from cpmi_dagster.reports.quality import QUALITY, measure_quality, quality_columns
from cpmi_dagster.reports.reward_rows import CONTRAST_ROWS, negatives_rows, objective_rows
from cpmi_dagster.rewards.registry import reward_label

CONTRAST_COLUMNS = quality_columns(QUALITY, {"MATH": "Math"})
NEGATIVES_COLUMNS = quality_columns(QUALITY, {"AUC": "ROC-AUC", "MATH": "Math"})
OBJECTIVE_HEADINGS = {
    "PB": "ProcessBench",
    "PB (official)": "ProcessBench (official)",
    "PRMB": "PRMBench",
    "PRMB (best)": "PRMBench (best)",
    "MATH": "MATH500",
}
OBJECTIVE_COLUMNS = quality_columns(OBJECTIVE_HEADINGS, OBJECTIVE_HEADINGS)


def measure_contrast(inputs: ReportInputs) -> pl.DataFrame:
    """The two terms of CPMI alone, and both with one and with all hard negatives."""
    return measured_frame(measure_quality(inputs, CONTRAST_ROWS, CONTRAST_COLUMNS))


def measure_objectives(inputs: ReportInputs) -> pl.DataFrame:
    """MC and CPMI labels under every training objective."""
    return measured_frame(measure_quality(inputs, objective_rows(inputs.recipes), OBJECTIVE_COLUMNS))


def measure_negatives_ablation(inputs: ReportInputs) -> pl.DataFrame:
    """The number of hard negatives: reward models, and the labels themselves where the truth is known."""
    rows = negatives_rows(inputs.negatives)
    aucs = {figure.row: figure for figure in label_auc_figures(inputs)}
    labelled = [(row.row, aucs.get(reward_label(row.reward_type))) for row in rows]
    of_labels = [figure._replace(row=row) for row, figure in labelled if figure]
    return measured_frame([*measure_quality(inputs, rows, NEGATIVES_COLUMNS), *of_labels])
