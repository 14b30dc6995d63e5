"""Choose the trajectories to be labelled (appendix B): ratios of task and composition, spread over the questions.

    trajectories                                    settings                             selected
    50,000 GSM8K, 60,000 MATH, 60 % mixed     ->    80,000, 1:1, 7:3               ->    40,000 + 40,000, 56,000 mixed
                  12,000 MATH, 9,000 mixed    ->    28,000 mixed of MATH wanted    ->    40,000 + 12,000, and a note

A trajectory is mixed if its source labels some of its steps `+` and some `-`. A problem is too hard if every step of
all its trajectories is `-`. Constraints that need missing data are lifted: without labels there is no mix and no
question is too hard; without GSM8K and MATH there is no ratio of the two. Within each cell of task and composition,
every question gives its first trajectory before any gives its second. The choice depends on the seed and the ids
alone, not on the order of the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import polars as pl
from pydantic import Field

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.contracts.tables import SelectedTrajectories
from cpmi_dagster.trajectories.rows import shard_key

MIXED, PURE, UNLABELLED = "mixed", "pure", "unlabelled"
GSM8K, MATH = "GSM8K", "MATH"

CELLS = tuple(f"{task} {mix}" for task in (GSM8K, MATH) for mix in (MIXED, PURE))
"""Kinds of trajectories with a quota each, in the order in which the quotas are filled."""


class Selection(Frozen):
    """Which trajectories are labelled (appendix B); null lifts a constraint."""

    trajectories: int | None = Field(default=80_000, ge=1, description="most that are labelled; null for all")
    gsm8k_share: float | None = Field(
        default=0.5, ge=0, le=1, description="share of GSM8K among GSM8K and MATH; null lifts it"
    )
    mixed_share: float | None = Field(
        default=0.7, ge=0, le=1, description="share of trajectories with right and wrong steps; null lifts it"
    )
    leave_out_too_hard: bool = Field(
        default=True, description="leave out questions of which no trajectory has a right step"
    )


@dataclass(frozen=True)
class SelectionResult:
    """The selected trajectories, sorted by id, and a sentence for each shortfall and each lifted constraint."""

    selected: pl.DataFrame
    shortfalls: list[str]


def select_trajectories(trajectories: pl.DataFrame, selection: Selection, seed: int, shards: int) -> SelectionResult:
    """Choose the trajectories to be labelled.

    Args:
        trajectories: Columns trajectory_id, question_id, task, shepherd_labels (null without labels).
        selection: Number and shares; a null number means the largest set with these shares.
        shards: Number of shards, for the `shard` column.

    Returns:
        Rows of `selection.selected_trajectories`, sorted by id. If a cell has fewer trajectories than its quota, all
        are taken and a shortfall names the cell.
    """
    selection, lifted = lift_constraints(selection, trajectories)
    candidates = _candidates(trajectories, selection, seed)
    supply = dict.fromkeys(CELLS, 0) | dict(candidates.group_by("cell").len().iter_rows())
    quotas = cell_quotas(selection, selection.trajectories or _largest_total(selection, supply, candidates.height))
    short = [
        f"short of {cell} trajectories: {wanted:,} wanted, {supply[cell]:,} there; all of them are taken"
        for cell, wanted in quotas.items()
        if supply[cell] < wanted
    ]
    chosen = _pick(candidates, quotas).sort("trajectory_id")
    shard = pl.Series("shard", [shard_key(question, shards) for question in chosen["question_id"]], dtype=pl.String)
    return SelectionResult(chosen.with_columns(shard).select(SelectedTrajectories.column_names()), [*lifted, *short])


def cell_quotas(selection: Selection, total: int) -> dict[str, int]:
    """Divide `total` trajectories among the cells; both shares are rounded to whole trajectories."""
    gsm8k_share = 1 if selection.gsm8k_share is None else selection.gsm8k_share
    mixed_share = 1 if selection.mixed_share is None else selection.mixed_share
    gsm8k, mixed, both = (round(share * total) for share in (gsm8k_share, mixed_share, gsm8k_share * mixed_share))
    return dict(zip(CELLS, (both, gsm8k - both, mixed - both, total - gsm8k - mixed + both), strict=True))


def _largest_total(selection: Selection, supply: Mapping[str, int], candidates: int) -> int:
    """The largest total whose quotas the supply meets; the number of candidates if it meets none."""
    sizes = range(candidates, 0, -1)
    fitting = (size for size in sizes if all(supply[cell] >= n for cell, n in cell_quotas(selection, size).items()))
    return next(fitting, candidates)


def lift_constraints(selection: Selection, trajectories: pl.DataFrame) -> tuple[Selection, list[str]]:
    """Lift the constraints that need labels or tasks which are missing; returns a sentence for each lifted one.

    Args:
        trajectories: The candidates: columns task, shepherd_labels.
    """
    lifted, notes = {}, []
    if without := trajectories["shepherd_labels"].null_count():
        unlabelled = f"{without:,} of {trajectories.height:,} trajectories have no labels"
        if selection.mixed_share is not None:
            lifted["mixed_share"] = None
            notes.append(f"the share of mixed trajectories is not kept: {unlabelled}")
        if selection.leave_out_too_hard:
            notes.append(f"no question of a trajectory without labels is left out as too hard: {unlabelled}")
    if selection.gsm8k_share is not None and trajectories.height and not _has_published_tasks(trajectories):
        lifted["gsm8k_share"] = None
        notes.append("the share of GSM8K is not kept: no trajectory is of GSM8K or MATH")
    return selection.model_copy(update=lifted), notes


def dataset_statistics(selected: pl.DataFrame, trajectories: pl.DataFrame, selection: Selection) -> pl.DataFrame:
    """Appendix B's table: target and actual values of the selection.

    Args:
        selected: `selection.selected_trajectories`.
        trajectories: The candidates: columns trajectory_id, task, steps, shepherd_labels.

    Returns:
        Columns statistic, target (or null), actual. Shares of labels are over labelled trajectories. A share that has
        no trajectories to count is absent.
    """
    selection, _ = lift_constraints(selection, trajectories)
    steps = trajectories.join(selected.select("trajectory_id"), on="trajectory_id", how="semi")
    counts = steps["steps"].list.len()
    labels = steps["shepherd_labels"].drop_nulls().explode(empty_as_null=False)
    composition = selected["composition"]
    labelled = composition.filter(composition != UNLABELLED)
    per_question = selected["question_id"].value_counts()["count"]
    of_gsm8k = (selected["task"].str.to_uppercase() == GSM8K).mean() if _has_published_tasks(selected) else None
    rows: list[tuple[str, object, object]] = [
        ("trajectories", selection.trajectories, selected.height),
        ("gsm8k_share", selection.gsm8k_share, of_gsm8k),
        ("mixed_share", selection.mixed_share, (labelled == MIXED).mean()),
        ("unlabelled_trajectories", None, (selected.height - labelled.len()) or None),
        ("questions", None, selected["question_id"].n_unique()),
        ("most_trajectories_per_question", None, per_question.max() or 0),
        ("steps", None, counts.sum()),
        ("mean_steps", None, counts.sum() / max(1, steps.height)),
        ("max_steps", None, counts.max() or 0),
        ("positive_step_share", None, labels.mean()),
        ("shards", None, selected["shard"].n_unique()),
    ]
    schema = {"statistic": pl.String, "target": pl.Float64, "actual": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row", strict=False).drop_nulls("actual")


def _candidates(trajectories: pl.DataFrame, selection: Selection, seed: int) -> pl.DataFrame:
    """Eligible trajectories with their cell, shuffled by the seed."""
    labels = pl.col("shepherd_labels").list
    composition = (
        pl.when(labels.len().is_null())
        .then(pl.lit(UNLABELLED))
        .when(labels.any() & ~labels.all())
        .then(pl.lit(MIXED))
        .otherwise(pl.lit(PURE))
    )
    # a trajectory without labels may be right, so its question is not known to be too hard
    may_be_right = labels.any().fill_null(True).alias("may_be_right")
    rows = trajectories.select("trajectory_id", "question_id", "task", may_be_right, composition.alias("composition"))
    if selection.leave_out_too_hard:
        rows = rows.filter(pl.col("may_be_right").any().over("question_id"))
    # without a share there is one cell for all
    is_gsm8k = pl.lit(selection.gsm8k_share is None) | (pl.col("task").str.to_uppercase() == GSM8K)
    is_mixed = pl.lit(selection.mixed_share is None) | (pl.col("composition") == MIXED)
    task, mix = pl.when(is_gsm8k).then(pl.lit(GSM8K)), pl.when(is_mixed).then(pl.lit(MIXED))
    return rows.with_columns(
        pl.concat_str(task.otherwise(pl.lit(MATH)), mix.otherwise(pl.lit(PURE)), separator=" ").alias("cell"),
        _draws(rows["trajectory_id"], seed),
        _draws(rows["question_id"], seed),
    ).sort("draw_of_trajectory_id", "trajectory_id")


def _draws(ids: pl.Series, seed: int) -> pl.Series:
    """A number for each id, derived from the id and the seed alone."""
    key = str(seed).encode()
    draws = {
        name: int.from_bytes(blake2b(name.encode(), key=key, digest_size=7).digest()) for name in ids.unique().to_list()
    }
    return pl.Series(f"draw_of_{ids.name}", [draws[name] for name in ids.to_list()], dtype=pl.Int64)


def _pick(candidates: pl.DataFrame, quotas: Mapping[str, int]) -> pl.DataFrame:
    """Fill the quotas in rounds over the questions; picks for an earlier cell count as earlier rounds."""
    picked = candidates.clear()
    for cell in CELLS:
        had = picked.group_by("question_id").len("had")
        rounds = pl.int_range(pl.len(), dtype=pl.Int64).over("question_id") + pl.col("had").fill_null(0).cast(pl.Int64)
        waiting = candidates.filter(cell=cell).join(had, on="question_id", how="left", maintain_order="left")
        ordered = waiting.with_columns(round=rounds).sort("round", "draw_of_question_id", "question_id")
        picked = pl.concat([picked, ordered.head(quotas[cell]).select(candidates.columns)])
    return picked


def _has_published_tasks(trajectories: pl.DataFrame) -> bool:
    return trajectories["task"].str.to_uppercase().is_in([GSM8K, MATH]).any()
