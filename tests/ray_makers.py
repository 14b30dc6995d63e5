"""What actors of tests do with a chunk; in a module of its own, so that an actor can import it."""

import os
import signal
import time
from pathlib import Path

import polars as pl
from waiting import wait_until

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import ScoringError
from cpmi_dagster.resources.workers.chunks import Advance, ChunkRun, StageOutput

LONGEST_SECONDS = 600


def reward(own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, log: str = "", seconds: float = 0) -> StageOutput:
    """A reward for each trajectory; a line of the log says that the chunk was begun."""
    ids = chunk["trajectory_id"].to_list()
    if log:
        with Path(log).open("a", encoding="utf-8") as lines:
            lines.write(f"{ids[0]}\n")
    time.sleep(seconds)
    rewards = [int.from_bytes(name.encode()) % 1000 / 1000 for name in ids]
    rows = {"trajectory_id": ids, "step_index": 0, "reward_type": "mc", "reward": rewards}
    advance(len(ids))
    return StageOutput(pl.DataFrame(rows), f"process {os.getpid()}", Cost(1.0, len(ids), 0))


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


def meet(own: ChunkRun, chunk: pl.DataFrame, advance: Advance, *, folder: str, processes: int = 2) -> StageOutput:
    """A reward for each trajectory, once so many processes have begun chunks."""
    (Path(folder) / str(os.getpid())).touch()
    wait_until(lambda: len(list(Path(folder).iterdir())) >= processes, LONGEST_SECONDS, "others begin no chunk")
    return reward(own, chunk, advance)
