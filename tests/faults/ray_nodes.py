"""Two nodes of a Ray cluster on this machine, one killed half-way and one added: every chunk is made, and made once.

    PYTHONPATH=.:tests python tests/faults/ray_nodes.py [FOLDER]

12 shards of 64 chunks, made by the stage machinery with its chunk store; a chunk sleeps and is made from its ids. Each
begins with a line in a log, so that the log shows what was made twice. Ends with an error where rows differ from those
made in this process, or where more chunks were made twice than were in flight on the killed node.
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl
import psutil
import ray_makers
from waiting import wait_until

from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources import ray_actors
from cpmi_dagster.resources.data_sources import DataSources
from cpmi_dagster.resources.database import Database
from cpmi_dagster.resources.lake import Lake
from cpmi_dagster.resources.language_models import LanguageModels
from cpmi_dagster.resources.progress import LoggedProgress
from cpmi_dagster.resources.stage_run import StageOutput, StageRun

SHARDS, CHUNKS, ACTORS_OF_A_NODE = 12, 64, 2
CHUNK_SECONDS = 0.1
LONGEST_SECONDS = 600
TABLE = "labels/step_rewards"
HEAD, PORT = "127.0.0.2", 6399
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[1:3])),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
}


class Node:
    """A Ray node in a process tree of its own."""

    def __init__(self, address: str, processors: int, *, head: bool = False) -> None:
        ray = Path(sys.executable).with_name("ray")
        role = ["--head", f"--port={PORT}", "--include-dashboard=false"] if head else [f"--address={HEAD}:{PORT}"]
        limits = [f"--num-cpus={processors}", f"--object-store-memory={100 * 2**20}"]
        command = [str(ray), "start", "--block", f"--node-ip-address={address}", *role, *limits]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if head:
            wait_until(lambda: _answers(HEAD, PORT), LONGEST_SECONDS, "Ray's head does not start")

    def kill(self) -> None:
        """`kill -9` of everything on the node at once."""
        everything = [*psutil.Process(self._process.pid).children(recursive=True), psutil.Process(self._process.pid)]
        for process in everything:
            process.kill()
        psutil.wait_procs(everything)


def settings_of(home: Path) -> Settings:
    settings = load_settings("miniature", home)
    ray = RayActors(address=f"{HEAD}:{PORT}", actors="max", num_gpus=0)
    return settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update={"ray": ray})})


def run_of(settings: Settings, models: LanguageModels, shard: str) -> StageRun:
    lake = Lake(settings.home)
    return StageRun(
        "step_rewards", [TABLE], settings, lake, models, DataSources(settings), Database(lake), LoggedProgress(), "r",
        lambda _: None, chunks=lake.chunks(TABLE, shard, "fingerprint"),
    )  # fmt: skip


def shard_made(settings: Settings, models: LanguageModels, log: str, shard: str) -> StageOutput:
    ids = pl.DataFrame({"trajectory_id": [f"{shard}-{number}" for number in range(CHUNKS)]})
    make = partial(ray_makers.reward, log=log, seconds=CHUNK_SECONDS if log else 0)
    return run_of(settings, models, shard).in_chunks(shard, ids, 1, make)


class Losses(logging.Handler):
    """Counts the chunks that went to another actor."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self.count += "goes to another actor" in record.getMessage()


def disturb(nodes: list[Node], log: Path) -> None:
    """Kill a node when half of the chunks are begun, and add one five seconds later."""
    half = SHARDS * CHUNKS / 2
    wait_until(lambda: len(log.read_text().split()) >= half, LONGEST_SECONDS, "half of the chunks are never begun")
    nodes.pop().kill()
    print(f"a node is killed after {len(log.read_text().split())} chunks were begun", flush=True)
    time.sleep(5)
    nodes.append(Node("127.0.0.5", ACTORS_OF_A_NODE))


def make_all(settings: Settings, log: Path) -> tuple[list[StageOutput], float]:
    """All shards, four at once, and the seconds from the first chunk on."""
    models, shards = LanguageModels(settings), [f"{number:03d}" for number in range(SHARDS)]
    shard_made(settings, models, "", "warm")
    began = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(partial(shard_made, settings, models, str(log)), shards))
    seconds = time.monotonic() - began
    models.release()
    return made, seconds


def main(folder: Path) -> None:
    """Make the chunks on the cluster, disturbed, and compare."""
    os.environ |= ENVIRONMENT
    log, losses = folder / "begun", Losses()
    log.touch()
    ray_actors.LOG.addHandler(losses)
    nodes = [Node(HEAD, 0, head=True)]
    nodes += [Node(f"127.0.0.{number}", ACTORS_OF_A_NODE) for number in (3, 4)]
    try:
        threading.Thread(target=disturb, args=(nodes, log), daemon=True).start()
        made, seconds = make_all(settings_of(folder / "home"), log)
    finally:
        for node in reversed(nodes):
            node.kill()
    alone = load_settings("miniature", folder / "alone")
    expected = [shard_made(alone, LanguageModels(alone), "", f"{number:03d}") for number in range(SHARDS)]
    times = Counter(log.read_text().split())
    twice = sum(count > 1 for count in times.values())
    least = SHARDS * CHUNKS * CHUNK_SECONDS / ACTORS_OF_A_NODE
    print(f"{len(times)} chunks of {CHUNK_SECONDS} s in {seconds:.1f} s; one node takes {least:.1f} s at least")
    print(f"{losses.count} chunks went to another actor, {twice} of them had been begun before")
    assert all(one.frame(TABLE).equals(other.frame(TABLE)) for one, other in zip(made, expected, strict=True))
    assert [one.cost for one in made] == [other.cost for other in expected]
    assert len(times) == SHARDS * CHUNKS
    assert twice <= losses.count <= ACTORS_OF_A_NODE and max(times.values()) <= 2


def _answers(host: str, port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place))
