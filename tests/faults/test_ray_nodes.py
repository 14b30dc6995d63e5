"""Two nodes of a Ray cluster on this machine, one killed half-way and one added: every chunk is made, and made once.

12 shards of 64 chunks, made by the stage machinery with its chunk store; a chunk sleeps and is made from its ids. Each
begins with a line in a log, so that the log shows what was made twice.
"""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import psutil
import pytest
import ray_makers

from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import Settings, load_settings
from resources.data_sources import DataSources
from resources.database import Database
from resources.lake import Lake
from resources.language_models import LanguageModels
from resources.progress import LoggedProgress
from resources.stage_run import StageOutput, StageRun

if find_spec("ray") is None:
    pytest.skip("the extra `ray` is not installed", allow_module_level=True)
pytestmark = pytest.mark.slow
SHARDS, CHUNKS, ACTORS_OF_A_NODE = 12, 64, 2
CHUNK_SECONDS = 0.05
TABLE = "labels/step_rewards"
HEAD, PORT = "127.0.0.2", 6399


class Node:
    """A Ray node in a process tree of its own."""

    def __init__(self, address: str, processors: int, *, head: bool = False) -> None:
        ray = Path(sys.executable).with_name("ray")
        role = ["--head", f"--port={PORT}", "--include-dashboard=false"] if head else [f"--address={HEAD}:{PORT}"]
        limits = [f"--num-cpus={processors}", f"--object-store-memory={100 * 2**20}"]
        command = [str(ray), "start", "--block", f"--node-ip-address={address}", *role, *limits]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """`kill -9` of everything on the node at once."""
        everything = [*psutil.Process(self._process.pid).children(recursive=True), psutil.Process(self._process.pid)]
        for process in everything:
            process.kill()
        psutil.wait_procs(everything)


@pytest.fixture
def cluster(monkeypatch) -> Iterator[list[Node]]:
    """A head without room for actors and two nodes; killed at the end, with what a test adds."""
    roots = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(roots))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    nodes = [Node(HEAD, 0, head=True)]
    time.sleep(5)
    nodes += [Node(f"127.0.0.{number}", ACTORS_OF_A_NODE) for number in (3, 4)]
    yield nodes
    for node in reversed(nodes):
        node.kill()


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


def test_a_node_that_is_killed_and_one_that_is_added_change_no_row(cluster, tmp_path, caplog):
    log, shards = tmp_path / "begun", [f"{number:03d}" for number in range(SHARDS)]
    log.touch()
    settings, alone = settings_of(tmp_path / "home"), load_settings("miniature", tmp_path / "alone")
    models = LanguageModels(settings)

    def disturb() -> None:
        while len(log.read_text().split()) < SHARDS * CHUNKS / 2:
            time.sleep(0.1)
        cluster.pop().kill()
        time.sleep(5)
        cluster.append(Node("127.0.0.5", ACTORS_OF_A_NODE))

    disturber = threading.Thread(target=disturb)
    disturber.start()
    began = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(partial(shard_made, settings, models, str(log)), shards))
    seconds = time.monotonic() - began
    disturber.join()
    models.release()
    print(f"{SHARDS * CHUNKS} chunks of {CHUNK_SECONDS} s in {seconds:.1f} s")
    expected = [shard_made(alone, LanguageModels(alone), "", shard) for shard in shards]
    for one, other in zip(made, expected, strict=True):
        assert one.frame(TABLE).equals(other.frame(TABLE))
        assert one.cost == other.cost
    times = Counter(log.read_text().split())
    twice = [name for name, count in times.items() if count > 1]
    lost = sum("goes to another actor" in line for line in caplog.messages)
    assert len(times) == SHARDS * CHUNKS
    assert len(twice) <= lost <= ACTORS_OF_A_NODE and max(times.values()) <= 2
