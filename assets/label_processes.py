"""Label shards in several processes at once, each with its own models and GPU."""

import atexit
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from multiprocessing import active_children, get_context
from queue import Queue
from threading import Thread
from typing import Any

import dagster as dg
import numpy as np

from assets.automation import LABEL
from assets.runs import INTERRUPTED, Outcome, run_phase
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.profiles.settings import Settings
from resources.dagster_home import open_instance
from resources.progress import Progress, RelayedProgress, relay

Builder = Callable[[Settings, Progress, frozenset[str]], dg.Definitions]
"""The code location of a profile that reports its progress; the tables named are remade even where nothing changed."""

ENDED = "ended without an error message (killed, or out of memory); run again to continue where it stopped"


def label_on_gpus(
    build: Builder,
    settings: Settings,
    shards: Sequence[str],
    remake: frozenset[str],
    progress: Progress,
    selection: Sequence[str],
) -> Outcome:
    """Label with a process for each of the profile's GPUs.

    Args:
        remake: tables to make again even where nothing changed.
        selection: tables of the labeling phase.
    """
    with get_context("spawn").Manager() as manager:
        messages = manager.Queue()
        listener = Thread(target=relay, args=(messages, progress), daemon=True)
        listener.start()
        try:
            work = partial(label_here, build, settings, selection, remake, messages)
            return label_in_processes(work, shards, settings.orchestration.gpus)
        finally:
            messages.put(None)
            listener.join()


def label_here(
    build: Builder,
    settings: Settings,
    selection: Sequence[str],
    remake: frozenset[str],
    messages: "Queue[Any]",
    worker: str,
    shards: Sequence[str],
) -> Outcome:
    """Label some shards in this process, called `worker`; arguments as above, and where progress is sent to."""
    import torch

    # divide the threads: more threads than cores wait for each other
    torch.set_num_threads(max(1, torch.get_num_threads() // settings.orchestration.gpus))
    definitions = build(settings, RelayedProgress(messages, worker), remake)
    with open_instance(settings) as instance:
        return run_phase(definitions, settings, instance, LABEL, shards, selection)


def label_in_processes(work: Callable[[str, Sequence[str]], Outcome], shards: Sequence[str], processes: int) -> Outcome:
    """Label shards in several processes at once, each with its own models and GPU.

    Args:
        work: labels shards in the process it is called in; called with that process's name and its shards.
        shards: assigned to the processes in contiguous ranges.
        processes: at most so many.
    """
    parts = [part.tolist() for part in np.array_split(np.array(shards), min(processes, len(shards))) if len(part)]
    outcome = Outcome()
    with ExitStack() as stack:
        # one pool per process: when a process of a pool dies, the pool ends the others
        pools = [stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"), _leave_at_once)) for _ in parts]
        futures = {
            pool.submit(work, f"worker {number}", part): part
            for number, (pool, part) in enumerate(zip(pools, parts, strict=True), 1)
        }
        for future, part in futures.items():
            outcome.add(_outcome_of(future, part))
    return outcome


def _leave_at_once() -> None:
    """End this process without interpreter shutdown, in which extension modules print warnings."""
    atexit.register(os._exit, 0)


def _outcome_of(future: "Future[Outcome]", part: Sequence[str]) -> Outcome:
    shards = f"shards {', '.join(part)}"
    try:
        return future.result()
    except KeyboardInterrupt:
        for process in active_children():
            if not process.name.startswith("SyncManager"):
                process.terminate()
        return Outcome(failures=[INTERRUPTED])
    except BrokenProcessPool:
        return Outcome(failures=[f"the process that labelled {shards} {ENDED}"])
    except CpmiError as error:
        return Outcome(failures=[f"{shards}: {error}"])
