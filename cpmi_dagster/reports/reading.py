"""The headline in words, made from its figures: what is better, what is worse, what is within noise. For example:

CPMI, compared with MC: better in PRMScore (47.1 against 44.0, p = 0.01), worse in label AUC (0.747 against 0.812,
p = 0.002); within noise in ProcessBench F1 (28.9 against 31.4). It takes 0.21 times the time and 0.02 times the
generated tokens of MC.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from cpmi_dagster.reports.headline import BASELINE, HEADLINE_COLUMNS, HeadlineColumn
from cpmi_dagster.reports.html_tables import format_figure

SIGNIFICANT = 0.05
VERDICTS = ("better", "worse", "within noise")


def headline_reading(table: pl.DataFrame, differences: pl.DataFrame) -> list[str]:
    """A paragraph per reward type that says how it compares with MC.

    Args:
        table: `headline_table`.
        differences: `differences_to_baseline`; where a pair is not in it, overlapping intervals count as noise.

    Returns:
        Paragraphs of plain text; none where MC was not measured.
    """
    baseline = next((row for row in table.iter_rows(named=True) if row["reward"] == BASELINE), None)
    if baseline is None:
        return []
    paired = {(row["reward"], row["measure"]): row for row in differences.iter_rows(named=True)}
    others = [row for row in table.iter_rows(named=True) if row["reward"] != BASELINE]
    paragraphs = [_compare(row, baseline, paired) for row in others]
    return [*(paragraph for paragraph in paragraphs if paragraph), _caveat(differences)]


def _compare(row: Mapping[str, Any], baseline: Mapping[str, Any], paired: Mapping[tuple[str, str], Any]) -> str:
    findings: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for column in HEADLINE_COLUMNS:
        if column.quality and row[column.name] is not None and baseline[column.name] is not None:
            verdict, finding = _finding(row, baseline, column, paired.get((row["reward"], column.name)))
            findings[verdict].append(finding)
    parts = [f"{verdict} in {_listed(findings[verdict])}" for verdict in VERDICTS if findings[verdict]]
    costs = _costs(row)
    if not parts:
        return f"{row['reward']} {costs}" if costs else ""
    return f"{row['reward']}, compared with {BASELINE}: {'; '.join(parts)}." + (f" It {costs}" if costs else "")


def _finding(
    row: Mapping[str, Any], baseline: Mapping[str, Any], column: HeadlineColumn, difference: Mapping[str, Any] | None
) -> tuple[str, str]:
    ours, theirs = row[column.name], baseline[column.name]
    figures = f"{format_figure(ours, column.decimals)} against {format_figure(theirs, column.decimals)}"
    if difference is not None:
        clear, test = difference["p_value"] < SIGNIFICANT, f", p = {difference['p_value']:.2g}"
    else:
        clear, test = (
            not _overlap(row, baseline, column),
            ", intervals apart" if not _overlap(row, baseline, column) else "",
        )
    verdict = "within noise" if not clear else "better" if ours > theirs else "worse"
    return verdict, f"{column.phrase} ({figures}{test})"


def _overlap(row: Mapping[str, Any], baseline: Mapping[str, Any], column: HeadlineColumn) -> bool:
    """Whether two intervals meet; unknown ones count as meeting."""
    bounds = [each[f"{column.name}_{end}"] for each in (row, baseline) for end in ("low", "high")]
    if any(bound is None for bound in bounds):
        return True
    low, high, other_low, other_high = bounds
    return low <= other_high and other_low <= high


def _costs(row: Mapping[str, Any]) -> str:
    costs = [
        f"{format_figure(row[column.name], column.decimals)} times the {column.phrase}"
        for column in HEADLINE_COLUMNS
        if not column.quality and row[column.name] is not None
    ]
    return f"takes {_listed(costs)} of {BASELINE}." if costs else ""


def _caveat(differences: pl.DataFrame) -> str:
    how = "a paired bootstrap over the same questions" if differences.height else "whether 95 % intervals overlap"
    return (
        f"Better and worse are judged by {how}, at 5 %, one comparison at a time; each reward type is one training "
        "run, so the spread between seeds is not in it."
    )


def _listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
