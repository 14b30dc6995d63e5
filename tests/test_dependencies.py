"""What the code imports is declared, and what is declared is pinned to what the tests ran with."""

import ast
import re
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUN_IN_CI = {"dev", "lora", "postgres", "ray"}
"""Extras that this suite runs with; the others are installed on clusters and GPUs alone."""


def declared(extras: set[str]) -> set[str]:
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] for extra in extras)]
    return {canonicalize_name(Requirement(line).name) for lines in lists for line in lines}


def imported() -> set[str]:
    """Top-level names that the package imports, anywhere in a file."""
    names: set[str] = set()
    for path in (ROOT / "cpmi_dagster").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"cpmi_dagster"}


def test_every_package_that_is_imported_is_declared():
    known = packages_distributions()
    wanted = {name: {canonicalize_name(each) for each in known.get(name, [name])} for name in imported()}
    ours = declared(set(PROJECT["optional-dependencies"]))
    assert {"polars", "torch", "dagster"} <= set(wanted)
    assert not {name for name, distributions in wanted.items() if not distributions & ours}


def test_every_declared_package_is_pinned():
    pins = re.findall(r"(?m)^([\w.-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert not declared(RUN_IN_CI) - set(map(canonicalize_name, pins))


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("cpmi_dagster", ["score_trajectories", "label", "explode_steps", "judge", "plot_steps"]),
        ("cpmi_dagster", ["reward_function", "CpmiLabels"]),
        ("cpmi_dagster.answers", ["extract_answer", "is_equivalent"]),
        ("cpmi_dagster.math_shepherd", ["parse_row", "MalformedRow"]),
        ("cpmi_dagster.alignment", ["align_questions"]),
        ("cpmi_dagster.negatives", ["heuristic_negatives"]),
    ],
)
def test_names_that_users_import_stay_where_they_are(module, names):
    assert all(callable(getattr(import_module(module), name)) for name in names)
