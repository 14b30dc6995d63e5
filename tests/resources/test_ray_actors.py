"""Chunks made by actors of a real Ray on this machine: lost actors, errors, and the end of a pool."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
import ray_makers
from waiting import wait_until

from cpmi_dagster.errors import ActorError, ScoringError
from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources import ray_actors, ray_cluster
from cpmi_dagster.resources.chunks import ChunkJob, chunk_jobs
from cpmi_dagster.resources.language_models import STOPPED, LanguageModels
from cpmi_dagster.resources.ray_actors import ActorPool
from cpmi_dagster.resources.ray_cluster import connect

if find_spec("ray") is None:
    pytest.skip("the extra `ray` is not installed", allow_module_level=True)
pytestmark = pytest.mark.slow
TWO = RayActors(actors=2)
SECONDS = 600


@pytest.fixture(scope="module", autouse=True)
def ray_here() -> Iterator[None]:
    """One Ray for all tests of this file; its actors find the modules of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        roots = (Path(__file__).parents[1], Path(__file__).parents[2])
        patch.setenv("PYTHONPATH", os.pathsep.join([*map(str, roots), os.environ.get("PYTHONPATH", "")]))
        connect(TWO)
        # Ray decides on its address when it is imported
        import ray

        yield
        ray.shutdown()


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", tmp_path)


@pytest.fixture
def pool(settings) -> Iterator[ActorPool]:
    pool = ActorPool(TWO, settings)
    yield pool
    pool.close()


def jobs_of(make, count: int = 6, partition: str = "000") -> list[ChunkJob]:
    frame = pl.DataFrame({"trajectory_id": [f"{partition}-{number}" for number in range(count)]})
    return chunk_jobs("step_rewards", partition, frame, 1, make, {}, {})


def test_two_actors_share_the_chunks_and_load_everything_themselves(pool, tmp_path):
    (tmp_path / "met").mkdir()
    make = partial(ray_makers.meet, folder=str(tmp_path / "met"))
    made = {job.name: output for job, output in pool.make(jobs_of(make, 12))}
    processes = {output.model for output in made.values()}
    assert len(made) == 12 and len(processes) == 2
    assert f"process {os.getpid()}" not in processes


def test_the_chunk_of_a_killed_actor_goes_to_another(pool, tmp_path, caplog):
    make = partial(ray_makers.die_once, flag=str(tmp_path / "died"))
    made = [job.name for job, _ in pool.make(jobs_of(make))]
    assert len(made) == len(set(made)) == 6
    assert sum("goes to another actor" in line for line in caplog.messages) == 1


def test_an_error_of_ours_comes_back_as_it_is(pool):
    with pytest.raises(ScoringError, match="trajectory 000-0 cannot be scored"):
        list(pool.make(jobs_of(ray_makers.refuse, 1)))
    assert len(list(pool.make(jobs_of(ray_makers.reward)))) == 6


def test_a_chunk_that_no_actor_can_make_is_named(pool):
    match = r"chunk 00000 of step_rewards 000 cannot be made by 3 actors, at last: RuntimeError: CUDA error"
    with pytest.raises(ActorError, match=match):
        list(pool.make(jobs_of(ray_makers.break_down, 1)))


def test_chunks_of_earlier_shards_come_first(settings, tmp_path):
    log, go, one = tmp_path / "begun", tmp_path / "go", ActorPool(RayActors(actors=1), settings)
    make = partial(ray_makers.reward, log=str(log), until=str(go))
    with ThreadPoolExecutor(2) as threads:
        try:
            later = threads.submit(lambda: list(one.make(jobs_of(make, 12, "001"))))
            wait_until(log.exists, SECONDS, "no chunk is begun")
            earlier = threads.submit(lambda: list(one.make(jobs_of(make, 6, "000"))))
            wait_until(lambda: one._queue.qsize() == 11 + 6, SECONDS, "the chunks are not in the queue")
            go.touch()
            assert (len(earlier.result()), len(later.result())) == (6, 12)
        finally:
            one.close()
    begun = [line.partition("-")[0] for line in log.read_text().split()]
    assert begun == ["001"] + 6 * ["000"] + 11 * ["001"]


def test_an_actor_with_other_code_is_refused(settings, monkeypatch):
    monkeypatch.setattr(ray_actors, "code_hash", lambda: "other")
    pool = ActorPool(TWO, settings)
    try:
        with pytest.raises(ActorError, match="runs another version of this package"):
            list(pool.make(jobs_of(ray_makers.reward)))
    finally:
        pool.close()


def test_whoever_waits_for_a_chunk_is_answered_when_the_actors_are_stopped(settings, tmp_path):
    orchestration = settings.orchestration.model_copy(update={"ray": TWO})
    models = LanguageModels(settings.model_copy(update={"orchestration": orchestration}))
    actors = models.actors
    assert actors is not None
    log = tmp_path / "begun"
    endless = jobs_of(partial(ray_makers.reward, log=str(log), until=str(tmp_path / "never")))
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(lambda: list(actors.make(endless)))
        try:
            wait_until(log.exists, SECONDS, "no chunk is begun")
        finally:
            models.stop_actors()
        with pytest.raises(ActorError, match=STOPPED):
            waiting.result()
    with pytest.raises(ActorError, match=STOPPED):
        _ = models.actors


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ray_cluster, "find_spec", lambda _: None)
    with pytest.raises(ActorError, match=r"pip install cpmi-dagster\[ray\]"):
        connect(TWO)


def test_ray_here_listens_on_the_loopback_alone():
    import psutil

    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    listening = {
        one.laddr.ip for one in psutil.net_connections("inet") if one.pid in ours and one.status == psutil.CONN_LISTEN
    }
    assert listening and listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
