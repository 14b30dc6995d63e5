"""The README.md beside a reward model's weights: what it is, what it was trained on, how good it is, how to load it."""

import json
from collections.abc import Sequence

from cpmi_dagster.prm.fitting import TrainedModel
from cpmi_dagster.prm.settings import Recipe, Training

HEADS = {"two_layer": "two layers, ReLU between them", "linear": "one linear layer"}
OBJECTIVES = {"bce": "binary cross-entropy on soft labels", "mse": "squared error", "pqm": "process Q-value ranking"}

CARD = """\
---
library_name: transformers
base_model: {base_model}
tags: [process-reward-model, cpmi]
---
# {name}

A process reward model: for every step of a solution, the probability that the step is right.

| | |
|---|---|
| reward type | `{reward_type}` |
| objective | {objective} (`{objective_name}`) |
| backbone | `{backbone}` |
| head | {head} |
| trained weights | {weights} |
| soft labels | `{data_version}` |
| labelled steps trained on | {steps:,} |
| epochs | {epochs:g} |
| batch | {batch_size} x {gradient_accumulation} trajectories{processes} |
| learning rate | {learning_rate:g}, head {head_learning_rate:g} |
| seed | {seed} |
| losses | {losses} |

{figures}## Use

```python
import polars as pl
from cpmi_dagster.prm import load_reward_model, score_steps

model = load_reward_model("{name}")
solutions = pl.DataFrame({{"id": ["a"], "question": ["What is 2 + 3 * 4?"], "steps": [["3 * 4 = 12", "2 + 12 = 14"]]}})
score_steps(model, solutions, batch_tokens=16384)  # id, step_index, probability
```
"""
FIGURES, USE = "## Figures", "## Use"


def model_card(recipe: Recipe, training: Training, trained: TrainedModel, data_version: str, name: str) -> str:
    """The card as Markdown, before the model is evaluated.

    Args:
        trained: outcome of the training; the first and last loss of each split are shown.
        data_version: hash of the soft labels; empty where there is none.
        name: the model folder's name.
    """
    by_split: dict[str, list[float]] = {}
    for point in trained.curve:
        by_split.setdefault(point["split"], []).append(point["loss"])
    processes = int((training.accelerate or {}).get("num_processes", 1))
    return CARD.format(
        name=name,
        base_model=json.dumps(trained.backbone.partition("@")[0]),
        reward_type=recipe.reward_type,
        objective=OBJECTIVES[recipe.objective],
        objective_name=recipe.objective,
        backbone=trained.backbone,
        head=HEADS[recipe.head],
        weights=f"adapters of rank {training.lora.rank}, merged, and the head" if training.lora else "all",
        data_version=data_version or "not recorded",
        steps=trained.train_steps,
        processes=f" in each of {processes} processes" if processes > 1 else "",
        seed=f"the profile's plus {recipe.seed}" if recipe.seed else "the profile's",
        losses=", ".join(f"{name} {found[0]:.4f} to {found[-1]:.4f}" for name, found in by_split.items()) or "none",
        figures=_section([]),
        **training.model_dump(
            include={"epochs", "batch_size", "gradient_accumulation", "learning_rate", "head_learning_rate"}
        ),
    )


def with_figures(card: str, figures: Sequence[tuple[str, str]], profile: str) -> str:
    """The card with the figures of a report in place of those of an earlier one."""
    before, _, rest = card.partition(FIGURES)
    return before + _section(figures, profile) + USE + rest.partition(USE)[2]


def _section(figures: Sequence[tuple[str, str]], profile: str = "") -> str:
    if not figures:
        return f"{FIGURES}\n\nNothing has been measured with this model yet; `cpmi run` measures it.\n\n"
    rows = "".join(f"| {name} | {value} |\n" for name, value in figures)
    return f"{FIGURES}\n\n| on the sets of profile `{profile}` | measured [95 % interval; n] |\n|---|---|\n{rows}\n"
