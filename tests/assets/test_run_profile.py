"""`cpmi run` ends with what is true of the run."""

import io
import sqlite3

import pytest
import sqlalchemy.exc
from rich.console import Console

from cpmi_dagster.definitions import dry_run, narrow_pilot, run_with_progress
from cpmi_dagster.errors import SettingsError, SourceError
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


def test_the_hub_is_asked_before_a_run_begins_and_only_for_what_is_wanted(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(Runner, "run", lambda *_: begun.append("run") or Outcome())
    monkeypatch.setattr("cpmi_dagster.resources.sources.hub._resolve", refuse_to_resolve)
    settings, console = load_settings("paper", tmp_path), Console(file=io.StringIO())
    with pytest.raises(SourceError, match="cannot be read from the hub"):
        run_with_progress(settings, settings.shard_keys, ["labels"], False, console, True)
    assert not begun
    run_with_progress(settings, settings.shard_keys, ["alignment"], False, console, True)
    assert begun


def refuse_to_resolve(kind, name):
    raise SourceError(f"the {kind} `{name}` cannot be read from the hub")


def test_a_dry_run_says_what_would_be_made_and_why_and_makes_nothing(finished):
    shards = finished.shard_keys
    assert dry_run(finished, shards, [], False, []).to_make.is_empty()
    files = {path: path.stat().st_mtime for path in finished.home.rglob("*.parquet")}
    rewards = finished.rewards.model_copy(update={"alpha": 0.3})
    found = dry_run(finished.model_copy(update={"rewards": rewards}), shards, ["labels"], False, [])
    assert found.trajectories == 16
    by_table = {table: (partitions, why) for table, partitions, _, _, why in found.to_make.iter_rows()}
    assert list(by_table) == ["labels/step_rewards"]
    partitions, why = by_table["labels/step_rewards"]
    assert partitions == len(shards) and "rewards.alpha: 1.0, the profile has 0.3" in why
    assert files == {path: path.stat().st_mtime for path in finished.home.rglob("*.parquet")}


def test_a_pilot_looks_at_one_shard_of_many_if_that_has_rows_enough(finished):
    assert narrow_pilot(finished.limited(5)).shard_keys == finished.shard_keys[:1]
    whole = finished.model_copy(update={"selection": finished.selection.model_copy(update={"trajectories": None})})
    assert narrow_pilot(whole.limited(400)).shard_keys == narrow_pilot(finished).shard_keys == finished.shard_keys
