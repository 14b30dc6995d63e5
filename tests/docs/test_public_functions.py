"""The examples in the docstrings of what users import from the package, and the notebook: they run as they stand."""

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cpmi_dagster

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


WITHOUT_EXAMPLE = {"CpmiLabels", "score_trajectories"}


@pytest.mark.parametrize("name", sorted(set(cpmi_dagster.__all__) - WITHOUT_EXAMPLE))
def test_the_example_of_a_public_function_runs(name, finished_home, tmp_path, monkeypatch):
    (tmp_path / ".cpmi").mkdir()
    (tmp_path / ".cpmi" / "miniature").symlink_to(finished_home)
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(cpmi_dagster, name), name)
    done = doctest.DocTestRunner().run(example)
    assert done.attempted and not done.failed


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_gives_what_it_shows(notebook, tmp_path):
    output = tmp_path / notebook.name
    command = [sys.executable, str(ROOT / "scripts" / "run_notebook.py"), str(notebook), "--output", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert shown(output) == shown(notebook)
    assert sum("image/png" in kinds for kinds in shown(notebook)) >= 2


def shown(path: Path) -> list[list[str]]:
    """By code cell, the kinds of what it shows; numbers differ in their last digits from machine to machine."""
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        [kind for output in cell["outputs"] for kind in output.get("data", {"stream": None})]
        for cell in cells
        if cell["cell_type"] == "code"
    ]
