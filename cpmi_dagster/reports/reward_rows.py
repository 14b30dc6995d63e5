"""Row labels of the paper and the recipes behind them.

    reward_label("cpmi_merge1")  ->  "CPMI_Merge"

The paper calls the merge at the first step `CPMI_Merge` in its main tables, `CPMI_Merge1` among the variants.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.rewards.registry import REWARD_TYPES, comes_with_data, reward_label

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


def recipe_row(reward_type: str, objective: str) -> str:
    """The row label of a recipe in a table of several objectives: `CPMI` for BCE, else `PQM, CPMI`."""
    return reward_label(reward_type) if objective == "bce" else f"{objective.upper()}, {reward_label(reward_type)}"


def _objective_row(reward_type: str, objective: str) -> RecipeRow:
    return RecipeRow(f"{objective.upper()}, {reward_label(reward_type)}", reward_type, objective)


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
