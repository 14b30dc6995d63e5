"""The README.md beside a reward model's weights: what it is, what it was trained on, how to load it."""

import json
from collections.abc import Sequence
from typing import Any

from cpmi_dagster import settings

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
| soft labels | `{data_version}` |
| epochs | {epochs:g} |
| batch | {batch_size} x {gradient_accumulation} trajectories |
| learning rate | {learning_rate:g}, head {head_learning_rate:g} |
| last losses | {losses} |

## Use

```python
import polars as pl
from cpmi_dagster.prm import load_reward_model, score_steps

model = load_reward_model("{name}")
solutions = pl.DataFrame({{"id": ["a"], "question": ["What is 2 + 3 * 4?"], "steps": [["3 * 4 = 12", "2 + 12 = 14"]]}})
score_steps(model, solutions, batch_tokens=16384)  # id, step_index, probability
```
"""


def model_card(
    recipe: settings.Recipe,
    training: settings.Training,
    backbone: str,
    data_version: str,
    curve: Sequence[dict[str, Any]],
    name: str,
) -> str:
    """The card as Markdown.

    Args:
        backbone: identity of the model that training started from.
        data_version: fingerprint of the soft labels; empty where there is none.
        curve: points of the learning curve; the last of each split is shown.
        name: the model folder's name.
    """
    return CARD.format(
        name=name,
        base_model=json.dumps(backbone.partition("@")[0]),
        reward_type=recipe.reward_type,
        objective=OBJECTIVES[recipe.objective],
        objective_name=recipe.objective,
        backbone=backbone,
        data_version=data_version or "not recorded",
        losses=_last_losses(curve),
        **training.model_dump(
            include={"epochs", "batch_size", "gradient_accumulation", "learning_rate", "head_learning_rate"}
        ),
    )


def _last_losses(curve: Sequence[dict[str, Any]]) -> str:
    last = {point["split"]: point["loss"] for point in curve}
    return ", ".join(f"{split} {loss:.4f}" for split, loss in last.items()) or "none recorded"
