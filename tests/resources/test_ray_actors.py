"""Chunks made by actors of a real Ray on this machine."""

import os
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
import ray_makers

from cpmi_dagster.errors import ActorError, ScoringError
from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.workers import ray_cluster
from cpmi_dagster.resources.workers.chunks import ChunkJob, chunk_jobs
from cpmi_dagster.resources.workers.ray_actors import ActorPool
from cpmi_dagster.resources.workers.ray_cluster import connect

if find_spec("ray") is None:
    pytest.skip("the extra `ray` is not installed", allow_module_level=True)
pytestmark = pytest.mark.slow
TWO = RayActors(actors=2)


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Iterator[ActorPool]:
    """Two actors that find the modules of the tests, and another version of this package."""
    folder = tmp_path_factory.mktemp("other")
    other = folder / "cpmi_dagster" / "__init__.py"
    other.parent.mkdir()
    other.write_text("raise ImportError('another version')", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (folder, Path(__file__).parents[1]))))
        pool = ActorPool(TWO, load_settings("miniature", folder / "home"))
        yield pool
        pool.close()


def jobs_of(make, count: int = 6) -> list[ChunkJob]:
    frame = pl.DataFrame({"trajectory_id": [f"000-{number}" for number in range(count)]})
    return chunk_jobs("step_rewards", "000", frame, 1, make, {}, {})


def test_two_actors_share_the_chunks_and_run_the_code_of_this_process(pool, tmp_path):
    make = partial(ray_makers.meet, folder=str(tmp_path))
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


def test_ray_here_listens_on_the_loopback_alone(pool):
    import psutil

    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    listening = {
        one.laddr.ip for one in psutil.net_connections("inet") if one.pid in ours and one.status == psutil.CONN_LISTEN
    }
    assert listening and listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ray_cluster, "find_spec", lambda _: None)
    with pytest.raises(ActorError, match=r"pip install cpmi-dagster\[ray\]"):
        connect(TWO)
