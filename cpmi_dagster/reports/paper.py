"""The paper's tables: its own figures, read from `paper.yaml`, and the recipes behind its rows.

    processbench:
      label: tab:pb
      title: ProcessBench, F1 of finding the first wrong step
      columns: {GSM8K: 1, Math: 1, Olympiad: 1, Omni: 1, Average: 1}      # decimals as printed
      rows:
        MC:  [35.2, 38.8, 17.9, 18.9, 27.7]

becomes five rows of `tables.PaperComparison` with `measured` null.

    reward_label("cpmi_merge1")  ->  "CPMI_Merge"

The paper calls the merge at the first step `CPMI_Merge` in its main tables, `CPMI_Merge1` among the variants.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from cpmi_dagster.contracts.report_tables import ARTIFACT_TITLES, PaperComparison
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.rewards.registry import REWARD_TYPES, comes_with_data, reward_label

PROTOCOL_SUFFIXES = (" (official)", " (released)", " (best)", " (fixed)", " (cross-fitted)")
"""Suffixes of rows and columns: ProcessBench's own protocol; the rule of the authors' code, which PRMBench's rows
follow without a suffix; the threshold with the best PRMScore; the threshold 0.5; each half of the questions judged by
the choice on the other."""
OFFICIAL, RELEASED, BEST, FIXED, CROSS_FITTED = PROTOCOL_SUFFIXES
P_VALUE, ADJUSTED_P_VALUE = " p", " p (Holm)"
"""Suffixes of columns of p-values; the second are adjusted for the number of tests."""
SIGNIFICANT = 0.05
DIFFERENCE = " − "
"""Part of the label of a row or column that is one figure minus another."""
DIFFERENCE_COLUMN = "Difference"
"""Prefix of columns of differences."""

COMPARISON_SCHEMA = PaperComparison.create_empty().schema


class PaperTable(BaseModel):
    """One table or figure of the paper; `label` is null for those that only our report has.

    Attributes:
        label: LaTeX label in the paper.
        columns: decimals each column is printed with.
        own_columns: decimals of columns that the paper's table lacks.
        other_columns: decimals of columns that neither names, such as those of a benchmark that is added.
        counted: what the n of our figures counts, in words; empty if they count different things.
        rows: figures by row label, in the order of `columns`.
        note: what a reader must know of the figures.
        paper_note: what they must know besides to compare them with the paper's.
        plot: caption of the report's plot.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str | None
    title: str
    columns: dict[str, int]
    own_columns: dict[str, int] = {}
    other_columns: int | None = None
    counted: str = "problems, steps or trajectories"
    rows: dict[str, list[float | None]]
    note: str = ""
    paper_note: str = ""
    plot: str = ""

    def decimals(self, column: str) -> int | None:
        """Decimals a column is shown with; a column of another protocol has those of its namesake."""
        return {**self.columns, **self.own_columns}.get(without_protocol(column), self.other_columns)


def without_protocol(name: str) -> str:
    """A row or column label without the suffix that names its protocol: `PB (official)` -> `PB`."""
    suffix = next((suffix for suffix in PROTOCOL_SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)


@cache
def load_paper_tables() -> dict[str, PaperTable]:
    """The tables of the shipped `paper.yaml`, by artifact name, in its order."""
    written = yaml.safe_load(shipped_text("paper.yaml"))
    titled = {name: {"title": ARTIFACT_TITLES[name], **table} for name, table in written.items()}
    return TypeAdapter(dict[str, PaperTable]).validate_python(titled)


def shipped_text(name: str) -> str:
    """A file that is shipped next to this module."""
    return resources.files("cpmi_dagster.reports").joinpath(name).read_text(encoding="utf-8")


def paper_figures(artifact: str, profile: str) -> pl.DataFrame:
    """The paper's figures of one artifact as rows of `tables.PaperComparison`, nothing measured."""
    table = load_paper_tables()[artifact]
    figures = [
        {"artifact": artifact, "row": row, "column": column, "paper": figure, "profile": profile}
        for row, figures in table.rows.items()
        for column, figure in zip(table.columns, figures, strict=True)
        if figure is not None
    ]
    return pl.DataFrame(figures, schema=COMPARISON_SCHEMA)


METHOD_TYPE, BASELINE_TYPE = "cpmi", "mc"
"""The reward type that is tested, and the one that it is compared with."""
TRUTH_TYPE = "truth"
METHOD, BASELINE = reward_label(METHOD_TYPE), reward_label(BASELINE_TYPE)
"""Their rows."""
CONTROL_ROWS = frozenset(entry.label for entry in REWARD_TYPES.values() if entry.kind == "control")
"""Labels that a method has to beat: nothing follows from a bad score of one."""
TOGETHER_ROWS = tuple(entry.label for entry in REWARD_TYPES.values() if entry.reads_labels)
"""Those that are made of others."""
TRAINED_TOGETHER_ROWS = tuple(entry.label for entry in REWARD_TYPES.values() if entry.is_so_far)
"""Those of them that a reward model is trained on."""
GOLDLESS_ROWS = tuple(entry.label for entry in REWARD_TYPES.values() if entry.reads_no_gold)
"""Those that take the labeler, but no gold answer: a method that reads one should do better."""
CEILING_ROW, FLOOR_ROW = "Trained on true steps", "Trained on uniform labels"
"""Reward models that show whether the others can be compared: the first has to beat chance, the second must not."""
CHANCE_ROW = "Chance"
"""Uniform random step scores."""
FLAG_NOTHING_ROW = "Flag nothing"
"""Every step passed: the constant answer that PRMScore rewards."""


@dataclass(frozen=True)
class RecipeRow:
    """A row of a table and the recipe that feeds it.

    Attributes:
        recipe: its name, if it differs in more than reward type and objective from the profile's other recipes.
    """

    row: str
    reward_type: str
    objective: str = "bce"
    recipe: str | None = None


def _objective_row(reward_type: str, objective: str) -> RecipeRow:
    return RecipeRow(f"{objective.upper()}, {reward_label(reward_type)}", reward_type, objective)


def recipe_row(reward_type: str, objective: str) -> RecipeRow:
    """The row of a recipe in a table of several objectives: `CPMI` for BCE, else `PQM, CPMI`."""
    is_bce = objective == "bce"
    return RecipeRow(reward_label(reward_type), reward_type) if is_bce else _objective_row(reward_type, objective)


MAIN_ROWS = tuple(RecipeRow(entry.label, entry.name) for entry in REWARD_TYPES.values() if entry.in_main_tables)
"""The reward types of the paper's main tables."""
INSTRUMENT_ROWS = (RecipeRow(CEILING_ROW, TRUTH_TYPE), RecipeRow(FLOOR_ROW, "uniform"))
"""The reward models on true steps and on uniform labels."""
_TERMS = (RecipeRow("Gold_only", "gold_only"), RecipeRow("Neg_only", "neg_only"))
CONTRAST_ROWS = (*_TERMS, RecipeRow("Both", "cpmi_m1"), RecipeRow("Both (M = 4)", "cpmi"))
NEGATIVES_ROWS = (*_TERMS, *(RecipeRow(f"M = {m}", name) for m, name in ((1, "cpmi_m1"), (2, "cpmi_m2"), (4, "cpmi"))))
OBJECTIVE_ROWS = tuple(
    _objective_row(reward_type, objective) for objective in ("bce", "pqm", "mse") for reward_type in ("mc", "cpmi")
)
MERGE_POINT_ROWS = (
    RecipeRow("CPMI", "cpmi"),
    *(RecipeRow(f"CPMI_Merge{steps}", f"cpmi_merge{steps}") for steps in (1, 2, 3)),
    RecipeRow("MC", "mc"),
)
PAV_MERGE_ROWS = (
    RecipeRow("PAV", "pav"),
    RecipeRow("CPMI", "cpmi"),
    *(RecipeRow(f"CPMI_Merge{steps}", f"pav_merge{steps}") for steps in (1, 2, 3)),
)
PAPER_ROWS = (*MAIN_ROWS, *CONTRAST_ROWS, *NEGATIVES_ROWS, *OBJECTIVE_ROWS, *MERGE_POINT_ROWS, *PAV_MERGE_ROWS)
"""Every row of the paper that takes a reward model."""


def main_rows(recipes: Sequence[Recipe]) -> tuple[RecipeRow, ...]:
    """The main rows; other labels that a profile trains on; the instrument's; recipes without a row in the paper."""
    plain = {(recipe.reward_type, recipe.objective) for recipe in recipes if recipe.is_plain}
    with_data = [name for name in _other_labels(recipes) if (name, "bce") in plain]
    others = [RecipeRow(reward_label(name), name) for name in with_data]
    others += [row for row in INSTRUMENT_ROWS if (row.reward_type, row.objective) in plain]
    # other objectives of labels that have a main row are in the table of objectives
    shown = {(row.reward_type, row.objective) for row in (*PAPER_ROWS, *others)}
    shown |= {pair for pair in plain if pair[0] in with_data}
    for recipe in recipes:
        if not recipe.is_plain or (recipe.reward_type, recipe.objective) not in shown:
            # the label of its rewards if these alone distinguish it, else its name
            has_label = recipe.is_plain and recipe.objective == "bce"
            row = reward_label(recipe.reward_type) if has_label else recipe.name
            others.append(RecipeRow(row, recipe.reward_type, recipe.objective, recipe.name))
    return (*MAIN_ROWS, *others)


def negatives_rows(count: int) -> tuple[RecipeRow, ...]:
    """The ablation on M: CPMI itself is the row of the profile's M, `count`."""
    return (*NEGATIVES_ROWS[:-1], RecipeRow(f"M = {count}", METHOD_TYPE))


def objective_rows(recipes: Sequence[Recipe]) -> tuple[RecipeRow, ...]:
    """The rows of the table of objectives, then those of other labels that a profile trains on."""
    others = [
        _objective_row(name, recipe.objective)
        for name in _other_labels(recipes)
        for recipe in recipes
        if recipe.reward_type == name and recipe.is_plain
    ]
    return (*OBJECTIVE_ROWS, *dict.fromkeys(others))


def _other_labels(recipes: Sequence[Recipe]) -> list[str]:
    """Reward types of the recipes that come with the data, in the order of the recipes."""
    names = dict.fromkeys(recipe.reward_type for recipe in recipes if recipe.is_plain)
    return [name for name in names if comes_with_data(name)]
