"""Quality of the reward models by their labels, alone and against the cost of these: RelEff (Eq. 8) and its ratios.

    Time    labeling seconds per trajectory relative to the baseline (MC, or PAV among the merges on PAV)
    Token   generated tokens, likewise
    RelEff  (Q / C) / (Q of the baseline / C of the baseline), with C = labeling time

Intervals of costs resample shards; a baseline relative to itself has none. An interval of RelEff joins those of its
three terms on the logarithmic scale as if they were independent; both qualities are measured on the same problems, so
it is wider than need be. Its units are those of the term that has fewest.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from cpmi_dagster.benchmarks.label_quality import IS_LAST, label_aucs
from cpmi_dagster.benchmarks.registry import question_set_labels
from cpmi_dagster.benchmarks.resampling import Estimate, Floats, Resampled, bootstrap, bootstrap_mean
from cpmi_dagster.contracts.keys import COSTS, NEGATIVES, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.reports.figures import Figure, ReportInputs
from cpmi_dagster.reports.labels import LABEL_AUC, WITHOUT_LAST, steps_with_truth
from cpmi_dagster.reports.models import MEASURES, Measure, best_of_eight
from cpmi_dagster.reports.paper import (
    CONTRAST_ROWS,
    MERGE_POINT_ROWS,
    METHOD_TYPE,
    RecipeRow,
    main_rows,
    negatives_rows,
    objective_rows,
)
from cpmi_dagster.rewards.costs import relative_efficiency

SUBSET = 10_000
"""Trajectories that the paper's raw costs are accumulated over."""
COST_COLUMNS = {"Time": "wall_seconds", "Token": "generated_tokens"}
RAW_COSTS = {"Time": "wall_seconds", "gen_tokens": "generated_tokens"}
RELATIVE = ("AUC", "PB", "PRMB", "MATH")
MAIN_MEASURES = {name: measure for name, measure in MEASURES.items() if name != "MMLU"}
OBJECTIVE_HEADINGS = {
    "PB": "ProcessBench",
    "PB (official)": "ProcessBench (official)",
    "PRMB": "PRMBench",
    "PRMB (best)": "PRMBench (best)",
    "MATH": "MATH500",
}
NOT_IN_LOGIC = "pav"
OWN_ANSWER = "Own answer among them (%)"


def measure_quality(
    inputs: ReportInputs,
    rows: Iterable[RecipeRow],
    measures: Mapping[str, Measure] = MAIN_MEASURES,
    headings: Mapping[str, str] = {},
) -> Iterator[Figure]:
    """A figure per row and measure that can be measured; rows whose recipe the profile lacks are left out.

    Args:
        headings: columns of measures whose column is not their name.
    """
    for row in rows:
        recipe = inputs.recipe_of(row)
        for name, measure in measures.items() if recipe else ():
            if (figure := measure.of(inputs, str(recipe))) is not None:
                yield row.row, headings.get(name, name), figure


def measure_contrast(inputs: ReportInputs) -> Iterator[Figure]:
    """The two terms of CPMI alone, and both with one and with all hard negatives."""
    return measure_quality(inputs, CONTRAST_ROWS, MEASURES, {"MATH": "Math"})


def measure_objectives(inputs: ReportInputs) -> Iterator[Figure]:
    """MC and CPMI labels under every training objective."""
    measures = {name: MEASURES[name] for name in OBJECTIVE_HEADINGS}
    return measure_quality(inputs, objective_rows(inputs.recipes), measures, OBJECTIVE_HEADINGS)


def measure_logic(inputs: ReportInputs) -> Iterator[Figure]:
    """Best-of-8 accuracy on the logic sets."""
    rows = (row for row in main_rows(inputs.recipes) if row.reward_type != NOT_IN_LOGIC)
    sets = question_set_labels("logic").items()
    return measure_quality(inputs, rows, {label: best_of_eight(name, label) for name, label in sets})


def measure_negatives_ablation(inputs: ReportInputs) -> Iterator[Figure]:
    """By number and kind of hard negatives: reward models, labels on judged steps, own wrong answers among them."""
    rows, steps = negatives_rows(inputs.negatives), steps_with_truth(inputs)
    yield from measure_quality(inputs, rows, MEASURES, {"AUC": "ROC-AUC", "MATH": "Math"})
    for column, is_in in ((LABEL_AUC, True), (WITHOUT_LAST, ~IS_LAST)) if steps.height else ():
        labelled = steps.filter(pl.col("reward_type").is_in([row.reward_type for row in rows]), is_in)
        aucs = label_aucs(labelled, *inputs.draws)
        for row in rows:
            if row.reward_type in aucs:
                yield row.row, column, aucs[row.reward_type].estimate()
    for row in rows:
        if row.reward_type == METHOD_TYPE and (share := own_answers_share(inputs)):
            yield row.row, OWN_ANSWER, share.estimate().scaled(100)


def own_answers_share(inputs: ReportInputs) -> Resampled | None:
    """How often a wrong final answer is itself among the trajectory's hard negatives; None without any."""
    if (negatives := inputs.table(NEGATIVES).select("trajectory_id", "answer")).is_empty():
        return None
    answers = inputs.table(TRAJECTORIES).select("trajectory_id", "question_id", "gold_answer", "final_answer")
    pairs = answers.drop_nulls().join(negatives, on="trajectory_id")
    gold, final, wrong = (pairs[name].to_list() for name in ("gold_answer", "final_answer", "answer"))
    is_right, is_own = inputs.comparison.each(gold, final), inputs.comparison.each(final, wrong)
    judged = pairs.with_columns(right=pl.Series(is_right, dtype=pl.Boolean), own=pl.Series(is_own, dtype=pl.Boolean))
    solutions = judged.filter(~pl.col("right")).group_by("question_id", "trajectory_id").agg(pl.col("own").any())
    return bootstrap_mean(solutions["own"], *inputs.draws, solutions["question_id"]) if solutions.height else None


def measure_efficiency(
    inputs: ReportInputs, own_rows: tuple[RecipeRow, ...] = (), baseline: str = "mc"
) -> Iterator[Figure]:
    """Quality, cost relative to a baseline, and RelEff of the main reward types, or of other rows.

    Args:
        own_rows: instead of the main ones; the first is the baseline's.
    """
    rows = own_rows or main_rows(inputs.recipes)
    first, quality = rows[0].row, list(measure_quality(inputs, rows))
    ratios = {column: cost_ratios(inputs, rows, baseline, cost) for column, cost in COST_COLUMNS.items()}
    yield from quality
    for column, of_rows in ratios.items():
        for row, ratio in of_rows.items():
            yield row, column, ratio
            if row != first:
                yield row, f"{column} saved (%)", ratio.through(lambda share: 100 - 100 * share)
    yield from _relative_efficiencies(quality, ratios["Time"], first)


def measure_merge_points(inputs: ReportInputs) -> Iterator[Figure]:
    """Shares of MC steps, quality, raw and relative cost, and RelEff by merge point."""
    steps = inputs.table(STEP_REWARDS).filter(pl.col("reward_type") == "cpmi").group_by("trajectory_id").len("steps")
    if total := int(steps["steps"].sum()):
        taken = {f"CPMI_Merge{k}": int(steps["steps"].clip(upper_bound=k).sum()) for k in (1, 2, 3)}
        for row, count in {"CPMI": 0, **taken, "MC": total}.items():
            yield row, "MC (%)", Estimate(100 * count / total, n=total)
            yield row, "CPMI (%)", Estimate(100 - 100 * count / total, n=total)
    quality = list(measure_quality(inputs, MERGE_POINT_ROWS))
    ratios = cost_ratios(inputs, MERGE_POINT_ROWS, "mc", "wall_seconds")
    yield from ((row, "ROC-AUC" if column == "AUC" else column, figure) for row, column, figure in quality)
    for column, cost in RAW_COSTS.items():
        for row, figure in costs_per_subset(inputs, MERGE_POINT_ROWS, cost).items():
            yield row, column, figure
    yield from ((row, "ratio", ratio) for row, ratio in ratios.items())
    yield from _relative_efficiencies(quality, ratios, "MC")


def measure_labelers(inputs: ReportInputs) -> Iterator[Figure]:
    """Quality and change of cost against MC with this profile's labeler."""
    rows = labeler_rows(inputs)
    yield from measure_quality(inputs, rows, MAIN_MEASURES, {"AUC": "ROC-AUC", "MATH": "MATH500"})
    for column, cost in COST_COLUMNS.items():
        for row, ratio in cost_ratios(inputs, rows, "mc", cost).items():
            yield row, f"{column} change (%)", ratio.through(lambda share: 100 * share - 100)


def labeler_rows(inputs: ReportInputs) -> tuple[RecipeRow, ...]:
    """The rows of this profile's labeler."""
    name = labeler_name(inputs.labeler)
    return RecipeRow(f"{name}, MC", "mc"), RecipeRow(f"{name}, CPMI-based", "cpmi_merge1")


def cost_ratios(inputs: ReportInputs, rows: Iterable[RecipeRow], baseline: str, cost: str) -> dict[str, Estimate]:
    """Cost per trajectory of each row's method relative to a baseline method.

    Args:
        rows: their reward types are the methods.
        baseline: method to compare with.
        cost: `wall_seconds`, `generated_tokens` or `forward_tokens`.

    Returns:
        By row label; rows without costs, or without any of the baseline's, are left out. n counts trajectories.
    """

    def ratio(totals: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (totals[..., 0] / totals[..., 1]) / (totals[..., 2] / totals[..., 3])

    base, ratios = _costs(inputs, baseline, cost), {}
    for row in rows:
        shards = _costs(inputs, row.reward_type, cost).join(base, on="shard", suffix="_base", maintain_order="left")
        if shards["cost_base"].sum() and shards["trajectories"].sum():
            ratios[row.row] = _resampled(inputs, shards, ratio, row.reward_type != baseline)
    return ratios


def costs_per_subset(inputs: ReportInputs, rows: Iterable[RecipeRow], cost: str) -> dict[str, Estimate]:
    """What `SUBSET` trajectories cost with each row's method, in the unit of the column `cost`.

    Returns:
        By row label; rows without costs are left out. n counts trajectories.
    """
    costs = {row.row: _costs(inputs, row.reward_type, cost) for row in rows}
    return {
        row: _resampled(inputs, shards, lambda totals: SUBSET * totals[..., 0] / totals[..., 1])
        for row, shards in costs.items()
        if shards["trajectories"].sum()
    }


def labeler_name(labeler: str) -> str:
    """A model's name without its owner, spelled as in the paper: `Llama3.2-1B`."""
    name = labeler.rstrip("/").split("/")[-1] or "this labeler"
    return re.sub(r"^Llama-(?=\d)", "Llama", name)


def _relative_efficiencies(quality: Iterable[Figure], time: Mapping[str, Estimate], baseline: str) -> Iterator[Figure]:
    """RelEff (Eq. 8) of the quality figures in the columns of `RELATIVE`, by labeling time relative to the baseline."""
    figures = {(row, column): figure for row, column, figure in quality if column in RELATIVE}
    for (row, column), figure in figures.items():
        base = figures.get((baseline, column))
        if row in time and time[row].value and base and base.value:
            value = relative_efficiency(figure.value, time[row].value, base.value, 1.0)
            terms = (figure, base, time[row])
            ends = [(term.low or 0, term.high or 0) for term in terms]
            fewest = min(terms, key=lambda term: term.units or 0)
            relative = Estimate(value, None, None, figure.n, fewest.units, fewest.unit)
            if row == baseline:
                relative = Estimate(value, n=figure.n)
            elif all(0 < low <= high for low, high in ends):
                # each interval's half width on the logarithmic scale
                spread = math.exp(math.hypot(*(math.log(high / low) / 2 for low, high in ends)))
                relative = replace(relative, low=value / spread, high=value * spread)
            yield row, f"RelEff {column}", relative


def _costs(inputs: ReportInputs, method: str, cost: str) -> pl.DataFrame:
    """shard, cost, trajectories of one method."""
    costs = inputs.table(COSTS).filter(pl.col("method") == method).sort("shard")
    return costs.select("shard", pl.col(cost).cast(pl.Float64).alias("cost"), "trajectories")


def _resampled(
    inputs: ReportInputs, shards: pl.DataFrame, figure: Callable[[Floats], Floats], has_interval: bool = True
) -> Estimate:
    """A figure of sums over shards, with an interval if resampling shards says something about it."""
    resampled = bootstrap(shards.drop("shard").to_numpy(), figure, *inputs.draws)
    count = int(shards["trajectories"].sum())
    if not has_interval:
        return Estimate(resampled.value, n=count)
    return replace(resampled.estimate(), n=count, unit="shard")
