"""A whole run of the DAG on a small part of the embedded world, made once and shared by the tests that look at it."""

import atexit
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

# the models of the tests are tiny: threads that wait for each other would take most of the time
os.environ.setdefault("OMP_NUM_THREADS", "1")

from small_run import SMALL, run_all, write_profile

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
    """Leave before the interpreter is taken down, as `cpmi` does; registered first, so called last."""
    sys.stdout.flush()
    os._exit(_exit_status)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory, worker_id) -> Path:
    """A folder that all workers share."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def small_profile(shared_folder) -> str:
    """A profile that runs the whole DAG in about a minute; one file, as a home is of one."""
    file = shared_folder / "small.yaml"
    with FileLock(f"{file}.lock"):
        return str(file) if file.exists() else write_profile(file, SMALL)


@pytest.fixture(scope="session")
def finished_home(small_profile, shared_folder) -> Path:
    """A home in which every asset of the small profile was made, once for all workers; tests must not change it."""
    home = shared_folder / "finished"
    with FileLock(f"{home}.lock"):
        if not home.exists():
            with pytest.MonkeyPatch.context() as patch:
                # `cpmi.duckdb` is published when the run ends: nobody reads it meanwhile
                patch.setattr("cpmi_dagster.resources.dag.making.publish", lambda *_: None)
                outcome = run_all(load_settings(small_profile, home))
            assert not outcome.failures, outcome.failures
    return home


@pytest.fixture
def finished(finished_home, small_profile) -> Settings:
    """The settings of the finished home."""
    return load_settings(small_profile, finished_home)


@pytest.fixture
def own_copy(finished_home, small_profile, tmp_path) -> Settings:
    """A copy of the finished home to delete from and run again in, without SQLite's files of other readers."""
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
