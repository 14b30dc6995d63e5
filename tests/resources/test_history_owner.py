"""A Dagster history is of one home."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

from cpmi_dagster.definitions import build_definitions
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.dagster_home import dagster_folder, open_instance
from cpmi_dagster.resources.dag.history_owner import ID_FILE, KEY, claim_history, is_of_another_home


@pytest.fixture
def one_history(tmp_path, monkeypatch):
    """Homes on stores whose Dagster history is in one folder."""
    monkeypatch.setenv("CPMI_CACHE", str(tmp_path / "copies"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))


def test_a_second_home_is_refused_the_history_of_the_first(one_history):
    first, second = (load_settings("miniature", f"s3://bucket/{name}") for name in ("first", "second"))
    for _ in range(2):
        with open_instance(first):
            pass
    with pytest.raises(SettingsError, match="s3://bucket/first; give s3://bucket/second"):
        open_instance(second)


def test_a_home_that_was_moved_keeps_its_history_and_a_copy_is_refused_a_shared_one(tmp_path, monkeypatch):
    settings = load_settings("miniature", tmp_path / "home")
    with open_instance(settings) as instance:
        shutil.copytree(settings.home, tmp_path / "moved")
        moved = load_settings("miniature", tmp_path / "moved")
        claim_history(instance, settings, dagster_folder(settings))
        monkeypatch.setenv("CPMI_ORCHESTRATION__POSTGRES__HOST", "127.0.0.1")
        monkeypatch.setenv("CPMI_ORCHESTRATION__POSTGRES__PORT", "9")
        with pytest.raises(SettingsError, match="belongs to the home"):
            claim_history(instance, load_settings("miniature", moved.home), dagster_folder(moved))
        shutil.rmtree(moved.home)
        settings.home.rename(moved.home)
        monkeypatch.undo()
        with open_instance(moved) as instance:
            assert not is_of_another_home(instance, dagster_folder(moved))
            assert str(moved.home) in instance.daemon_cursor_storage.get_cursor_values({KEY})[KEY]


def test_homes_of_two_machines_at_the_same_path_are_two_homes(tmp_path):
    settings = load_settings("miniature", tmp_path / "home")
    folder = dagster_folder(settings)
    with open_instance(settings) as instance:
        (folder / ID_FILE).unlink()
        with pytest.raises(SettingsError, match="belongs to the home"):
            claim_history(instance, settings, folder)
        assert is_of_another_home(instance, folder)
        assert not is_of_another_home(instance, tmp_path / "not a home")


@pytest.fixture
def taken(tmp_path):
    """A home whose history was taken by another."""
    settings = load_settings("miniature", tmp_path / "home")
    with open_instance(settings) as instance:
        instance.daemon_cursor_storage.set_cursor_values({KEY: json.dumps({"home": "/data", "id": "another"})})
        yield settings, instance


def test_a_run_of_the_ui_on_a_history_of_another_home_fails_before_its_first_step(taken):
    settings, instance = taken
    job = build_definitions(settings).resolve_job_def("build_reports")
    run = instance.create_run_for_job(job)
    # as the process of a launched run does
    execute_run(InMemoryJob(job), run, instance)
    logs = instance.all_logs(run.run_id)
    assert any("belongs to the home /data" in str(entry.dagster_event) for entry in logs if entry.is_dagster_event)
    assert not any(entry.dagster_event.is_step_event for entry in logs if entry.is_dagster_event)
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE


def test_a_tick_and_a_look_at_runs_leave_a_history_of_another_home_alone(taken):
    settings, instance = taken
    definitions = build_definitions(settings)
    schedule = next(iter(definitions.schedules))
    with (
        dg.build_schedule_context(instance, resources=definitions.resources) as context,
        pytest.raises(dg.DagsterError) as found,
    ):
        schedule.evaluate_tick(context)
    assert "belongs to the home /data" in str(found.value.__cause__)
    run = instance.create_run_for_job(noop, status=dg.DagsterRunStatus.STARTED)
    assert instance.run_launcher.check_run_worker_health(run).status.name == "RUNNING"


@dg.job
def noop():
    """No step."""


def test_processes_that_begin_at_once_give_a_home_one_id_also_after_one_was_killed(tmp_path):
    settings = load_settings("miniature", tmp_path / "home")
    folder = dagster_folder(settings)
    folder.mkdir(parents=True)
    (folder / ID_FILE).touch()

    def noted(_: int) -> str:
        with dg.DagsterInstance.ephemeral() as instance:
            claim_history(instance, settings, folder)
            return json.loads(instance.daemon_cursor_storage.get_cursor_values({KEY})[KEY])["id"]

    with ThreadPoolExecutor(8) as threads:
        (only,) = set(threads.map(noted, range(8)))
    assert only == (folder / ID_FILE).read_text(encoding="utf-8") != ""
