"""Train a process reward model from soft labels (section 5.3).

One row of the examples is a trajectory with the soft label of each step:

    trajectory_id  question_id  question              steps                                      labels
    t000000017     3f9a...      Weng earns $12 ...    [She earned 0.2 a minute., That is 10.]    [0.91, 0.64]

The result is a folder that `load_reward_model` reads: config.json, safetensors, the tokenizer, README.md and the hashes
of these files. It appears when it is complete; a killed training resumes from its last checkpoint.

With `training.accelerate` the same code runs in as many processes as accelerate is configured for:

    this process   writes job.json, examples.parquet and accelerate.yaml into a job folder, holds alive.lock, and runs
                   accelerate launch --config_file accelerate.yaml -m cpmi_dagster.prm.training JOB_FOLDER
    the others     train together while the lock is held; the first one writes model/, progress and fitted.json (or
                   error.txt)
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from cpmi_dagster.errors import CpmiError, TrainingError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.life_locks import hold, life_of
from cpmi_dagster.files.whole_files import write_whole, written_at_once
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.model_files import weights_hash, write_digests
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm.card import model_card
from cpmi_dagster.prm.fitting import Backbone, Fitted, Job, fit
from cpmi_dagster.prm.settings import Recipe, Training

ONE_PROCESS: Mapping[str, Any] = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "NO",
    "machine_rank": 0,
    "num_machines": 1,
    "num_processes": 1,
}
"""Defaults of accelerate's configuration."""
ALIVE = "alive.lock"
POLL_SECONDS = 0.2
GRACE_SECONDS = 10
LAST_LINES = 3


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
    features: pl.DataFrame | None = None,
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
        features: trajectory_id, step_index, feature: hidden states of the steps, from which the head alone is trained;
            the backbone is saved as it is.

    Raises:
        ModelError: the backbone cannot be loaded.
        TrainingError: the examples cannot be trained on, the loss stopped being finite, or a process failed.
    """
    own = recipe.trained_with(training)
    job = Job(
        examples,
        recipe.name,
        recipe.objective,
        own,
        backbone,
        seed + recipe.seed,
        checkpoints,
        recipe.head,
        features,
    )
    configuration = own.accelerate or ({"gpu_ids": gpu} if gpu and features is None else None)
    with written_at_once(output) as folder:
        advance = progress or (lambda count: None)
        fitted = _launch(job, configuration, folder, advance) if configuration else fit(job, folder, advance)
        card = model_card(recipe, own, fitted, data_version, output.name)
        (folder / "README.md").write_text(card, encoding="utf-8")
        write_digests(folder)
    return TrainedModel(**vars(fitted), path=output, weights_fingerprint=weights_hash(output))


def _launch(job: Job, configuration: Mapping[str, Any], folder: Path, progress: Callable[[int], None]) -> Fitted:
    """Train a job under `accelerate launch`.

    Args:
        job: as for `fit`; its backbone must be one that each process can load.
        configuration: what `accelerate config` writes.

    Raises:
        TrainingError: a process failed; the message has its last lines of output.
        StorageError: the folder is on a file system without locks.
    """
    place = Path(tempfile.mkdtemp(prefix=".job-", dir=folder))
    _write_job(job, configuration, place)
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(place / "accelerate.yaml")]
    with closing(hold(place / ALIVE)), (place / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [*command, "-m", "cpmi_dagster.prm.training", str(place)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            reported, ended = 0, False
            while not ended:
                ended = process.poll() is not None
                file = place / "progress"
                done = int(file.read_text(encoding="utf-8")) if file.is_file() else 0
                if done > reported:
                    progress(done - reported)
                reported = done
                if not ended:
                    time.sleep(POLL_SECONDS)
        finally:
            # end all processes of the launch, by force after `GRACE_SECONDS`
            for number, patience in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
                if process.poll() is None:
                    os.killpg(process.pid, number)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(patience)
    if process.returncode or not (place / "fitted.json").is_file():
        lines = (place / "output.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = " / ".join(lines[-LAST_LINES:]) or "it wrote no output"
        if (place / "error.txt").is_file():
            said = (place / "error.txt").read_text(encoding="utf-8")
        raise TrainingError(f"training recipe {job.name} under accelerate failed: {said}")
    fitted = Fitted(**json.loads((place / "fitted.json").read_text(encoding="utf-8")))
    for file in (place / "model").iterdir():
        file.rename(folder / file.name)
    shutil.rmtree(place)
    return fitted


def main(place: Path) -> None:
    """What each launched process runs; the first, by the number that torch gave it, writes for all."""
    launcher, is_first, done = os.getppid(), environment_variable("RANK") in ("", "0"), 0

    def report(count: int) -> None:
        """Write how many trajectories are done; end the training when the process that started it has died."""
        nonlocal done
        if os.getppid() != launcher or life_of(place / ALIVE) != "held":
            raise TrainingError("the run that started this training has ended")
        done += count
        if is_first:
            write_whole(place / "progress", str(done))

    try:
        facts = json.loads((place / "job.json").read_text(encoding="utf-8"))
        facts["examples"] = pl.read_parquet(place / "examples.parquet")
        facts["training"] = Training.model_validate(facts["training"])
        facts["backbone"] = LanguageModel.model_validate(facts["backbone"])
        facts["checkpoints"] = Path(facts["checkpoints"]) if facts["checkpoints"] else None
        model = place / "model"
        model.mkdir(exist_ok=True)
        fitted = fit(Job(**facts), model, report)
    except CpmiError as error:
        if place.is_dir():
            write_whole(place / "error.txt", str(error))
        raise
    if is_first:
        write_whole(place / "fitted.json", json.dumps(asdict(fitted)))


def _write_job(job: Job, configuration: Mapping[str, Any], place: Path) -> None:
    if isinstance(job.backbone, LoadedModel):
        raise TrainingError("several processes cannot share a model in memory; name the backbone's folder or hub id")
    backbone = job.backbone if isinstance(job.backbone, LanguageModel) else LanguageModel(name=str(job.backbone))
    # without the configuration of the launch, which would launch processes again
    training = {**dict(job.training), "accelerate": None}
    checkpoints = str(job.checkpoints.absolute()) if job.checkpoints else None
    changed = {"training": training, "backbone": backbone, "checkpoints": checkpoints, "examples": None}
    facts = {**vars(job), **changed}
    job.examples.write_parquet(place / "examples.parquet")
    (place / "accelerate.yaml").write_text(yaml.safe_dump({**ONE_PROCESS, **configuration}), encoding="utf-8")
    text = json.dumps(facts, default=lambda value: value.model_dump())
    (place / "job.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
