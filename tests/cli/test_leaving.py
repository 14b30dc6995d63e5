"""The end of a command: functions registered with `atexit` run, though the interpreter is not shut down."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit
from cpmi_dagster.cli import leaving
atexit.register(print, "closed")
leaving.leave(3)
"""


def test_leaving_runs_exit_functions_and_keeps_the_exit_code():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "closed\n"), done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_whose_streams_are_closed_runs(closed):
    command = f'"$0" -m cpmi_dagster --version {closed}'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
