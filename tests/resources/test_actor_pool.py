"""What becomes of chunks and errors in a pool of actors, with a stand-in for Ray."""

import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import ray_makers
from waiting import wait_until

from cpmi_dagster.errors import (
    ActorError,
    ActorsLost,
    ActorsUnavailable,
    CpmiError,
    NoActors,
    PassingError,
    ScoringError,
    ServerUnreachable,
)
from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.workers import ray_actors
from cpmi_dagster.resources.workers.chunks import ChunkJob, ChunkMaker, chunk_jobs
from cpmi_dagster.resources.workers.language_models import LanguageModels
from cpmi_dagster.resources.workers.ray_actors import STOPPED, ActorPool, Actors, ChunkActor

SECONDS = 120
UNMAKABLE = "chunk 00000 of step_rewards 000 cannot be made by 3 actors, at last:"


class RayError(Exception):
    """Ray's own."""


class Cluster:
    """A Ray that calls an actor when its answer is got.

    `processors` is what it says that it has, `nodes` how many actors find room; those in `lost` do not answer,
    and `refuses` is what it raises instead of starting an actor.
    """

    def __init__(self) -> None:
        self.processors, self.nodes, self.started = 2, 99, 0
        self.lost: set[int] = set()
        self.refuses: Exception | None = None

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.processors}

    def remote(self, kind: type) -> "Cluster":
        return self

    def options(self, **needs: float) -> SimpleNamespace:
        if self.refuses:
            raise self.refuses
        return SimpleNamespace(remote=self._start)

    def _start(self, settings: Settings) -> SimpleNamespace:
        actor, number = ChunkActor(settings), self.started
        self.started += 1

        def method(call: Callable[..., Any]) -> SimpleNamespace:
            return SimpleNamespace(remote=lambda *args: (number, partial(call, *args)))

        return SimpleNamespace(ready=method(actor.ready), make=method(actor.make))

    def wait(self, references: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        time.sleep(0.001)
        return [reference for reference in references if reference[0] < self.nodes][:num_returns], []

    def get(self, reference: Any) -> Any:
        number, call = reference
        if number in self.lost:
            raise RayError("the actor died")
        return pickle.loads(pickle.dumps(call()))

    def kill(self, handle: Any) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setitem(sys.modules, "ray", cluster)
    monkeypatch.setitem(sys.modules, "ray.exceptions", SimpleNamespace(RayError=RayError))
    monkeypatch.setattr(ray_actors, "connect", lambda _: False)
    monkeypatch.setattr(ray_actors, "LOOK_EVERY_SECONDS", 0.01)
    return cluster


@pytest.fixture
def settings(tmp_path) -> Settings:
    return load_settings("miniature", tmp_path)


@pytest.fixture
def start(cluster, settings) -> Iterator[Callable[..., ActorPool]]:
    """`start(actors=2)`: a pool that ends with the test."""
    pools = []

    def started(**wanted: Any) -> ActorPool:
        pools.append(ActorPool(RayActors(**wanted), settings))
        return pools[-1]

    yield started
    for pool in pools:
        pool.close()


def jobs_of(make: ChunkMaker, count: int = 1, partition: str = "000") -> list[ChunkJob]:
    frame = pl.DataFrame({"trajectory_id": [f"t{number}" for number in range(count)]})
    return chunk_jobs("step_rewards", partition, frame, 1, make, {}, {})


def outcome(pool: ActorPool, jobs: Sequence[ChunkJob]) -> list[str] | CpmiError:
    """The names of the chunks that were made, or what was raised."""
    try:
        return [job.name for job, _ in pool.make(jobs)]
    except CpmiError as error:
        return error


class TwoArguments(Exception):
    """As exceptions of some libraries: it is pickled and never unpickled."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def refused(own, chunk, advance):
    raise TwoArguments("status 422", 422)


def out_of_memory(own, chunk, advance):
    raise MemoryError("12 GiB")


def unreachable(own, chunk, advance):
    raise ServerUnreachable("the server takes no connection")


def no_route(own, chunk, advance):
    raise ScoringError("the model is not read") from ConnectionError("no route")


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (ray_makers.refuse, ScoringError, "trajectory t0 cannot be scored"),
        (unreachable, ServerUnreachable, "the server takes no connection"),
        (no_route, PassingError, "the model is not read (at trajectory t0; on "),
        (refused, ActorError, f"{UNMAKABLE} TwoArguments: status 422"),
        (out_of_memory, ActorsLost, f"{UNMAKABLE} MemoryError: 12 GiB"),
    ],
)
def test_an_error_ends_its_shard_by_what_it_is_and_the_pool_makes_others(start, make, kind, words):
    pool = start(actors=2)
    error = outcome(pool, jobs_of(make, 2))
    assert type(error) is kind and str(error).startswith(words)
    assert outcome(pool, jobs_of(ray_makers.reward)) == ["00000-rows-1"]


def test_the_chunk_of_a_lost_actor_goes_to_another(cluster, start):
    pool = start(actors=1)
    assert outcome(pool, jobs_of(ray_makers.reward)) == ["00000-rows-1"]
    cluster.lost.add(0)
    assert outcome(pool, jobs_of(ray_makers.reward, 3)) == ["00001-rows-1", "00002-rows-1", "00000-rows-1"]
    assert cluster.started == 2


@pytest.mark.parametrize(
    ("refuses", "kind"), [(ValueError("num_gpus"), NoActors), (ConnectionError("no answer"), ActorsUnavailable)]
)
def test_actors_that_cannot_be_started_end_the_run_or_the_attempt(cluster, start, refuses, kind):
    cluster.refuses = refuses
    error = outcome(start(actors=2), jobs_of(ray_makers.reward))
    assert type(error) is kind and str(refuses) in str(error)


def test_actors_that_end_before_they_make_a_chunk_end_the_attempt(cluster, start):
    cluster.lost |= set(range(99))
    error = outcome(start(actors=2), jobs_of(ray_makers.reward))
    assert type(error) is ActorsUnavailable and "the actor died" in str(error)


def test_actors_follow_the_room_of_the_cluster(cluster, start):
    pool = start(address="ray://head:10001", num_gpus=0)
    assert len(outcome(pool, jobs_of(ray_makers.reward, 3))) == 3
    cluster.processors = 5
    wait_until(lambda: cluster.started == 5, SECONDS, "no actors are started on a new node", every=0.01)


def test_who_waits_for_room_is_warned(cluster, start, monkeypatch, caplog):
    monkeypatch.setattr(ray_actors, "WARN_EVERY_SECONDS", 0.05)
    cluster.nodes = 0
    start(actors=2)
    wait_until(lambda: "no actor has found room" in caplog.text, SECONDS, "nobody is warned", every=0.01)


def test_chunks_of_earlier_shards_come_first(cluster, start):
    cluster.nodes, order = 0, []
    pool = start(actors=1)

    def make(own, chunk, advance, *, shard):
        order.append(shard)
        return ray_makers.reward(own, chunk, advance)

    with ThreadPoolExecutor(2) as threads:
        for number, shard in enumerate(("001", "000"), 1):
            threads.submit(outcome, pool, jobs_of(partial(make, shard=shard), 6, shard))
            wait_until(lambda n=6 * number: pool._queue.qsize() == n, SECONDS, "they do not wait", every=0.01)
        cluster.nodes = 1
    assert order == 6 * ["000"] + 6 * ["001"]


def test_whoever_waits_for_a_chunk_is_answered_when_the_actors_are_stopped(cluster, settings):
    cluster.nodes = 0
    orchestration = settings.orchestration.model_copy(update={"ray": RayActors(actors=2)})
    settings = settings.model_copy(update={"orchestration": orchestration})
    actors = Actors(settings, LanguageModels(settings))
    pool = actors.pool()
    assert pool is not None
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(outcome, pool, jobs_of(ray_makers.reward))
        actors.stop()
        assert str(waiting.result()) == STOPPED
    with pytest.raises(NoActors, match=STOPPED):
        actors.pool()
