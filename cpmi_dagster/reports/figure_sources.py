"""The reward types and recipes behind a figure of the report: those of its row, and those its column compares it with.

artifact       row                 column            sources
label_quality  CPMI                                  cpmi
label_quality  CPMI                Difference to MC  cpmi, mc
label_trust    Agreement: CPMI     Step surprisal    cpmi, step_surprisal
processbench   CPMI (official)                       cpmi with its recipe cpmi_bce
best_of_n      CPMI, min                             cpmi with its recipe cpmi_bce
differences    Primary: CPMI − MC                    cpmi with cpmi_bce, mc with mc_bce
efficiency     CPMI                Time              cpmi with cpmi_bce, mc with mc_bce
processbench   Chance                                none
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cpmi_dagster.reports.artifacts import Artifact
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.paper import DIFFERENCE, without_protocol
from cpmi_dagster.reports.reward_rows import RecipeRow


class Source(NamedTuple):
    """A reward type behind a figure, and the recipe trained on it; None if no reward model is behind the figure."""

    reward_type: str
    recipe: str | None


def sources_of(
    artifact: Artifact, rows: Iterable[str], columns: Iterable[str], inputs: ReportInputs, *, with_compared: bool = True
) -> list[Source]:
    """The reward types and recipes behind figures of a table, each once, those of the rows first.

    Args:
        rows: labels of rows.
        columns: labels of columns; in a table of labels against labels, they name reward types too.
        inputs: recipes, labeler, M and, for tables on labels, the reward types in `labels/step_rewards`.
        with_compared: also what the columns compare the rows with.
    """
    listed, chosen = list(artifact.rows(inputs)), list(columns)
    by_label = {row.row: row for row in listed}
    by_type = {row.reward_type: row for row in reversed(listed)}
    parts = [part for row in rows for part in row.split(DIFFERENCE)]
    named = [found for part in parts if (found := _find_row(part, by_label))]
    if not artifact.has_models:
        named += [by_label[column] for column in chosen if column in by_label]
    for begins, types in artifact.compared.items() if with_compared else ():
        if any(column.startswith(begins) for column in chosen):
            named += [by_type[name] for name in types if name in by_type]
    sources = (Source(row.reward_type, inputs.recipe_of(row) if artifact.has_models else None) for row in named)
    return list(dict.fromkeys(sources))


def _find_row(label: str, rows: Mapping[str, RecipeRow]) -> RecipeRow | None:
    """The row that a label names, alone, with its protocol or rule behind it, or with its group before it."""
    of_group, rule, of_count = label.partition(": ")[2], label.rpartition(", ")[0], label.rpartition(", ")[2]
    names = (label, without_protocol(label), of_group, rule, of_count)
    return next((rows[name] for name in names if name in rows), None)
