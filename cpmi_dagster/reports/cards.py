"""The figures of a reward model as its model card shows them.

card_figures(inputs, "cpmi_bce")  ->  [("ProcessBench F1, mean of four subsets", "34.6 [31.0, 38.1]"), ...]
"""

from cpmi_dagster.reports.html_tables import format_figure, format_interval
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.quality import QUALITY

NAMES: dict[str, tuple[str, int]] = {
    "AUC": ("ROC-AUC of step scores on ProcessBench-Math", 3),
    "PB": ("ProcessBench F1, mean of four subsets, the best threshold on each", 1),
    "PB (official)": ("ProcessBench F1, mean of four subsets, one threshold from GSM8K", 1),
    "PRMB": ("PRMBench, overall PRMScore", 1),
    "MATH": ("MATH500, best of 8 (%)", 1),
    "MMLU": ("MMLU-STEM, best of 8 (%)", 1),
}
"""What each measure of `QUALITY` is called on a card, and its decimals."""


def card_figures(inputs: ReportInputs, recipe: str) -> list[tuple[str, str]]:
    """Name and value with its 95 % interval of everything that was measured with a recipe's model."""
    figures = []
    for measure, (name, decimals) in NAMES.items():
        estimate = QUALITY[measure](inputs, recipe)
        if estimate is not None:
            interval = format_interval(estimate.low, estimate.high, decimals)
            figures.append((name, f"{format_figure(estimate.value, decimals)} {interval}".strip()))
    return figures
