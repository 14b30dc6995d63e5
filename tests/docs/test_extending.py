"""Every example of `docs/extending.md` is inserted into a copy of the method, and does what the page says.

Code of the page stands under a line such as "In `FILE`, after the line `LINE`:", or "before the line", or "at the end".
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
WEIGHTS = "cpmi_dagster/miniature/weights"
EXAMPLES = {
    "A reward type": (
        1, 'print(*settings.demand.conditionings, REWARD_TYPES["cpmi_mean"].label)', "marginal incremental CPMI (mean)"
    ),
    "A question set": (2, 'print(*read("svamp")["answer"])', "12.0 7.0"),
    "A conditioning": (
        1, 'print(*settings.demand.conditionings, REWARD_TYPES["cpmi_onward"].label)', "marginal onward CPMI (onward)"
    ),
    "A step benchmark": (2, 'print(*read("prm800k")["first_error"])', "-1 1"),
    "A form of rows": (
        2, "print(*[(row.final_answer, row.gold_answer, len(row.steps)) for row in solutions()])", "('14', '14', 2)"
    ),
}  # fmt: skip
"""By heading: how many files the example may touch, and a program with what it prints."""
PROGRAM = """
import sys
from cpmi_dagster.benchmarks.registry import read_benchmark
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.trajectories.rows import read_row
settings = load_settings("profile.yaml")
read = lambda name: read_benchmark(name, DataSources(settings).rows(settings.sources.benchmarks[name]))
solutions = lambda: [read_row(row) for row, _ in DataSources(settings).stream(settings.sources.trajectories[0])]
"""
PLACE = re.compile(
    r"^In `(?P<file>[^`]+)`, (?:at the end|(?P<side>after|before) the line `(?P<line>[^`]+)`):\n\n"
    r"```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def copy(tmp_path) -> Path:
    """The package, to insert code into."""
    left_out = shutil.ignore_patterns("weights", "__pycache__")
    shutil.copytree(ROOT / "cpmi_dagster", tmp_path / "cpmi_dagster", ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / WEIGHTS).symlink_to(ROOT / WEIGHTS)
    return tmp_path


def sections() -> dict[str, str]:
    """By heading, every section of the page."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def insert(section: str, copy: Path) -> None:
    """Insert the code of a section into the files below a folder."""
    places = list(PLACE.finditer(section))
    assert len(places) == len(blocks(section, "python")), "some code of the page does not say where it stands"
    for place in places:
        file = copy / place["file"]
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        at = len(lines)
        if place["line"]:
            (number,) = [number for number, line in enumerate(lines) if line.rstrip("\n") == place["line"]]
            at = number + (place["side"] == "after")
        code = place["code"] if place["line"] else f"\n\n{place['code']}"
        file.write_text("".join([*lines[:at], code, *lines[at:]]), encoding="utf-8")


def python(copy: Path, *arguments: str) -> str:
    """What a Python process prints that imports the copy; it must end well."""
    environment = {"PYTHONPATH": str(copy), "CPMI_HOME": str(copy / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_touches_the_files_that_it_names_and_does_what_the_page_says(heading, copy):
    section, (most, check, printed) = sections()[heading], EXAMPLES[heading]
    insert(section, copy)
    files = [file.relative_to(copy) for file in (copy / "cpmi_dagster").rglob("*.py")]
    changed = {str(file) for file in files if (copy / file).read_bytes() != (ROOT / file).read_bytes()}
    (named,) = re.findall(r"^Files: (.+)$", section, re.MULTILINE)
    assert changed == set(re.findall(r"`([^`]+)`", named)) and len(changed) <= most
    python(copy, "-m", "ruff", "check", "--no-cache", *changed)
    python(copy, "-m", "ruff", "format", "--no-cache", "--check", *changed)
    (profile,) = blocks(section, "yaml")
    sources = yaml.safe_load(profile).get("sources", {})
    for source in [*sources.get("benchmarks", {}).values(), *filter(None, [sources.get("trajectories")])]:
        (copy / source["path"]).write_text("".join(blocks(section, "json")), encoding="utf-8")
    (copy / "profile.yaml").write_text(profile, encoding="utf-8")
    assert python(copy, "-c", PROGRAM + check) == printed
