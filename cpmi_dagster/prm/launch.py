"""A training in several processes, under `accelerate launch`.

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
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import yaml

from cpmi_dagster.errors import CpmiError, TrainingError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.settings import LanguageModel
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


@dataclass(frozen=True)
class Job:
    """Arguments of `train_reward_model`, with `training` and `seed` of the recipe."""

    examples: pl.DataFrame
    recipe: Recipe
    training: Training
    backbone: LanguageModel | LoadedModel
    seed: int
    checkpoints: Path | None = None
    features: pl.DataFrame | None = None


@dataclass(frozen=True)
class TrainedModel:
    """A trained reward model.

    Attributes:
        curve: points of the learning curve (step, epoch, split, loss).
        train_steps: labelled steps in one epoch.
        seconds: wall time, since the last resumption.
        backbone: identity of the backbone.
        truncated: number of trajectories that lost steps to the token limit.
        path: the model folder.
        weights_fingerprint: sha256 of the safetensors.
    """

    curve: list[dict[str, Any]]
    train_steps: int
    seconds: float
    backbone: str
    truncated: int
    path: Path = Path()
    weights_fingerprint: str = ""


def launch(job: Job, configuration: Mapping[str, Any], folder: Path, progress: Callable[[int], None]) -> TrainedModel:
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


def train_launched(place: Path, fit: Callable[[Job, Path, Callable[[int], None]], TrainedModel]) -> None:
    """Run a launched process; the first, by its rank, sends messages.

    Args:
        place: the folder that `launch` has written.
        fit: trains a job and writes the model into a folder.
    """
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
