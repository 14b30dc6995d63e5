"""A whole run of the DAG on a small part of the embedded world, made once and shared by the tests that look at it."""

import atexit
import json
import os
import resource
import shutil
import sys
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

# the models of the tests are tiny: threads that wait for each other would take most of the time
os.environ.setdefault("OMP_NUM_THREADS", "1")

from small_run import SMALL, run_all, write_profile
from store_server import BUCKET, other_variables, s3_server

from cpmi_dagster.profiles.settings import Settings, load_settings

# no time limit on examples: the first use of a library takes time, and machines are busy
hypothesis_settings.register_profile("cpmi", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("cpmi")

_exit_status = 0


def pytest_sessionfinish(exitstatus: int) -> None:
    """Remember how the tests went, for `_leave`."""
    global _exit_status
    _exit_status = exitstatus


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what waits for the finished home, which takes minutes to make; `make test-fast` leaves it out."""
    for item in items:
        if "finished_home" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.whole_run)


@atexit.register
def _leave() -> None:
    """Leave before the interpreter is taken down, as `cpmi` does: extension modules then print pages about themselves.

    Registered first, so called last.
    """
    sys.stdout.flush()
    os._exit(_exit_status)


@pytest.fixture(scope="session")
def small_profile(tmp_path_factory) -> str:
    """A profile that runs the whole DAG in about a minute."""
    return write_profile(tmp_path_factory.mktemp("profile") / "small.yaml", SMALL)


@pytest.fixture(scope="session")
def finished_home(small_profile, tmp_path_factory, worker_id) -> Path:
    """A home in which every asset of the small profile was made, once for all workers; tests must not change it."""
    base = tmp_path_factory.getbasetemp()
    home = (base if worker_id == "master" else base.parent) / "finished"
    with FileLock(f"{home}.lock"):
        if not home.exists():
            outcome = run_all(load_settings(small_profile, home))
            assert not outcome.failures, outcome.failures
    return home


@pytest.fixture
def finished(finished_home, small_profile) -> Settings:
    """The settings of the finished home."""
    return load_settings(small_profile, finished_home)


@pytest.fixture
def own_copy(finished_home, small_profile, tmp_path) -> Settings:
    """A copy of the finished home to delete from and run again in.

    Without the files in which SQLite keeps what it is reading: tests beside this one open and close the history.
    """
    shutil.copytree(finished_home, tmp_path / "home", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    return load_settings(small_profile, tmp_path / "home")


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """Within the block no file of this process grows beyond so many bytes, as on a disk without room."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


@pytest.fixture
def flip() -> Callable[[Path, int], None]:
    """Turns one bit of a file over, in the byte at that place."""

    def flipped(path: Path, place: int) -> None:
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)

    return flipped


@pytest.fixture(scope="session")
def s3_variables() -> Iterator[dict[str, str]]:
    """The variables by which an S3-compatible server on this machine is reached."""
    pytest.importorskip("obstore", reason="the extra `store` is not installed")
    pytest.importorskip("moto.server", reason="moto[s3,server] is not installed")
    with s3_server() as variables:
        yield variables


@pytest.fixture(scope="session")
def put_on_store(finished_home) -> Callable[[str, Collection[str]], None]:
    """Commits the tables of the finished home, but for those of some groups, to the home at an address."""
    from cpmi_dagster.resources.lake.homes import open_home

    def put(address: str, without: Collection[str]) -> None:
        store = open_home(address)
        for path in (finished_home / "lake").rglob("*.parquet"):
            name = path.relative_to(finished_home).as_posix()
            if name.split("/")[1] not in without:
                store.create(name, path.read_bytes())
        for path in (finished_home / "lake" / ".current").iterdir():
            listed = [place for place in json.loads(path.read_text()) if place[0].split("/")[0] not in without]
            store.write(path.relative_to(finished_home).as_posix(), json.dumps(listed).encode())

    return put


@pytest.fixture
def s3_home(s3_variables, monkeypatch, tmp_path) -> str:
    """The address of an empty home on that server; its copies lie in a folder of the test."""
    for name in other_variables():
        monkeypatch.delenv(name)
    for name, value in {**s3_variables, "CPMI_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/home"
