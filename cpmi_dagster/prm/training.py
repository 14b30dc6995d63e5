"""Train a process reward model from soft labels (section 5.3).

One row of the examples is a trajectory with the soft label of each step:

    trajectory_id  question_id  question              steps                                      labels
    t000000017     3f9a...      Weng earns $12 ...    [She earned 0.2 a minute., That is 10.]    [0.91, 0.64]

The result is a folder that `load_reward_model` reads: config.json, safetensors, the tokenizer, README.md and the hashes
of these files. It appears when it is complete; a killed training resumes from its last checkpoint. With
`training.accelerate` the same code runs in as many processes as accelerate is configured for (`prm/launch.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cpmi_dagster.files.whole_files import written_at_once
from cpmi_dagster.models.model_files import weights_hash, write_digests
from cpmi_dagster.prm.card import model_card
from cpmi_dagster.prm.fitting import Backbone, Fitted, Job, fit
from cpmi_dagster.prm.launch import launch
from cpmi_dagster.prm.settings import Recipe, Training


@dataclass(frozen=True)
class TrainedModel(Fitted):
    """A trained reward model.

    Attributes:
        path: the folder it was written to.
        weights_fingerprint: sha256 of its safetensors.
    """

    path: Path
    weights_fingerprint: str


def train_reward_model(
    examples: pl.DataFrame,
    recipe: Recipe,
    training: Training,
    backbone: Backbone,
    output: Path,
    seed: int,
    progress: Callable[[int], None] | None = None,
    data_version: str = "",
    checkpoints: Path | None = None,
    gpu: str | None = None,
) -> TrainedModel:
    """Train one recipe and write the model.

    Args:
        examples: trajectory_id, question_id, question, steps, labels (soft labels in [0, 1], one per step).
        recipe: its objective, its own seed, and what it changes in `training`.
        backbone: the decoder to start from: settings, a loaded model (which is left as it is), a folder or hub id.
        output: folder to write; a model already there is replaced when the new one is complete.
        seed: of the head, the validation split and the order of the examples; on one CPU it fixes every weight.
        progress: called with the number of trajectories just trained on, counting each epoch.
        data_version: hash of the soft labels, for the model card.
        checkpoints: folder for the checkpoints a killed training resumes from; it must belong to these examples and
            settings alone, and the caller removes it. Without it no checkpoints are saved.
        gpu: the GPU to train on if it is not the first, where `training.accelerate` does not say.

    Raises:
        ModelError: the backbone cannot be loaded.
        TrainingError: the examples cannot be trained on, the loss stopped being finite, or a process failed.
    """
    own = recipe.trained_with(training)
    job = Job(examples, recipe.name, recipe.objective, own, backbone, seed + recipe.seed, checkpoints, recipe.head)
    configuration = own.accelerate or ({"gpu_ids": gpu} if gpu else None)
    with written_at_once(output) as folder:
        advance = progress or (lambda count: None)
        fitted = launch(job, configuration, folder, advance) if configuration else fit(job, folder, advance)
        card = model_card(recipe, own, fitted, data_version, output.name)
        (folder / "README.md").write_text(card, encoding="utf-8")
        write_digests(folder)
    return TrainedModel(**vars(fitted), path=output, weights_fingerprint=weights_hash(output))
