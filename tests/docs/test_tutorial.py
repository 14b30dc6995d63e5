"""`docs/tutorial.md` works as it says, command after command."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
COMMAND = re.compile(r"^cpmi (.+)$", re.MULTILINE)
SOLUTIONS = 6
"""Of the 32 of the page: the first one's labels do not depend on the others."""
PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def cpmi(folder: Path, *arguments: str) -> str:
    """What a command prints; it must end well."""
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    command = [sys.executable, "-m", "cpmi_dagster", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_tutorial_leads_from_a_file_to_judged_solutions(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    rows = (ROOT / "docs" / "examples" / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()
    assert rows[0] in text and len(rows) == 32
    (tmp_path / "trajectories.jsonl").write_text("\n".join(rows[:SOLUTIONS]), encoding="utf-8")
    commands = [shlex.split(line) for line in COMMAND.findall(text)]
    assert [arguments[0] for arguments in commands] == ["init", "run", "query", "trace", "judge"]
    printed = {
        name: cpmi(tmp_path, name, *options, *(["--format", "csv"] if name == "query" else []))
        for name, *options in commands
    }
    assert "labels made" in printed["run"] and "story-1 2" in printed["run"]
    # rewards differ no more than sampling and rounding of another machine make them
    labels, shown = pl.read_csv(printed["query"].encode()), pl.read_csv(PRINTED.findall(text)[0].encode())
    assert labels["step"].to_list() == shown["step"].to_list()
    assert labels["reward"].to_list() == pytest.approx(shown["reward"].to_list(), abs=0.3)
    assert labels["reward"].arg_min() == shown["reward"].arg_min() == labels.height - 1
    assert len((tmp_path / "judged.jsonl").read_text(encoding="utf-8").splitlines()) == SOLUTIONS
    assert (tmp_path / ".cpmi/mine/report/index.html").is_file()
