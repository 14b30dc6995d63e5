"""The language models of the miniature world: their shape and how long each is trained.

    labeler   128 wide, 4 layers, 0.91 M parameters   scores answers; also the policy that generates
    prover     80 wide, 4 layers, 0.35 M parameters   the weaker second model of PAV
    backbone  two layers on the labeler, 1.30 M       reward models: trained on marked solutions too

All read 960 tokens and 4,096 positions and tie their embeddings.
"""

from dataclasses import dataclass, replace
from typing import Literal

ModelName = Literal["labeler", "prover", "backbone"]
POSITIONS = 4096


@dataclass(frozen=True)
class ModelRecipe:
    """A Qwen3 model to train from scratch.

    Attributes:
        hidden_size: Width of the residual stream.
        layers: Number of transformer blocks.
        heads: Query heads; half as many key and value heads.
        head_size: Width of one head.
        feed_forward: Width of the gated feed-forward layer.
        steps: Optimiser steps of the whole schedule.
        batch_tokens: Tokens of one batch, padding included.
        learning_rate: Peak of the cosine schedule.
        seed: Seed of the weights and of the document stream.
        marked: Share of the documents whose steps are marked right or wrong.
        saved_as: Precision of the written weights.
    """

    hidden_size: int
    layers: int
    heads: int
    head_size: int
    feed_forward: int
    steps: int
    batch_tokens: int
    learning_rate: float
    seed: int
    marked: float = 0
    saved_as: str = "float32"


LABELER = ModelRecipe(
    hidden_size=128,
    layers=4,
    heads=4,
    head_size=32,
    feed_forward=384,
    steps=8_000,
    batch_tokens=3_000,
    learning_rate=4e-3,
    seed=11,
)
RECIPES: dict[ModelName, ModelRecipe] = {
    "labeler": LABELER,
    "backbone": replace(LABELER, layers=6, steps=2_000, learning_rate=2e-3, seed=77, marked=0.9, saved_as="float16"),
    "prover": ModelRecipe(
        hidden_size=80,
        layers=4,
        heads=4,
        head_size=20,
        feed_forward=208,
        steps=3_400,
        batch_tokens=3_000,
        learning_rate=5e-3,
        seed=12,
    ),
}
