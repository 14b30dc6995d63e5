"""Two nodes of a Ray cluster on this machine, one killed half-way and one added: every chunk is made, and made once.

    PYTHONPATH=.:tests python tests/faults/ray_nodes.py

12 shards of 64 chunks, made by the stage machinery with its chunk store; a chunk sleeps and is made from its ids. Each
begins with a line in a log, so that the log shows what was made twice. The nodes have a package of the same name that
cannot be imported. Ends with an error where rows differ from those made in this process, or where more chunks were made
twice than were in flight on the killed node.
"""

import logging
import os
import secrets
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
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers import ray_actors
from cpmi_dagster.resources.workers.chunks import ChunkMaker, StageOutput
from cpmi_dagster.resources.workers.language_models import LanguageModels
from cpmi_dagster.resources.workers.ray_actors import Actors

SHARDS, CHUNKS, ACTORS_OF_A_NODE = [f"{number:03d}" for number in range(12)], 64, 2
CHUNK_SECONDS = 0.1
LONGEST_SECONDS = 600
TABLE = "labels/step_rewards"
HEAD, PORT = "127.0.0.2", 6399
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def start_node(folder: Path, address: str, processors: int = ACTORS_OF_A_NODE) -> psutil.Process:
    """A Ray node in a process tree of its own; returns once it runs, which on a busy machine may fail at first."""
    role = [f"--address={HEAD}:{PORT}"]
    if address == HEAD:
        role = ["--head", f"--port={PORT}", "--include-dashboard=false"]
    limits = [f"--num-cpus={processors}", f"--object-store-memory={100 * 2**20}"]
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", f"--node-ip-address={address}"]
    log, deadline = folder / f"{address}.log", time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline:
        with log.open("w", encoding="utf-8") as said:
            process = psutil.Popen([*command, *role, *limits], stdout=said, stderr=subprocess.STDOUT)
        while process.poll() is None:
            if "Ray runtime started" in log.read_text(encoding="utf-8"):
                return process
            time.sleep(0.1)
    raise AssertionError(log.read_text(encoding="utf-8"))


def kill(node: psutil.Process) -> None:
    """`kill -9` of everything on a node at once."""
    everything = [*node.children(recursive=True), node]
    for process in everything:
        process.kill()
    psutil.wait_procs(everything)


def shard_made(settings: Settings, actors: Actors, make: ChunkMaker, shard: str) -> StageOutput:
    """The rows of a shard, made by a stage."""
    lake = Lake.of(settings)
    run = StageRun(
        "step_rewards", [TABLE], settings, lake, LanguageModels(settings), DataSources(settings), Database(lake),
        LoggedProgress(), "r", lambda _: None, chunks=lake.chunks(TABLE, shard, "fingerprint"), actors=actors,
    )  # fmt: skip
    ids = pl.DataFrame({"trajectory_id": [f"{shard}-{number}" for number in range(CHUNKS)]})
    return run.in_chunks(shard, ids, 1, make)


def disturb(nodes: list[psutil.Process], folder: Path, log: Path) -> None:
    """Kill a node when half of the chunks are begun, and add one five seconds later."""
    half = len(SHARDS) * CHUNKS / 2
    wait_until(lambda: len(log.read_text().split()) >= half, LONGEST_SECONDS, "half of the chunks are never begun")
    kill(nodes.pop())
    print(f"a node is killed after {len(log.read_text().split())} chunks were begun", flush=True)
    time.sleep(5)
    nodes.append(start_node(folder, "127.0.0.5"))


def make_all(settings: Settings, folder: Path, log: Path) -> tuple[list[StageOutput], float]:
    """All shards, four at once, and the seconds from when the actors of both nodes are at work."""
    actors, met = Actors(settings, LanguageModels(settings)), folder / "met"
    met.mkdir()
    shard_made(settings, actors, partial(ray_makers.meet, folder=str(met), processes=2 * ACTORS_OF_A_NODE), "met")
    make, began = partial(ray_makers.reward, log=str(log), seconds=CHUNK_SECONDS), time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(partial(shard_made, settings, actors, make), SHARDS))
    seconds = time.monotonic() - began
    actors.stop()
    return made, seconds


def main(folder: Path) -> None:
    """Make the chunks on the cluster, disturbed, and compare."""
    other = folder / "other" / "cpmi_dagster" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.write_text("raise ImportError('another version')", encoding="utf-8")
    os.environ |= {**ENVIRONMENT, "PYTHONPATH": f"{other.parents[1]}{os.pathsep}{Path(__file__).parents[1]}"}
    alone, log, warnings, handler = (
        load_settings("miniature", folder / "alone"),
        folder / "begun",
        [],
        logging.Handler(),
    )
    log.touch()
    handler.emit = warnings.append
    ray_actors.LOG.addHandler(handler)
    ray = RayActors(address=f"{HEAD}:{PORT}", actors="max", num_gpus=0)
    orchestration = alone.orchestration.model_copy(update={"ray": ray})
    nodes = [start_node(folder, HEAD, 0)]
    try:
        nodes += [start_node(folder, address) for address in ("127.0.0.3", "127.0.0.4")]
        threading.Thread(target=disturb, args=(nodes, folder, log), daemon=True).start()
        settings = alone.model_copy(update={"orchestration": orchestration, "home": folder / "home"})
        made, seconds = make_all(settings, folder, log)
    finally:
        for node in reversed(nodes):
            kill(node)
    actors = Actors(alone, LanguageModels(alone))
    expected = [shard_made(alone, actors, ray_makers.reward, shard) for shard in SHARDS]
    times = Counter(log.read_text().split())
    twice = sum(count > 1 for count in times.values())
    lost = sum("goes to another actor" in warning.getMessage() for warning in warnings)
    least = len(SHARDS) * CHUNKS * CHUNK_SECONDS / ACTORS_OF_A_NODE
    print(f"{len(times)} chunks of {CHUNK_SECONDS} s in {seconds:.1f} s; one node takes {least:.1f} s at least")
    print(f"{lost} chunks went to another actor, {twice} of them had been begun before")
    assert all(one.frame(TABLE).equals(other.frame(TABLE)) for one, other in zip(made, expected, strict=True))
    assert [one.cost for one in made] == [other.cost for other in expected]
    assert len(times) == len(SHARDS) * CHUNKS
    assert twice <= lost <= ACTORS_OF_A_NODE and max(times.values()) <= 2


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
