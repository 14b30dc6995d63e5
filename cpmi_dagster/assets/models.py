"""Process reward models, one per recipe."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.keys import MODELS, SELECTED, SOFT_LABELS, TRAJECTORIES
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.plots import draw_training_curves
from cpmi_dagster.reports.style import to_markdown
from cpmi_dagster.resources.answers.questions import STEPS_KEY, cached_step_values, step_values
from cpmi_dagster.resources.dag.stage import StageOutput, model_stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun, in_labeling_order
from cpmi_dagster.rewards.dataset import training_examples

if TYPE_CHECKING:
    from cpmi_dagster.prm.launch import TrainedModel


def read_features(run: StageRun, solutions: pl.DataFrame, max_tokens: int | None, shard: str | None) -> pl.DataFrame:
    """Hidden states of the frozen backbone at the end of every step, cached for all recipes.

    Args:
        solutions: key columns, question and steps.
        max_tokens: truncation as in training; None refuses a solution that is too long.
        shard: of the solutions; None for problems of benchmarks.

    Returns:
        The key columns, step_index and feature.
    """
    from cpmi_dagster.prm import scoring

    batch_tokens, chunk = run.settings.benchmarks.prediction_batch_tokens, run.settings.scoring.chunk_trajectories

    def read(part: pl.DataFrame, advance: Callable[[int], None]) -> pl.DataFrame:
        return scoring.step_features(run.models.load("backbone"), part, batch_tokens, max_tokens, advance)

    how = {"max_tokens": max_tokens}
    answers = run.answer_cache(run.models.spec("backbone"), STEPS_KEY, step_values(pl.List(pl.Float32())), how, shard)
    advance = run.track(solutions.height, " ".join(filter(None, (run.partition, shard, "hidden states"))))
    return cached_step_values(answers, solutions, "feature", read, chunk, advance)


def _curve(home: Home, recipe: str | None) -> dict[str, Any]:
    """The learning curve of a recipe, and its last losses."""
    model = home.lake.read(MODELS, recipe)
    losses = {f"{point['split']}_loss": point["loss"] for point in model["training_curve"].item()}
    return {**losses, "learning_curve": dg.MetadataValue.md(to_markdown(draw_training_curves(model)))}


@model_stage(
    MODELS,
    code_version="4",
    summary=_curve,
    inputs=[TRAJECTORIES, SELECTED, SOFT_LABELS],
    depends_on=lambda key, recipe, settings: (
        key != SOFT_LABELS or pl.col("reward_type") == settings.recipe(recipe).reward_type
    ),
    models=["backbone"],
    lineage={"path": ["dataset/soft_labels.soft_label", "alignment/trajectories.steps"]},
)
def process_reward_models(run: StageRun) -> StageOutput:
    """Trains a two-layer head on the backbone's state at the end of each step, on soft labels (5.3).

    If the profile freezes the backbone, only the head is trained, on cached states.
    """
    from cpmi_dagster.prm.inputs import trainings
    from cpmi_dagster.prm.scoring import training_set_scores
    from cpmi_dagster.prm.training import train_reward_model

    settings, recipe = run.settings, str(run.partition)
    chosen, folder = settings.recipe(recipe), f"models/{recipe}"
    trajectories = run.read(TRAJECTORIES).join(run.read(SELECTED), on="trajectory_id", how="semi")
    examples = training_examples(trajectories, run.read(SOFT_LABELS), chosen.reward_type)
    training, seed = chosen.trained_with(settings.training), settings.seed + chosen.seed
    features = _features(run, training.max_tokens) if training.backbone == "frozen" else None
    run.models.release()  # training needs the memory
    trained = train_reward_model(
        examples,
        chosen,
        training,
        run.models.pinned(chosen.backbone) if chosen.backbone else run.models.spec("backbone"),
        settings.home / folder,
        settings.seed,
        progress=run.track(trainings(examples, training, seed)),
        data_version=run.content_hash(SOFT_LABELS),
        checkpoints=run.checkpoints,
        gpu=run.models.visible_gpu(),
        features=features,
    )
    batch_tokens, device = settings.benchmarks.prediction_batch_tokens, run.models.device("backbone")
    scores = training_set_scores(trained.path, examples, training, seed, features, batch_tokens, device)
    model = _row(chosen, trained, folder, run.content_hash(SOFT_LABELS), scores)
    return StageOutput(
        model, model=trained.backbone, files=[folder], metadata={"truncated_trajectories": trained.truncated}
    )


def _features(run: StageRun, max_tokens: int) -> pl.DataFrame:
    """Hidden states of the steps of all selected trajectories: trajectory_id, step_index, feature."""
    read = []
    for shard in run.settings.shard_keys:
        chosen = in_labeling_order(run.read(TRAJECTORIES, shard), run.read(SELECTED, shard))
        read.append(read_features(run, chosen.select("trajectory_id", "question", "steps"), max_tokens, shard))
    return pl.concat(read)


def _row(recipe: Recipe, trained: "TrainedModel", folder: str, data_version: str, scores: pl.DataFrame) -> pl.DataFrame:
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
    return pl.DataFrame([row]).hstack(scores.select(scores=pl.struct(pl.all()).implode()))


STAGES = (process_reward_models,)
