"""One process reward model per recipe, and what heads on a frozen backbone learn from."""

from functools import partial
from typing import TYPE_CHECKING

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.keys import MODELS, SELECTED, SOFT_LABELS, STEP_FEATURES, TRAJECTORIES
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.figure_style import to_markdown
from cpmi_dagster.reports.plots import draw_training_curves
from cpmi_dagster.resources.dag.stage import NO_HEAD_ALONE, model_stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.workers.chunks import Advance, StageOutput
from cpmi_dagster.rewards.dataset import training_examples

if TYPE_CHECKING:
    from cpmi_dagster.prm.training import TrainedModel


@model_stage(
    STEP_FEATURES,
    inputs=[TRAJECTORIES, SELECTED],
    settings=["reads_features", "training.max_tokens"],
    models=["backbone"],
    lineage={"feature": ["alignment/trajectories.question", "alignment/trajectories.steps"]},
)
def step_features(run: StageRun, shard: str) -> StageOutput:
    """The frozen backbone's hidden state at the end of every step, read once for all recipes that train a head."""
    if not run.settings.reads_features:
        return StageOutput(TABLES[STEP_FEATURES].schema.create_empty(), notes=[NO_HEAD_ALONE])
    read = partial(read_features, run, run.settings.training.max_tokens)
    solutions = run.selected(shard).select("trajectory_id", "question", "steps")
    return run.in_chunks(shard, solutions, run.settings.scoring.chunk_trajectories, read)


def read_features(run: StageRun, max_tokens: int | None, chunk: pl.DataFrame, advance: Advance) -> StageOutput:
    """Hidden states of the steps of a chunk, by the backbone of the reward models; `max_tokens` as in training."""
    from cpmi_dagster.prm import features

    model, batch_tokens = run.models.load("backbone"), run.settings.benchmarks.prediction_batch_tokens
    return StageOutput(features.step_features(model, chunk, batch_tokens, max_tokens, advance), model.identity)


@model_stage(
    MODELS,
    code_version="2",
    inputs=[TRAJECTORIES, SELECTED, SOFT_LABELS, STEP_FEATURES],
    models=["backbone"],
    lineage={"path": ["dataset/soft_labels.soft_label", "alignment/trajectories.steps"]},
    eager=True,
)
def process_reward_models(run: StageRun, recipe: str) -> StageOutput:
    """Trains a two-layer head on the backbone, read at the end of each step, on soft labels (5.3).

    Where the backbone is frozen, the head learns from its hidden states alone.
    """
    from cpmi_dagster.prm.examples import trainings
    from cpmi_dagster.prm.training import train_reward_model

    run.models.release()  # training needs the memory
    settings, chosen, folder = run.settings, run.settings.recipe(recipe), f"models/{recipe}"
    trajectories = run.read(TRAJECTORIES).join(run.read(SELECTED), on="trajectory_id", how="semi")
    examples = training_examples(trajectories, run.read(SOFT_LABELS), chosen.reward_type)
    training = chosen.trained_with(settings.training)
    trained = train_reward_model(
        examples,
        chosen,
        training,
        run.models.pinned(chosen.backbone) if chosen.backbone else run.models.spec("backbone"),
        settings.home / folder,
        settings.seed,
        progress=run.track(recipe, trainings(examples, training, settings.seed + chosen.seed)),
        data_version=run.version(SOFT_LABELS),
        checkpoints=run.checkpoints,
        gpu=run.models.other_gpu(),
        features=run.read(STEP_FEATURES) if training.backbone == "frozen" else None,
    )
    model = _row(chosen, trained, folder, run.version(SOFT_LABELS))
    losses = {f"{point['split']}_loss": point["loss"] for point in trained.curve}
    plot = dg.MetadataValue.md(to_markdown(draw_training_curves(model)))
    metadata = {**losses, "learning_curve": plot, "truncated_trajectories": trained.truncated}
    return StageOutput(model, model=trained.backbone, files=[folder], metadata=metadata)


def _row(recipe: Recipe, trained: "TrainedModel", folder: str, data_version: str) -> pl.DataFrame:
    row = {
        "recipe": recipe.name,
        "reward_type": recipe.reward_type,
        "objective": recipe.objective,
        "backbone": trained.backbone,
        "path": folder,
        "weights_fingerprint": trained.weights_fingerprint,
        "data_version": data_version,
        "train_steps": trained.train_steps,
        "seconds": trained.seconds,
        "training_curve": trained.curve,
    }
    return pl.DataFrame([row])


STAGES = (step_features, process_reward_models)
