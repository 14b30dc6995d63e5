"""One small world for all tests of the miniature."""

from pathlib import Path

import pytest
from sample_problems import SMALL

from cpmi_dagster.miniature import write_world


@pytest.fixture(scope="session")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small world."""
    folder = tmp_path_factory.mktemp("world")
    write_world(folder, seed=3, size=SMALL)
    return folder
