"""The process of a command: what it loads, and how it ends."""

import subprocess
import sys

HELP = """
import sys
from cpmi_dagster.cli import app
app(["--help"], standalone_mode=False)
print("loaded:", *sorted({"dagster", "dataframely", "polars", "torch", "transformers"} & set(sys.modules)))
"""
LEAVING = """
import atexit
from cpmi_dagster.cli import leaving
atexit.register(print, "closed")
leaving.leave(3)
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_help_loads_no_data_or_model_library():
    done = python(HELP)
    assert done.stdout.splitlines()[-1].strip() == "loaded:", done.stdout + done.stderr


def test_leaving_runs_exit_functions_and_keeps_the_exit_code():
    done = python(LEAVING)
    assert (done.returncode, done.stdout) == (3, "closed\n"), done.stderr


def test_a_command_whose_streams_are_closed_runs():
    command = '"$0" -m cpmi_dagster --version <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", command, sys.executable]).returncode == 0
