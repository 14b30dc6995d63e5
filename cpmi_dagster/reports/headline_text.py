"""The headline as text, generated from its figures: what is better, worse, or within noise. For example:

Pass@1 needs no reward model and is right in 58.1 % of MATH500; best of 8 by a reward model is better with CPMI (63.8,
p = 0.02); lower (within noise) with MC (56.0, p = 0.4).

CPMI, compared with MC: better in PRMScore (47.1 against 44.0, p = 0.01), worse in label AUC (0.747 against 0.812,
p = 0.002); within noise in ProcessBench F1 (28.9 against 31.4). It takes 0.21 times the time and 0.02 times the
generated tokens of MC.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from cpmi_dagster.benchmarks.step_distribution import CHANCE_AUC
from cpmi_dagster.reports.headline import BASELINE, HEADLINE_COLUMNS, HeadlineColumn
from cpmi_dagster.reports.html_tables import DIFFERENCE, SIGNIFICANT, format_figure, format_interval
from cpmi_dagster.reports.paper import COMPARISON_SCHEMA
from cpmi_dagster.reports.process_level import against_chance
from cpmi_dagster.reports.question_sets import NO_REWARD_MODEL

VERDICTS = ("better", "worse", "within noise")
UNAIDED_VERDICTS = ("better", "no lower (within noise)", "lower (within noise)", "worse")
NOT_MEASURED = pl.DataFrame(schema=COMPARISON_SCHEMA)
BEST_OF_8 = next(column for column in HEADLINE_COLUMNS if column.name == "best_of_8")
SEED_PHRASES = {"AUC": "step AUC", "PB": "ProcessBench F1", "PRMB": "PRMScore", "MATH": "best-of-8 accuracy"}
CHANCE_VERDICTS = {"above": "above it", "chance": "not distinguishable from it", "below": "below it"}
Row = Mapping[str, Any]
Pairs = Mapping[tuple[str, str, str], Row]


def headline_reading(
    table: pl.DataFrame,
    differences: pl.DataFrame,
    distribution: pl.DataFrame = NOT_MEASURED,
    seeds: pl.DataFrame = NOT_MEASURED,
) -> list[str]:
    """Whether reward models beat chance and no reward model, then a paragraph per reward type compared with MC.

    Args:
        table: `headline_table`.
        differences: `differences_to_baseline`; where a pair is not in it, overlapping intervals count as noise.
        distribution: comparison of the artifact `distribution`, for the step AUC; without external judges.
        seeds: comparison of the artifact `training_seeds`.

    Returns:
        Paragraphs of plain text; none where there is nothing to compare.
    """
    rows = {row["reward"]: row for row in table.iter_rows(named=True)}
    paired = {(row["reward"], row["baseline"], row["measure"]): row for row in differences.iter_rows(named=True)}
    unaided = [rows.pop(name) for name in NO_REWARD_MODEL.values() if name in rows]
    paragraphs = [_against_chance(distribution)]
    paragraphs += [_against_no_model(rows, baseline, paired) for baseline in unaided]
    if baseline := rows.pop(BASELINE, None):
        paragraphs += [_compare(row, baseline, paired) for row in rows.values()]
    repeated = _over_seeds(seeds)
    written = [paragraph for paragraph in paragraphs if paragraph]
    return [*written, *repeated, _caveat(differences, repeated)] if written else []


def _against_chance(distribution: pl.DataFrame) -> str:
    models = against_chance(distribution)
    parts = []
    for verdict, words in CHANCE_VERDICTS.items():
        if texts := [f"{row['row']} ({row['measured']:.3f})" for row in models.filter(verdict=verdict).to_dicts()]:
            parts.append(f"{_listed(texts)} {words}")
    return f"Step AUC of the reward models, where chance is {CHANCE_AUC}: {'; '.join(parts)}." if parts else ""


def _against_no_model(rows: Mapping[str, Row], baseline: Row, paired: Pairs) -> str:
    """Best of 8 by reward models compared with a choice that needs none."""
    findings: dict[str, list[str]] = {verdict: [] for verdict in UNAIDED_VERDICTS}
    for name, row in rows.items():
        ours = row[BEST_OF_8.name]
        if ours is not None:
            verdict, test = _verdict(row, baseline, BEST_OF_8, paired)
            if verdict == "within noise":
                verdict = "lower (within noise)" if ours < baseline[BEST_OF_8.name] else "no lower (within noise)"
            findings[verdict].append(f"{name} ({format_figure(ours, BEST_OF_8.decimals)}{test})")
    parts = [f"{verdict} with {_listed(texts)}" for verdict, texts in findings.items() if texts]
    figure = format_figure(baseline[BEST_OF_8.name], BEST_OF_8.decimals)
    without = f"{baseline['reward']} needs no reward model and is right in {figure} % of MATH500"
    return f"{without}; best of 8 by a reward model is {'; '.join(parts)}." if parts else ""


def _compare(row: Row, baseline: Row, paired: Pairs) -> str:
    findings: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for column in HEADLINE_COLUMNS:
        if column.quality and row[column.name] is not None and baseline[column.name] is not None:
            verdict, test = _verdict(row, baseline, column, paired)
            ours, theirs = (format_figure(each[column.name], column.decimals) for each in (row, baseline))
            findings[verdict].append(f"{column.phrase} ({ours} against {theirs}{test})")
    parts = [f"{verdict} in {_listed(findings[verdict])}" for verdict in VERDICTS if findings[verdict]]
    costs = _costs(row)
    if not parts:
        return f"{row['reward']} {costs}" if costs else ""
    return f"{row['reward']}, compared with {BASELINE}: {'; '.join(parts)}." + (f" It {costs}" if costs else "")


def _verdict(row: Row, baseline: Row, column: HeadlineColumn, paired: Pairs) -> tuple[str, str]:
    """One of `VERDICTS`, and its evidence."""
    difference = paired.get((row["reward"], baseline["reward"], column.name))
    if difference is not None:
        clear, test = difference["p_value"] < SIGNIFICANT, f", p = {difference['p_value']:.2g}"
    else:
        clear = not _overlap(row, baseline, column)
        test = ", intervals apart" if clear else ""
    verdict = "better" if row[column.name] > baseline[column.name] else "worse"
    return verdict if clear else "within noise", test


def _overlap(row: Row, baseline: Row, column: HeadlineColumn) -> bool:
    """Whether two intervals overlap; unknown ones count as overlapping."""
    bounds = [each[f"{column.name}_{end}"] for each in (row, baseline) for end in ("low", "high")]
    low, high, other_low, other_high = bounds
    return None in bounds or (low <= other_high and other_low <= high)


def _costs(row: Row) -> str:
    costs = [
        f"{format_figure(row[column.name], column.decimals)} times the {column.phrase}"
        for column in HEADLINE_COLUMNS
        if not column.quality and row[column.name] is not None
    ]
    return f"takes {_listed(costs)} of {BASELINE}." if costs else ""


def _over_seeds(seeds: pl.DataFrame) -> list[str]:
    """A paragraph for every difference of means over training seeds."""
    rows = seeds.filter(pl.col("row").str.contains(DIFFERENCE, literal=True)).drop_nulls(["measured", "low", "high"])
    paragraphs = []
    for (name,), figures in rows.group_by("row", maintain_order=True):
        texts: dict[bool, list[str]] = {True: [], False: []}
        for figure in figures.iter_rows(named=True):
            is_noise = figure["low"] <= 0 <= figure["high"]
            measure = SEED_PHRASES.get(figure["column"], figure["column"])
            interval = format_interval(figure["low"], figure["high"])
            texts[is_noise].append(f"{measure} ({format_figure(figure['measured'])} {interval})")
        verdicts = {False: "more than the spread in", True: "within the spread in"}
        parts = [f"{verdict} {_listed(texts[is_noise])}" for is_noise, verdict in verdicts.items() if texts[is_noise]]
        paragraphs.append(f"Over training seeds, {name}: {'; '.join(parts)}.")
    return paragraphs


def _caveat(differences: pl.DataFrame, repeated: list[str]) -> str:
    how = "a paired bootstrap over the same questions" if differences.height else "whether 95 % intervals overlap"
    runs = "as they are one training run each, the spread between seeds is not in it"
    if repeated:
        runs = "the trained models are held fixed there, and the questions in the sentences on training seeds"
    return f"Better and worse are judged by {how}, at 5 %, one comparison at a time; {runs}."


def _listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
