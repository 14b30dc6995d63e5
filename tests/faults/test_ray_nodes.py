"""Nodes of a Ray cluster that are killed and added change no row; see `ray_nodes.py`."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra `ray` is not installed")
def test_a_node_that_is_killed_and_one_that_is_added_change_no_row(tmp_path):
    script = Path(__file__).with_name("ray_nodes.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, script.parents[1:3]))}
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "768 chunks" in done.stdout
