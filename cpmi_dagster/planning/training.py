"""What training the reward models of a profile will take: time by the card's speed, memory by the model's size.

SmolLM2-135M, 40 solutions of 240 tokens on average, laptop-cpu, 2 epochs, one recipe:

    frozen    2 x 1.35e8 x 9,600 FLOP, once for all recipes             a forward pass; weights alone
    full      3 x 2 x 1.35e8 x 9,600 x 2 FLOP for each recipe           weights, gradients, two moments, activations
"""

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from cpmi_dagster.models.memory import MOST_ON_CPU, training_bytes_per_token
from cpmi_dagster.planning.hardware import CPU, Hardware, PlannedModel, planned_model
from cpmi_dagster.prm.settings import Training
from cpmi_dagster.profiles.settings import Settings

GIB = 2**30
FORWARD_AND_BACKWARD = 3
"""In forward passes."""
FULL_BYTES = 16
"""Of a weight that is trained: itself, its gradient and two moments, in float32."""
ITEMSIZE = {"float32": 4}
SHORT_DTYPE = 2


class TrainingPlan(NamedTuple):
    """Reward models to train, hours for all, the most GiB at once, and whether only heads are trained."""

    recipes: int
    hours: float
    gib: float
    is_frozen: bool


def plan_training(settings: Settings, solutions: pl.DataFrame, count: int, card: Hardware) -> TrainingPlan | None:
    """Estimate the training of a profile's recipes; None if it has none, or all start from models of their own.

    Args:
        solutions: question and steps of some of the trajectories.
        count: number of all.

    Raises:
        ModelError: the backbone's config or tokenizer cannot be read.
    """
    trained = [recipe.trained_with(settings.training) for recipe in settings.recipes if recipe.backbone is None]
    backbone = settings.models.of("backbone")
    if not trained or backbone is None or solutions.is_empty():
        return None
    model = planned_model(backbone, card)
    texts = ["\n".join([question, *steps]) for question, steps in solutions.select("question", "steps").iter_rows()]
    lengths = [min(len(ids), settings.training.max_tokens) for ids in model.tokenizer(texts)["input_ids"]]
    tokens, most = sum(lengths) * count / len(lengths), max(lengths)
    return TrainingPlan(
        len(trained), _seconds(trained, model, tokens) / 3600, max(_gib(each, model, most) for each in trained),
        all(each.backbone == "frozen" for each in trained),
    )  # fmt: skip


def _seconds(trained: Iterable[Training], model: PlannedModel, tokens: float) -> float:
    passes = [FORWARD_AND_BACKWARD * each.epochs for each in trained if each.backbone == "full"]
    passes += [1.0] if any(each.backbone == "frozen" for each in trained) else []
    return model.cost(round(tokens * sum(passes))).wall_seconds


def _gib(training: Training, model: PlannedModel, most: int) -> float:
    """The most memory of a training whose longest solution has so many tokens."""
    is_on_cpu = model.card.name == CPU
    itemsize = 4 if is_on_cpu else ITEMSIZE.get(model.dtype, SHORT_DTYPE)
    learns = training.backbone == "full" and training.lora is None
    weights = model.parameters * (FULL_BYTES if learns else itemsize)
    if training.backbone == "frozen":
        return weights / GIB
    each = training_bytes_per_token(model.config, itemsize, training.gradient_checkpointing)
    batch = training.batch_size * most * each
    return (weights + (min(batch, max(MOST_ON_CPU, most * each)) if is_on_cpu else batch)) / GIB
