"""The model card, README.md of a reward model: training data, settings, figures, and how to load it."""

import json
from collections.abc import Sequence

from cpmi_dagster.prm.launch import TrainedModel
from cpmi_dagster.prm.settings import Recipe, Training

HEADS = {"two_layer": "two layers, ReLU between them", "linear": "one linear layer"}
OBJECTIVES = {"bce": "binary cross-entropy on soft labels", "mse": "squared error", "pqm": "process Q-value ranking"}

FIGURES, USE = "## Figures", "## Use"
NO_FIGURES = f"{FIGURES}\n\nNothing has been measured with this model yet; `cpmi run` measures it.\n\n"


def model_card(recipe: Recipe, training: Training, trained: TrainedModel, data_version: str, name: str) -> str:
    """The card in Markdown, before the model is evaluated.

    Args:
        data_version: hash of the soft labels; empty if unknown.
        name: name of the model folder.
    """
    losses: dict[str, list[float]] = {}
    for point in trained.curve:
        losses.setdefault(point["split"], []).append(point["loss"])
    ends = ", ".join(f"{split} {values[0]:.4f} to {values[-1]:.4f}" for split, values in losses.items())
    processes = int((training.accelerate or {}).get("num_processes", 1))
    in_each = f" in each of {processes} processes" if processes > 1 else ""
    return f"""\
---
library_name: transformers
base_model: {json.dumps(trained.backbone.partition("@")[0])}
tags: [process-reward-model, cpmi]
---
# {name}

A process reward model: for every step of a solution, the probability that the step is right.

| | |
|---|---|
| reward type | `{recipe.reward_type}` |
| objective | {OBJECTIVES[recipe.objective]} (`{recipe.objective}`) |
| backbone | `{trained.backbone}` |
| head | {HEADS[recipe.head]} |
| trained weights | {f"adapters of rank {training.lora.rank}, merged, and the head" if training.lora else "all"} |
| soft labels | `{data_version or "not recorded"}` |
| labelled steps trained on | {trained.train_steps:,} |
| epochs | {training.epochs:g} |
| batch | {training.batch_size} x {training.gradient_accumulation} trajectories{in_each} |
| learning rate | {training.learning_rate:g}, head {training.head_learning_rate:g} |
| seed | {f"the profile's plus {recipe.seed}" if recipe.seed else "the profile's"} |
| losses | {ends or "none"} |

{NO_FIGURES}{USE}

```python
import polars as pl
from cpmi_dagster.prm import load_reward_model, score_steps

model = load_reward_model("{name}")
solutions = pl.DataFrame({{"id": ["a"], "question": ["What is 2 + 3 * 4?"], "steps": [["3 * 4 = 12", "2 + 12 = 14"]]}})
score_steps(model, solutions, batch_tokens=16384)  # id, step_index, probability
```
"""


def with_figures(card: str, figures: Sequence[tuple[str, str]], profile: str) -> str:
    """The card with the figures of a report; earlier figures are replaced."""
    before, _, rest = card.partition(FIGURES)
    rows = "".join(f"| {name} | {value} |\n" for name, value in figures)
    head = f"| on the sets of profile `{profile}` | measured [95 % interval; n] |\n|---|---|\n"
    return before + (f"{FIGURES}\n\n{head}{rows}\n" if figures else NO_FIGURES) + USE + rest.partition(USE)[2]
