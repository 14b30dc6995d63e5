"""Train in as many processes as accelerate is configured for: several GPUs, FSDP.

    this process   writes job.json, examples.parquet and accelerate.yaml into a job folder, holds alive.lock, and runs
                   accelerate launch --config_file accelerate.yaml -m cpmi_dagster.prm.launch JOB_FOLDER
    the others     train together while the lock is held; the first one writes model/, progress and fitted.json (or
                   error.txt)

`accelerate config` asks for the configuration and writes its file.
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
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from cpmi_dagster.errors import CpmiError, TrainingError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.life_locks import hold, life_of
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.prm.fitting import Fitted, Job, fit
from cpmi_dagster.prm.settings import Training

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


def launch(job: Job, configuration: Mapping[str, Any], folder: Path, progress: Callable[[int], None]) -> Fitted:
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
            [*command, "-m", "cpmi_dagster.prm.launch", str(place)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _follow(process, place / "progress", progress)
        finally:
            _end(process)
    if process.returncode or not (place / "fitted.json").is_file():
        raise TrainingError(f"training recipe {job.name} under accelerate failed: {_complaint(place)}")
    fitted = Fitted(**json.loads((place / "fitted.json").read_text(encoding="utf-8")))
    for file in (place / "model").iterdir():
        file.rename(folder / file.name)
    shutil.rmtree(place)
    return fitted


def main(place: Path) -> None:
    """What each launched process runs."""
    try:
        job = _read_job(place)
        model = place / "model"
        model.mkdir(exist_ok=True)
        fitted = fit(job, model, _ProgressFile(place))
    except CpmiError as error:
        if place.is_dir():
            write_whole(place / "error.txt", str(error))
        raise
    if _is_first():
        write_whole(place / "fitted.json", json.dumps(asdict(fitted)))


class _ProgressFile:
    """Writes how many trajectories are done; ends the training when the process that started it has died."""

    def __init__(self, place: Path) -> None:
        self._file, self._alive, self._done = place / "progress", place / ALIVE, 0
        self._launcher = os.getppid()

    def __call__(self, count: int) -> None:
        if os.getppid() != self._launcher or life_of(self._alive) != "held":
            raise TrainingError("the run that started this training has ended")
        self._done += count
        if _is_first():
            write_whole(self._file, str(self._done))


def _is_first() -> bool:
    """Whether this is the process that writes for all, by the number that torch gave it."""
    return environment_variable("RANK") in ("", "0")


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


def _read_job(place: Path) -> Job:
    facts = json.loads((place / "job.json").read_text(encoding="utf-8"))
    facts["examples"] = pl.read_parquet(place / "examples.parquet")
    facts["training"] = Training.model_validate(facts["training"])
    facts["backbone"] = LanguageModel.model_validate(facts["backbone"])
    facts["checkpoints"] = Path(facts["checkpoints"]) if facts["checkpoints"] else None
    return Job(**facts)


def _follow(process: "subprocess.Popen[bytes]", file: Path, progress: Callable[[int], None]) -> None:
    """Pass progress on until the process ends."""
    reported = 0
    while True:
        ended = process.poll() is not None
        done = int(file.read_text(encoding="utf-8")) if file.is_file() else 0
        if done > reported:
            progress(done - reported)
        reported = done
        if ended:
            return
        time.sleep(POLL_SECONDS)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End all processes of the launch, by force after `GRACE_SECONDS`."""
    for number, patience in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def _complaint(place: Path) -> str:
    if (place / "error.txt").is_file():
        return (place / "error.txt").read_text(encoding="utf-8")
    lines = (place / "output.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " / ".join(lines[-LAST_LINES:]) or "it wrote no output"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
