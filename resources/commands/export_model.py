"""A reward model of a home in a folder that loads without this package, with the figures that were measured with it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cpmi_dagster.benchmarks.resampling import Estimate
from cpmi_dagster.contracts.keys import CHOICES, MODELS, PRMBENCH_PREDICTIONS, PROBLEMS, PROCESSBENCH
from cpmi_dagster.errors import ModelError
from cpmi_dagster.exports.folders import CARD
from cpmi_dagster.exports.licences import licence_of
from cpmi_dagster.exports.model_card import ModelFacts, model_card
from cpmi_dagster.exports.reward_models import ExportedModel, save_reward_model
from cpmi_dagster.installed import own_version
from cpmi_dagster.models.language_models import model_on_disk
from cpmi_dagster.models.model_files import check_trained
from cpmi_dagster.models.safe_loading import quiet_transformers
from cpmi_dagster.prm.model import load_reward_model
from cpmi_dagster.prm.settings import Recipe, Training
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.quality import MEASURES
from cpmi_dagster.resources.commands.export_facts import NOT_RECORDED, benchmark_places, models_of
from cpmi_dagster.resources.lake.lake import Lake

PARTS = 3


def write_model(
    lake: Lake, settings: Settings, recipe: Recipe, folder: Path, name: str, advance: Callable[[int, int], None]
) -> ExportedModel:
    """Write weights, tokenizer and card.

    Args:
        name: of the model on its card.
        advance: called with the numbers of parts just finished and of all.

    Raises:
        LakeError: the recipe has not been trained yet, or its record is damaged.
        ModelError: its weights are damaged, or its backbone has no such form.
    """
    row = lake.read(MODELS, recipe.name).row(0, named=True)
    place = lake.home / row["path"]
    check_trained(place, row["weights_fingerprint"])
    model = load_reward_model(place, device="cpu")
    advance(1, PARTS)
    with quiet_transformers():
        exported = save_reward_model(model, folder)
    advance(1, PARTS)
    record = lake.record(MODELS, recipe.name)
    backbone = row["backbone"].partition("@")[0]
    is_on_hub = _is_on_hub(backbone, (recipe.backbone or settings.models.backbone).name)
    figures, chance = _figures(lake, settings, recipe.name)
    facts = ModelFacts(
        name=name,
        profile=settings.profile,
        recipe=recipe.name,
        reward_type=row["reward_type"],
        backbone=row["backbone"],
        base_model=backbone if is_on_hub else None,
        licence=licence_of(backbone, "models", is_on_hub),
        figures=figures,
        chance=chance,
        places=benchmark_places(settings),
        training=_training(record.settings.get("recipe") if record else None, row),
        models=models_of(lake, row["reward_type"], row["data_version"]),
        version=own_version(),
    )
    (folder / CARD).write_text(model_card(facts, exported), encoding="utf-8")
    advance(1, PARTS)
    return exported


def _is_on_hub(name: str, in_profile: str) -> bool:
    """Whether a backbone's name, which has only the last part of a folder's path, is a hub id."""
    if "/" in name or name != in_profile:
        return "/" in name and ":" not in name
    try:
        return model_on_disk(name) is None
    except ModelError:  # its folder has been removed since
        return False


def _figures(lake: Lake, settings: Settings, recipe: str) -> tuple[dict[str, Estimate], dict[str, float]]:
    """What was measured with these weights, and what chance has; predictions of earlier ones do not count."""
    model = lake.record(MODELS, recipe)
    predictions = [
        key
        for key in (PROCESSBENCH, PRMBENCH_PREDICTIONS, CHOICES)
        if (record := lake.record(key, recipe))
        and model
        and record.inputs.get("inputs", {}).get(MODELS, model.content) == model.content
    ]
    if not predictions:
        return {}, {}
    frames = {key: lake.read(key, recipe) for key in predictions}
    inputs = ReportInputs(
        frames={**frames, PROBLEMS: lake.read(PROBLEMS)},
        recipes=settings.recipes,
        bootstrap_samples=settings.benchmarks.bootstrap_samples,
        seed=settings.seed,
    )
    measured = {name: measure.of(inputs, recipe) for name, measure in MEASURES.items()}
    figures = {measure: figure for measure, figure in measured.items() if figure is not None}
    by_chance = {measure: MEASURES[measure].by_chance(inputs, recipe) for measure in figures}
    return figures, {measure: figure.value for measure, figure in by_chance.items() if figure is not None}


def _training(made_with: Mapping[str, Any] | None, row: Mapping[str, Any]) -> dict[str, str]:
    """What a model was trained with, by words.

    Args:
        made_with: the recipe as the record has it; earlier versions recorded none.
        row: of `models.process_reward_models`.
    """
    found = {
        "objective": row["objective"],
        "labelled steps trained on": f"{row['train_steps']:,}",
        "data version of the soft labels": row["data_version"] or NOT_RECORDED,
        "weights here": row["weights_fingerprint"],
    }
    if made_with is None:
        return {**found, "epochs, learning rate": NOT_RECORDED}
    training = Training.model_validate(made_with["training"])
    return found | {
        "trained weights": f"adapters of rank {training.lora.rank}, merged, and the head" if training.lora else "all",
        "held out for validation": f"{training.validation_share:.0%} of the questions",
        "epochs": f"{training.epochs:g}",
        "learning rate": f"{training.learning_rate:g}, head {training.head_learning_rate:g}",
    }
