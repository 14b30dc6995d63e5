"""Train a process reward model from soft labels (section 5.3).

One row of the examples is a trajectory with the soft label of each step:

    trajectory_id  question_id  question              steps                                      labels
    t000000017     3f9a...      Weng earns $12 ...    [She earned 0.2 a minute., That is 10.]    [0.91, 0.64]

The result is a folder for `load_reward_model`: config.json, safetensors, tokenizer, README.md and the hashes of these
files. It appears when it is complete; a killed training resumes from its last checkpoint.

With `training.accelerate` several processes train:

    this process   writes job.json, examples.parquet and accelerate.yaml into a folder, and runs
                   accelerate launch --config_file accelerate.yaml -m cpmi_dagster.prm.training FOLDER
    the others     end when the pipe from this process closes; the first writes the model, and prints to this process:
                   cpmi {"done": 8}     cpmi {"trained": {"curve": [...], ...}}     cpmi {"error": "the loss ..."}
"""

import json
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import yaml

from cpmi_dagster.errors import CpmiError, TrainingError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.whole_files import written_at_once
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.model_files import weights_hash, write_digests
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm.card import model_card
from cpmi_dagster.prm.fitting import Job, TrainedModel, fit
from cpmi_dagster.prm.settings import Recipe, Training

ONE_PROCESS: Mapping[str, Any] = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "NO",
    "machine_rank": 0,
    "num_machines": 1,
    "num_processes": 1,
}
"""Defaults of accelerate's configuration."""
MESSAGE = "cpmi "
LAST_LINES = 3


def train_reward_model(
    examples: pl.DataFrame,
    recipe: Recipe,
    training: Training,
    backbone: LanguageModel | LoadedModel | Path | str,
    output: Path,
    seed: int,
    progress: Callable[[int], None] | None = None,
    data_version: str = "",
    checkpoints: Path | None = None,
    gpu: str | None = None,
    features: pl.DataFrame | None = None,
) -> TrainedModel:
    """Train one recipe and write the model.

    Args:
        examples: trajectory_id, question_id, question, steps, labels (soft labels in [0, 1], one per step).
        recipe: objective, seed, and changes of `training`.
        backbone: the decoder to start from: settings, a loaded model (which is copied), a folder or hub id.
        output: the model folder; a model in it is replaced once the new one is complete.
        seed: seed of the head, the validation split and the order of examples; on one CPU it fixes every weight.
        progress: called with the number of trajectories just trained on, counting each epoch.
        data_version: hash of the soft labels, for the model card.
        checkpoints: folder of checkpoints to resume from, for these examples and settings only; the caller removes
            it. If None, no checkpoints are saved.
        gpu: the GPU to train on, if it is not the first and `training.accelerate` names none.
        features: trajectory_id, step_index, feature: hidden states of the steps; only the head is trained.

    Raises:
        ModelError: the backbone cannot be loaded.
        TrainingError: the examples cannot be trained on, the loss stopped being finite, or a process failed.
    """
    changed = recipe.trained_with(training)
    if not isinstance(backbone, LanguageModel | LoadedModel):
        backbone = LanguageModel(name=str(backbone))
    job = Job(examples, recipe, changed, backbone, seed + recipe.seed, checkpoints, features)
    configuration = changed.accelerate or ({"gpu_ids": gpu} if gpu and features is None else None)
    with written_at_once(output) as folder:
        advance = progress or (lambda count: None)
        trained = _launch(job, configuration, folder, advance) if configuration else fit(job, folder, advance)
        card = model_card(recipe, changed, trained, data_version, output.name)
        (folder / "README.md").write_text(card, encoding="utf-8")
        write_digests(folder)
    return replace(trained, path=output, weights_fingerprint=weights_hash(output))


def _launch(job: Job, configuration: Mapping[str, Any], folder: Path, progress: Callable[[int], None]) -> TrainedModel:
    """Train a job under `accelerate launch`.

    Args:
        job: as for `fit`; each process loads its backbone.
        configuration: written by `accelerate config`.

    Raises:
        TrainingError: a process failed; the message has its last lines of output.
    """
    if isinstance(job.backbone, LoadedModel):
        raise TrainingError("several processes cannot share a model in memory; name the backbone's folder or hub id")
    place = folder / ".job"
    place.mkdir()
    # a process with the configuration would launch others
    training = {**dict(job.training), "accelerate": None}
    checkpoints = str(job.checkpoints.absolute()) if job.checkpoints else None
    facts = {"recipe": job.recipe, "training": training, "backbone": job.backbone, "seed": job.seed}
    # also the fields that are in no key, such as the backbone's device
    text = json.dumps({**facts, "checkpoints": checkpoints}, default=dict)
    (place / "job.json").write_text(text, encoding="utf-8")
    (place / "accelerate.yaml").write_text(yaml.safe_dump({**ONE_PROCESS, **configuration}), encoding="utf-8")
    job.examples.write_parquet(place / "examples.parquet")
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(place / "accelerate.yaml")]
    said: dict[str, Any] = {}
    lines: deque[str] = deque(maxlen=LAST_LINES)
    with subprocess.Popen(
        [*command, "-m", "cpmi_dagster.prm.training", str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if line.startswith(MESSAGE):
                message = json.loads(line.removeprefix(MESSAGE))
                progress(message.pop("done", 0))
                said |= message
            elif line.strip():
                lines.append(line.strip())
    if process.returncode or "trained" not in said:
        reason = said.get("error") or " / ".join(lines) or "it wrote no output"
        raise TrainingError(f"training recipe {job.recipe.name} under accelerate failed: {reason}")
    shutil.rmtree(place)
    return TrainedModel(**said["trained"])


def main(place: Path) -> None:
    """Run a launched process; the first, by its rank, sends messages."""
    Thread(target=_exit_with_caller, daemon=True).start()
    is_first = environment_variable("RANK") in ("", "0")
    try:
        facts = json.loads((place / "job.json").read_text(encoding="utf-8"))
        job = Job(
            pl.read_parquet(place / "examples.parquet"),
            Recipe.model_validate(facts["recipe"]),
            Training.model_validate(facts["training"]),
            LanguageModel.model_validate(facts["backbone"]),
            facts["seed"],
            Path(facts["checkpoints"]) if facts["checkpoints"] else None,
        )
        trained = fit(job, place.parent, lambda count: _send(done=count) if is_first else None)
    except CpmiError as error:
        _send(error=str(error))
        raise
    if is_first:
        _send(trained={**vars(trained), "path": None})


def _send(**message: Any) -> None:
    print(MESSAGE + json.dumps(message), flush=True)


def _exit_with_caller() -> None:
    """Exit when the launching process closes the pipe or dies."""
    os.read(0, 1)  # not `sys.stdin`, which would be locked when Python exits
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
