"""`cpmi run` ends with what is true of the run."""

import io
import sqlite3

import pytest
import sqlalchemy.exc
from rich.console import Console

from cpmi_dagster.definitions import run_with_progress
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.runs import Outcome, Runner


@pytest.mark.parametrize(
    ("outcome", "says_so"),
    [(Outcome(), True), (Outcome(failures=["a step failed"]), False), (Outcome(waiting=["a phase waits"]), False)],
)
def test_everything_is_up_to_date_only_where_nothing_failed_or_waits(tmp_path, monkeypatch, outcome, says_so):
    def skip_one(runner, *_):
        runner.home.progress.finish("alignment.trajectories", None, 1, 0.0, skipped=True)
        return outcome

    monkeypatch.setattr(Runner, "run", skip_one)
    settings, console = load_settings("miniature", tmp_path), Console(file=io.StringIO())
    run_with_progress(settings, ["000"], [], False, console, False)
    assert ("Everything is up to date" in console.file.getvalue()) == says_so


def test_a_disk_that_fills_up_while_dagster_notes_a_run_is_one_sentence(tmp_path, monkeypatch):
    def fill_up(*_):
        raise sqlalchemy.exc.OperationalError("insert", {}, sqlite3.OperationalError("database or disk is full"))

    monkeypatch.setattr(Runner, "run", fill_up)
    settings, console = load_settings("miniature", tmp_path), Console(file=io.StringIO())
    with pytest.raises(SettingsError, match=r"cannot be used \(database or disk is full\); make room on its disk"):
        run_with_progress(settings, ["000"], [], False, console, True)
