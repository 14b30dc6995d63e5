"""What becomes of chunks and errors in a pool of actors, with objects of this process in the place of Ray's."""

import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
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
from cpmi_dagster.resources import ray_actors
from cpmi_dagster.resources.chunk_actor import ChunkActor, ChunkError, Introduction, code_hash
from cpmi_dagster.resources.chunks import ChunkJob, ChunkMaker, chunk_jobs
from cpmi_dagster.resources.ray_actors import ActorPool

SECONDS = 120


class RayError(Exception):
    """Ray's own, with the exception of a task that raised."""

    def __init__(self, cause: BaseException | None = None) -> None:
        super().__init__("the actor died")
        self.cause = cause


class Method:
    """A method of an actor, which may be lost, or wait for room."""

    def __init__(self, call: Callable[..., Any], lost: Callable[[], bool], waits: bool = False) -> None:
        self._call, self._lost, self._waits = call, lost, waits

    def remote(self, *args: Any) -> SimpleNamespace:
        future: Future[Any] = Future()
        if self._waits:
            return SimpleNamespace(future=lambda: future)
        try:
            if self._lost():
                raise RayError
            future.set_result(self._call(*args))
        except RayError as error:
            future.set_exception(error)
        except Exception as error:
            future.set_exception(RayError(error))
        return SimpleNamespace(future=lambda: future)


class Cluster:
    """A Ray with an actor on each node, which runs the code of its node.

    `needs` is what each actor was started with; `silent` how often the cluster fails to say what it has.
    """

    def __init__(self) -> None:
        self.code: dict[int, str] = {}
        self.gone: set[int] = set()
        self.needs: list[dict[str, Any]] = []
        self.refuses: Exception | None = None
        self.processors, self.nodes, self.silent = 2, 99, 0

    def resources(self) -> dict[str, float]:
        if self.silent:
            self.silent -= 1
            raise ConnectionError("the head does not answer")
        return {"CPU": self.processors}

    def options(self, **needs: Any) -> SimpleNamespace:
        if self.refuses:
            raise self.refuses
        self.needs.append(needs)
        return SimpleNamespace(remote=self._actor)

    def _actor(self, settings: Settings) -> SimpleNamespace:
        number, actor = len(self.needs) - 1, ChunkActor(settings)
        introduction = Introduction(f"node{number} (process 7)", self.code.get(number, code_hash()))

        def is_lost() -> bool:
            return number in self.gone

        waits = number >= self.nodes
        return SimpleNamespace(introduce=Method(lambda: introduction, is_lost, waits), make=Method(actor.make, is_lost))


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    cluster = Cluster()
    ray = SimpleNamespace(
        remote=lambda _: cluster, cluster_resources=cluster.resources, is_initialized=lambda: True, kill=lambda _: None
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", SimpleNamespace(RayError=RayError))
    monkeypatch.setattr(ray_actors, "connect", lambda _: False)
    monkeypatch.setattr(ray_actors, "LOOK_EVERY_SECONDS", 0.01)
    return cluster


@pytest.fixture
def settings(tmp_path) -> Settings:
    return load_settings("miniature", tmp_path)


@pytest.fixture
def pool(cluster, settings) -> Iterator[ActorPool]:
    pool = ActorPool(RayActors(actors=2), settings)
    yield pool
    pool.close()


def jobs_of(make: ChunkMaker, count: int = 1) -> list[ChunkJob]:
    frame = pl.DataFrame({"trajectory_id": [f"t{number}" for number in range(count)]})
    return chunk_jobs("step_rewards", "000", frame, 1, make, {}, {})


def outcome(pool: ActorPool, jobs: Sequence[ChunkJob]) -> list[str] | CpmiError:
    """The names of the chunks that were made, or what was raised; a test fails where neither comes."""
    found: SimpleQueue[list[str] | CpmiError] = SimpleQueue()

    def follow() -> None:
        try:
            found.put([job.name for job, _ in pool.make(jobs)])
        except CpmiError as error:
            found.put(error)

    threading.Thread(target=follow, daemon=True).start()
    return found.get(timeout=SECONDS)


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


def test_what_came_up_in_an_actor_survives_the_way_back_in_words(settings):
    (job,) = jobs_of(refused)
    with pytest.raises(ChunkError) as caught:
        ChunkActor(settings).make(job)
    received = pickle.loads(pickle.dumps(caught.value))
    assert (str(received), received.passes) == ("TwoArguments: status 422", False)


def test_what_may_pass_is_still_known_as_such_without_its_cause(settings):
    (job,) = jobs_of(no_route)
    with pytest.raises(PassingError, match=r"the model is not read \(at trajectory t0\)"):
        ChunkActor(settings).make(job)


def test_a_server_that_takes_no_connection_is_known_as_such_behind_an_actor(pool):
    assert isinstance(outcome(pool, jobs_of(unreachable)), ServerUnreachable)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [(refused, ActorError, "TwoArguments: status 422"), (out_of_memory, ActorsLost, "MemoryError: 12 GiB")],
)
def test_an_exception_in_a_task_ends_its_shard_and_names_the_chunk(pool, make, kind, words):
    error = outcome(pool, jobs_of(make))
    assert type(error) is kind
    assert str(error) == f"chunk 00000 of step_rewards 000 cannot be made by 3 actors, at last: {words}"
    assert outcome(pool, jobs_of(ray_makers.reward)) == ["00000-rows-1"]


def test_actors_that_cannot_be_started_end_the_run(cluster, settings):
    cluster.refuses = ValueError("num_gpus is no multiple of 0.0001")
    pool = ActorPool(RayActors(actors=2), settings)
    error = outcome(pool, jobs_of(ray_makers.reward))
    pool.close()
    assert isinstance(error, NoActors)
    assert str(error) == "actors cannot be started: num_gpus is no multiple of 0.0001"


def test_actors_that_cannot_be_started_for_now_are_tried_again_with_the_step(cluster, settings):
    cluster.refuses = ConnectionError("the head does not answer")
    pool = ActorPool(RayActors(actors=2), settings)
    error = outcome(pool, jobs_of(ray_makers.reward))
    pool.close()
    assert isinstance(error, ActorsUnavailable)
    assert str(error) == "actors end before they make a chunk: the head does not answer"


MAX_ELSEWHERE = RayActors(actors="max", address="ray://head:10001")
"""As many as the cluster has room for; it is asked once a look."""


def test_a_cluster_that_does_not_answer_for_a_moment_is_asked_again(cluster, settings, caplog):
    cluster.silent = ray_actors.MOST_FAILED_LOOKS - 1
    pool = ActorPool(MAX_ELSEWHERE, settings)
    assert outcome(pool, jobs_of(ray_makers.reward)) == ["00000-rows-1"]
    pool.close()
    warnings = [line for line in caplog.messages if "ConnectionError: the head does not answer" in line]
    assert len(warnings) == ray_actors.MOST_FAILED_LOOKS - 1


def test_a_cluster_that_stays_away_ends_the_attempt_with_what_came_up(cluster, settings):
    cluster.silent = 99
    pool = ActorPool(MAX_ELSEWHERE, settings)
    error = outcome(pool, jobs_of(ray_makers.reward))
    pool.close()
    assert isinstance(error, ActorsUnavailable) and isinstance(error.__cause__, ConnectionError)
    assert str(error) == "the actors cannot be kept up: the head does not answer"


def test_where_the_last_good_node_goes_and_other_code_is_left_the_run_ends(cluster, settings):
    cluster.code = {1: "other"}
    pool = ActorPool(MAX_ELSEWHERE, settings)
    assert outcome(pool, jobs_of(ray_makers.reward)) == ["00000-rows-1"]
    cluster.processors, cluster.gone = 1, {0}
    error = outcome(pool, jobs_of(ray_makers.reward))
    pool.close()
    assert isinstance(error, NoActors) and "runs another version of this package" in str(error)


def test_other_code_in_all_places_that_there_are_ends_the_run_after_a_while(cluster, settings, monkeypatch, caplog):
    monkeypatch.setattr(ray_actors, "WARN_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(ray_actors, "MOST_SECONDS_WITHOUT", 0.2)
    cluster.code, cluster.nodes = {0: "other", 1: "other"}, 2
    pool = ActorPool(RayActors(actors=4), settings)
    error = outcome(pool, jobs_of(ray_makers.reward))
    pool.close()
    assert isinstance(error, NoActors) and "runs another version of this package" in str(error)
    assert any("2 run other code, others have found no room yet" in line for line in caplog.messages)


def test_an_actor_with_other_code_is_left_out_with_its_node_named_and_the_others_go_on(cluster, settings, caplog):
    cluster.code = {0: "other"}
    pool = ActorPool(RayActors(actors=2), settings)
    assert outcome(pool, jobs_of(ray_makers.reward, 3)) == ["00000-rows-1", "00001-rows-1", "00002-rows-1"]
    pool.close()
    (warning,) = (line for line in caplog.messages if "left out" in line)
    assert warning.startswith("the actor on node0 (process 7) runs another version of this package")
    assert len(cluster.needs) == 2


def test_where_no_actor_is_left_the_run_says_what_to_do(cluster, settings):
    cluster.code = {0: "other", 1: "other"}
    pool = ActorPool(RayActors(actors=2), settings)
    error = outcome(pool, jobs_of(ray_makers.reward))
    pool.close()
    assert isinstance(error, NoActors)
    assert "runs another version of this package" in str(error) and "install the same on every node" in str(error)


def test_once_the_node_with_other_code_is_gone_another_actor_is_started(cluster, settings, monkeypatch):
    monkeypatch.setattr(ray_actors, "WARN_EVERY_SECONDS", 0.01)
    cluster.code = {0: "other"}
    pool = ActorPool(RayActors(actors=2), settings)
    assert outcome(pool, jobs_of(ray_makers.reward)) == ["00000-rows-1"]
    cluster.gone.add(0)
    wait_until(lambda: len(cluster.needs) == 3, SECONDS, "no other actor is started", every=0.01)
    pool.close()
    assert len(cluster.needs) == 3
