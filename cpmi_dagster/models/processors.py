"""Where a model goes, and how many threads of torch a model on the CPU gets.

auto                                        cuda if torch sees a GPU, else cpu
8 cores, a load of 6 by other work          2 threads: more than there are free cores would wait for each other
"""

import logging
import os
import time
from functools import cache
from pathlib import Path

from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.files.text import counted

LOAD = Path("/proc/loadavg")
LOOKS, SECONDS_BETWEEN_LOOKS = 5, 0.02
THREADS = "OMP_NUM_THREADS"
LOG = logging.getLogger(__name__)


def resolve_device(device: str) -> str:
    """A torch device; `auto` is CUDA if there is one. Before a process's first model on the CPU, threads are set."""
    import torch

    resolved = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    if torch.device(resolved).type == "cpu":
        _fit_threads()
    return resolved


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_beside(load: float, usable: int, cores: int) -> int:
    """The threads for the free cores of a machine, at least one and at most as many as this process may use."""
    return min(usable, max(1, cores - round(load)))


@cache
def _fit_threads() -> None:
    import torch

    if environment_variable(THREADS):
        return
    usable, load = usable_cores(), _load_of_others()
    cores = os.cpu_count() or usable
    threads = min(torch.get_num_threads(), threads_beside(load, usable, cores))
    if threads < torch.get_num_threads():
        torch.set_num_threads(threads)
        LOG.warning(
            f"other work on this machine is a load of {load:.1f} on {counted(cores, 'core')}, of which this process "
            f"may use {usable}: torch takes {counted(threads, 'thread')}; {THREADS} sets another number"
        )


def _load_of_others() -> float:
    """The threads of other processes that have run or waited for a core, for a minute and now; 0 if it is not known.

    The minute alone would count what this process or the command before it did.
    """
    if not LOAD.is_file():
        return 0.0
    minute, running = 0.0, 0
    for _ in range(LOOKS):
        last_minute, _, _, now, *_ = LOAD.read_text().split()
        minute = float(last_minute)
        running += int(now.partition("/")[0]) - 1  # without this thread
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return min(minute, running / LOOKS)
