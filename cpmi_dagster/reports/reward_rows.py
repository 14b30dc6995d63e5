"""Row labels of the paper and the recipes behind them.

    reward_row("cpmi_merge1")  ->  "CPMI_Merge"

The paper calls the merge at the first step `CPMI_Merge` where it stands alone, `CPMI_Merge1` among its variants.
"""

from dataclasses import dataclass

REWARD_ROWS: dict[str, str] = {
    "mc": "MC",
    "mc_hard": "MC (hard)",
    "pav": "PAV",
    "cpmi": "CPMI",
    "cpmi_merge1": "CPMI_Merge",
    "cpmi_merge2": "CPMI_Merge2",
    "cpmi_merge3": "CPMI_Merge3",
    "pav_merge1": "PAV_Merge1",
    "pav_merge2": "PAV_Merge2",
    "pav_merge3": "PAV_Merge3",
    "cpmi_incremental": "CPMI (incremental)",
    "cpmi_prefix": "CPMI (prefix)",
    "cpmi_leave_one_out": "CPMI (leave one out)",
    "cpmi_m1": "CPMI (M = 1)",
    "cpmi_m2": "CPMI (M = 2)",
    "gold_only": "Gold_only",
    "neg_only": "Neg_only",
    "rand_merge": "Rand_Merge",
    "math_shepherd": "Math-Shepherd's + and -",
}
"""Row label by reward type, in the order in which tables and plots list them."""


@dataclass(frozen=True)
class RecipeRow:
    """A row of a table and the recipe that feeds it."""

    row: str
    reward_type: str
    objective: str = "bce"


MAIN_ROWS: tuple[RecipeRow, ...] = tuple(
    RecipeRow(REWARD_ROWS[reward_type], reward_type)
    for reward_type in ("mc", "pav", "cpmi", "cpmi_merge1", "rand_merge")
)
"""The five reward types of the paper's main tables."""

CONTRAST_ROWS: tuple[RecipeRow, ...] = (
    RecipeRow("Gold_only", "gold_only"),
    RecipeRow("Neg_only", "neg_only"),
    RecipeRow("Both", "cpmi_m1"),
    RecipeRow("Both (M = 4)", "cpmi"),
)

NEGATIVES_ROWS: tuple[RecipeRow, ...] = (
    RecipeRow("Gold_only", "gold_only"),
    RecipeRow("Neg_only", "neg_only"),
    RecipeRow("M = 1", "cpmi_m1"),
    RecipeRow("M = 2", "cpmi_m2"),
    RecipeRow("M = 4", "cpmi"),
)

OBJECTIVE_ROWS: tuple[RecipeRow, ...] = tuple(
    RecipeRow(f"{objective.upper()}, {REWARD_ROWS[reward_type]}", reward_type, objective)
    for objective in ("bce", "pqm", "mse")
    for reward_type in ("mc", "cpmi")
)

MERGE_POINT_ROWS: tuple[RecipeRow, ...] = (
    RecipeRow("CPMI", "cpmi"),
    *(RecipeRow(f"CPMI_Merge{steps}", f"cpmi_merge{steps}") for steps in (1, 2, 3)),
    RecipeRow("MC", "mc"),
)

PAV_MERGE_ROWS: tuple[RecipeRow, ...] = (
    RecipeRow("PAV", "pav"),
    RecipeRow("CPMI", "cpmi"),
    *(RecipeRow(f"CPMI_Merge{steps}", f"pav_merge{steps}") for steps in (1, 2, 3)),
)


def reward_row(reward_type: str) -> str:
    """The row label of a reward type; one the paper does not know keeps its own name."""
    return REWARD_ROWS.get(reward_type, reward_type)
