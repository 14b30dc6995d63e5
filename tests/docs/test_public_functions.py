"""The examples in the docstrings of what users import from the package, and the notebook: they run as they stand."""

import doctest
import json
from pathlib import Path
from typing import Any

import pytest

import cpmi_dagster

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_labels.ipynb"
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
def test_the_notebook_runs_from_top_to_bottom_and_shows_its_pictures(monkeypatch):
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells, start=1):
        exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, code cell {number}", "exec"), namespace)
    shown = [kind for cell in cells for output in cell["outputs"] for kind in output.get("data", {})]
    assert shown.count("image/png") >= 2
