"""Assigns a GPU to each process, and a home's places for models, by lock files.

processes 4711, 4712 on a machine with two GPUs    ->    cuda:0, cuda:1
a third, if `orchestration.gpus` is 4              ->    cuda:0 again: two processes share a GPU

`orchestration.gpus: 1`, a run of Dagster's UI uses a model    ->    `cpmi run` in a shell waits until it has ended
"""

import logging
import os
import tempfile
import time
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

from filelock import FileLock, Timeout

from cpmi_dagster.files.locks import file_lock, no_lock

LOG = logging.getLogger(__name__)
LOOK_EVERY_SECONDS = 1.0
DRIVERS = ("/dev/nvidiactl", "/dev/kfd")
VISIBLE, HIDES_ALL = "CUDA_VISIBLE_DEVICES", ("", "-1")
_places: dict[Path, FileLock] = {}
"""The place for models that this process holds, by folder of the locks."""


def take_place(folder: Path, places: int, say: Callable[[str], object]) -> None:
    """Take one of a home's places for processes with models, until this process ends or leaves it.

    Dagster's pool bounds the runs that Dagster launches; this bounds them together with runs in shells.

    Args:
        folder: of the lock files.
        places: as many processes use models at once.
        say: takes a sentence if this process has to wait.

    Raises:
        StorageError: the folder cannot be written, or its file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    is_waiting = False
    while folder not in _places:
        for number in range(places):
            lock = file_lock(folder / f"models-{number}.lock")
            try:
                lock.acquire(blocking=False)
            except Timeout:
                continue
            except OSError as error:
                raise no_lock(folder, error) from error
            _places[folder] = lock
            return
        if not is_waiting:
            is_waiting = True
            say(
                f"waiting for {'the run that uses' if places == 1 else f'one of the {places} runs that use'} models of "
                f"this home now (orchestration.gpus: {places})"
            )
        time.sleep(LOOK_EVERY_SECONDS)


def leave_place(folder: Path) -> None:
    """Give the place of this process to another one."""
    if (lock := _places.pop(folder, None)) is not None:
        lock.release()


class GpuDealer:
    """Assigns a GPU to this process at the first call, until `leave` or as long as this object exists.

    Args:
        processes: number of processes that may use the machine's GPUs at once.
        folder: of the lock files; by default one per machine and user.
    """

    def __init__(self, processes: int, folder: Path | None = None) -> None:
        self._processes = processes
        self._folder = folder or Path(tempfile.gettempdir()) / f"cpmi-gpus-{os.getuid()}"
        self._taken: tuple[str, FileLock | None] | None = None

    def device(self) -> str:
        """The GPU with the fewest processes of this package, as `cuda:1`; `cpu` if there is none."""
        if self._taken is None:
            self._taken = self._take(gpu_names())
        return self._taken[0]

    def leave(self) -> None:
        """Give the GPU back; the next call of `device` takes one again."""
        if self._taken and self._taken[1]:
            self._taken[1].release()
        self._taken = None

    def _take(self, names: list[str]) -> tuple[str, FileLock | None]:
        if not names:
            return "cpu", None
        self._folder.mkdir(parents=True, exist_ok=True)
        shares = -(-self._processes // len(names))
        for share, (index, name) in product(range(shares), enumerate(names)):
            lock = file_lock(self._folder / f"{name}-{share}.lock")
            try:
                lock.acquire(blocking=False)
            except Timeout:
                continue
            except OSError as error:
                raise no_lock(self._folder, error) from error
            return f"cuda:{index}", lock
        LOG.warning("%d processes share this machine's GPUs already; this one takes the first GPU too", self._processes)
        return "cuda:0", None


@cache
def warn_of_idle_gpu(model: str) -> None:
    """Say that a model is on the CPU though this machine has a GPU, unless CUDA_VISIBLE_DEVICES hides all of them."""
    visible = os.environ.get(VISIBLE)
    if gpu_names():
        reason = "its settings say `device: cpu`; remove that to use the GPU"
    elif visible in HIDES_ALL or not sees_gpu():
        return
    else:
        reason = f"torch sees none ({VISIBLE}: {visible or 'not set'}); correct that, or install torch for CUDA"
    LOG.warning("THE MODEL %s IS ON THE CPU, THOUGH THIS MACHINE HAS A GPU: %s", model, reason)


def gpu_names() -> list[str]:
    """The UUID of each GPU that this process sees, the same in every process."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [str(torch.cuda.get_device_properties(index).uuid) for index in range(torch.cuda.device_count())]


def sees_gpu() -> bool:
    """Whether a driver of CUDA or ROCm is at work here; asked without torch, which loads for seconds."""
    return any(map(os.path.exists, DRIVERS))
