"""What actors of tests do with a chunk; in a module of its own, so that an actor can import it."""

import os
import signal
import time
from pathlib import Path

import polars as pl
from waiting import wait_until

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.resources.chunks import Advance, ChunkRun
from cpmi_dagster.resources.stage_run import StageOutput

LONGEST_SECONDS = 600


def reward(
    own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, log: str = "", seconds: float = 0, until: str = ""
) -> StageOutput:
    """A reward for each trajectory, once a file is there; a line of the log says that the chunk was begun."""
    ids = chunk["trajectory_id"].to_list()
    if log:
        with Path(log).open("a", encoding="utf-8") as lines:
            lines.write(f"{ids[0]}\n")
    time.sleep(seconds)
    if until:
        wait_until(Path(until).exists, LONGEST_SECONDS, f"nobody made {until}")
    rows = {"trajectory_id": ids, "step_index": 0, "reward_type": "mc", "reward": [hash_of(name) for name in ids]}
    advance(len(ids))
    return StageOutput(pl.DataFrame(rows), f"process {os.getpid()}", Cost(1.0, len(ids), 0))


def hash_of(name: str) -> float:
    """A number that depends on a name alone."""
    return int.from_bytes(name.encode()) % 1000 / 1000


def die_once(own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, flag: str) -> StageOutput:
    """The first process that makes a chunk is killed; later ones are not."""
    try:
        Path(flag).touch(exist_ok=False)
    except FileExistsError:
        return reward(own, chunk, advance)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def refuse(own: ChunkRun, chunk: pl.DataFrame, advance: Advance) -> StageOutput:
    """Fails as a user can understand it."""
    raise ScoringError(f"trajectory {chunk['trajectory_id'][0]} cannot be scored")


def break_down(own: ChunkRun, chunk: pl.DataFrame, advance: Advance) -> StageOutput:
    """Fails as a broken card does."""
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def meet(own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, folder: str) -> StageOutput:
    """A reward for each trajectory, once two processes have begun chunks."""
    (Path(folder) / str(os.getpid())).touch()
    wait_until(lambda: len(list(Path(folder).iterdir())) > 1, LONGEST_SECONDS, "no other process begins a chunk")
    return reward(own, chunk, advance)
