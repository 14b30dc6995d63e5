"""Every example of `docs/extending.md` is inserted into a copy of the method, and does what the page says."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from extending_page import PAGE, ROOT, Example, Insertion, examples

CHECKS = Path(__file__).with_name("extended_method.py")
WEIGHTS = "cpmi_dagster/miniature/weights"
ROOMS = ("cpmi_dagster", "assets", "resources")
TESTED_ROOMS = ("rewards", "benchmarks", "contracts", "profiles")
EXAMPLES = {
    "A reward type": ("reward_type", 1),
    "A question set": ("question_set", 2),
    "A conditioning": ("conditioning", 2),
    "A step benchmark": ("step_benchmark", 4),
}
"""By heading: the check of the example, and how many files it may touch."""

pytestmark = pytest.mark.slow


@pytest.fixture
def copy(tmp_path) -> Path:
    """The method, resources and assets, to insert code into."""
    for room in ROOMS:
        left_out = shutil.ignore_patterns("weights", "__pycache__")
        shutil.copytree(ROOT / room, tmp_path / room, symlinks=True, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / WEIGHTS).symlink_to(ROOT / WEIGHTS)
    return tmp_path


def insert(example: Example, copy: Path) -> Path:
    """Insert an example's code, and save its profile and rows; gives the profile."""
    for insertion in example.insertions:
        insertion.into(copy)
    settings = yaml.safe_load(example.profile)
    for source in settings.get("sources", {}).get("benchmarks", {}).values():
        (copy / source["path"]).write_text(example.rows, encoding="utf-8")
    profile = copy / f"{settings['profile']}.yaml"
    profile.write_text(example.profile, encoding="utf-8")
    return profile


def changed_files(copy: Path) -> set[str]:
    """Files of the method that differ from those of this checkout."""
    files = [file.relative_to(copy) for room in ROOMS for file in (copy / room).rglob("*.py")]
    return {str(file) for file in files if (copy / file).read_bytes() != (ROOT / file).read_bytes()}


def python(copy: Path, *arguments: str) -> str:
    """What a Python process prints that imports the copy; it must end well."""
    environment = {"PYTHONPATH": str(copy), "CPMI_HOME": str(copy / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_has_the_four_examples_and_fits_in_200_lines():
    assert list(examples()) == list(EXAMPLES)
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_touches_the_files_that_it_names_and_no_more(heading, copy):
    example, (_, most) = examples()[heading], EXAMPLES[heading]
    insert(example, copy)
    assert changed_files(copy) == set(example.files)
    assert len(example.files) <= most
    python(copy, "-m", "ruff", "check", "--no-cache", *example.files)
    python(copy, "-m", "ruff", "format", "--no-cache", "--check", *example.files)


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_does_what_the_page_says(heading, copy):
    profile = insert(examples()[heading], copy)
    python(copy, str(CHECKS), EXAMPLES[heading][0], str(profile))


def test_the_command_scores_under_the_conditioning_of_the_page(copy):
    insert(examples()["A conditioning"], copy)
    row = {"id": "a", "question": "1 + 1?", "steps": ["1 + 1 = 2", "So 2."], "gold_answer": "2"}
    rows = [{**row, "negative_answers": ["3"]}, {**row, "id": "b", "steps": ["1 + 1 = 3"], "negative_answers": ["4"]}]
    (copy / "trajectories.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (command,) = (line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("cpmi score"))
    python(copy, "-m", "cpmi_dagster", *command.replace("onward", "incremental,onward").split()[1:])
    scores = pl.read_parquet(copy / "scores.parquet").sort("id", "template", "step_index")
    assert scores["conditioning"].value_counts(sort=True)["count"].to_list() == [3 * 4, 3 * 4]
    by_step = scores.pivot("conditioning", index=["id", "template", "step_index"], values="cpmi")
    rest = by_step.select(pl.col("incremental").cum_sum(reverse=True).over("id", "template"), "onward")
    assert (rest["incremental"] - rest["onward"]).abs().max() < 1e-5


def test_no_test_of_the_registries_has_to_change_for_the_examples(copy):
    for example in examples().values():
        insert(example, copy)
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    rooms = [f"tests/{room}" for room in TESTED_ROOMS]
    python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *rooms)


@pytest.mark.parametrize(("text", "times"), [("other\n", 0), ("line\nline\n", 2)])
def test_a_line_that_is_gone_or_not_unique_is_named(text, times):
    with pytest.raises(AssertionError, match=f"some.py has the line `line` {times} times, not once"):
        Insertion("some.py", "code\n", "line").inserted(text)


def test_code_without_a_place_is_found():
    with pytest.raises(AssertionError, match="says not where it stands"):
        examples("## Heading\n\nFiles: `a.py`\n\n```python\ncode\n```\n")
