"""Checks recipes and judges: what a recipe is trained on, and their names, which label rows of the tables."""

from collections.abc import Collection, Sequence

from pydantic import ValidationError

from cpmi_dagster.errors import first_complaint
from cpmi_dagster.prm.settings import Recipe, Training
from cpmi_dagster.reports.paper import CHANCE_ROW, FLAG_NOTHING_ROW, PROTOCOL_SUFFIXES, load_paper_tables, main_rows
from cpmi_dagster.rewards.registry import REWARD_TYPES


def check_judge_names(names: Collection[str], recipes: Sequence[Recipe]) -> None:
    """Check that no judge has the label of another row.

    Raises:
        ValueError: a name is blank, ends like the name of a protocol's row, or is that of a recipe or row.
    """
    taken = _taken_rows(recipes) if names else set()
    for name in names:
        if not name.strip() or name.endswith(PROTOCOL_SUFFIXES):
            raise ValueError(f"benchmarks.judges: `{name}` cannot name a judge; choose a name with another ending")
        if name.strip().casefold() in taken:
            raise ValueError(
                f"benchmarks.judges: the name `{name}` is already that of another row or recipe; choose another"
            )


def check_recipes(
    recipes: Sequence[Recipe], training: Training, types: Collection[str], step_labels: Collection[str], gpus: int
) -> None:
    """Check that recipes can be trained, differ in more than their names, and have rows with different labels.

    Args:
        training: settings that a recipe may override.
        types: reward types of the profile.
        step_labels: names of the user's labels.
        gpus: of `orchestration`.

    Raises:
        ValueError: says which recipe, and what to change.
    """
    names = [recipe.name for recipe in recipes]
    if len(set(names)) < len(names):
        raise ValueError(f"recipes: the name `{next(n for n in names if names.count(n) > 1)}` is used twice")
    for recipe in recipes:
        if recipe.reward_type not in (*types, *step_labels):
            if recipe.reward_type in REWARD_TYPES:
                raise ValueError(f"recipes: `{recipe.name}` needs `{recipe.reward_type}` among rewards.types")
            raise ValueError(
                f"recipes: `{recipe.name}` needs `{recipe.reward_type}` among sources.step_labels, or one of the "
                f"reward types {', '.join(types)}"
            )
        if _trained_with(recipe, training).accelerate and gpus > 1:
            raise ValueError(
                f"recipes: `{recipe.name}` trains on the GPUs that `training.accelerate` names, which "
                f"`orchestration.gpus: {gpus}` gives to other processes; set it to 1"
            )
    _check_differ(recipes)


def _trained_with(recipe: Recipe, training: Training) -> Training:
    """The training settings of a recipe."""
    try:
        return recipe.trained_with(training)
    except ValidationError as error:
        place, reason, kind, _ = first_complaint(error)
        where = f"training.{place}" if place else "training"
        wrong = "it is not a setting" if kind == "extra_forbidden" else reason
        raise ValueError(f"recipes: `{recipe.name}` sets `{where}` wrong: {wrong}") from error


def _check_differ(recipes: Sequence[Recipe]) -> None:
    """Check that recipes differ in more than their names, and that their rows have different labels."""
    names: dict[str, str] = {}
    for recipe in recipes:
        first = names.setdefault(recipe.model_dump_json(exclude={"name"}), recipe.name)
        if first != recipe.name:
            raise ValueError(f"recipes: `{first}` and `{recipe.name}` are the same; give one of them another `seed`")
    folders = [recipe.name.casefold() for recipe in recipes]
    if alike := [name for name in folders if folders.count(name) > 1]:
        raise ValueError(f"recipes: two names differ from `{alike[0]}` only in case; some disks treat them as the same")
    labels = [row.row for row in main_rows(recipes)]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ValueError(f"recipes: the name `{twice[0]}` is already that of another row of the tables; choose another")


def _taken_rows(recipes: Sequence[Recipe]) -> set[str]:
    """Row labels of the paper's tables and of reward types, and names of recipes, all case-folded."""
    # rows with * are quoted from other work; a judge may have such a name, and is then compared with it
    printed = {row for table in load_paper_tables().values() for row in table.rows if not row.endswith("*")}
    ours = {row.row for row in main_rows(recipes)} | {entry.label for entry in REWARD_TYPES.values()}
    untrained = {CHANCE_ROW, FLAG_NOTHING_ROW}
    return {row.casefold() for row in printed | ours | untrained | {recipe.name for recipe in recipes}}
