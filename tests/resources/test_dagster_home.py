"""Dagster's own folder: its configuration, what is wrong with it, and the server's port."""

import ast
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy.exc
import yaml

from cpmi_dagster.definitions import MAKERS
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files import whole_files
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.dagster_home import (
    dagster_folder,
    open_instance,
    unusable_storage,
    write_dagster_yaml,
)
from cpmi_dagster.resources.dag.status import home_status
from cpmi_dagster.resources.web.dagster_server import check_port, serve_ui

ROOT = Path(__file__).parents[2]


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", tmp_path)


def test_what_is_written_follows_the_profile_and_what_somebody_else_wrote_stays(settings):
    file = write_dagster_yaml(settings) / "dagster.yaml"
    changed = settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update={"gpus": 3})})
    write_dagster_yaml(changed)
    assert yaml.safe_load(file.read_text())["concurrency"]["pools"]["default_limit"] == 3
    file.write_text("telemetry: {enabled: true}")
    write_dagster_yaml(settings)
    assert file.read_text() == "telemetry: {enabled: true}"


def test_what_is_written_is_dagsters_own(settings):
    written = yaml.safe_load((write_dagster_yaml(settings) / "dagster.yaml").read_text())
    assert written == {
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "concurrency": {
            "runs": {"max_concurrent_runs": 2},
            "pools": {"granularity": "run", "default_limit": 1},
        },
        "run_queue": {"max_user_code_failure_retries": 30, "user_code_failure_retry_delay": 10},
        "run_monitoring": {"enabled": True, "poll_interval_seconds": 30},
        "run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False},
    }


def test_runs_in_this_process_follow_a_users_own_configuration_but_are_not_captured(settings, tmp_path):
    file = write_dagster_yaml(settings) / "dagster.yaml"
    file.write_text(f"storage: {{sqlite: {{base_dir: {tmp_path / 'elsewhere'}}}}}\ntelemetry: {{enabled: false}}\n")
    with open_instance(settings) as instance:
        run = instance.create_run_for_job(dg.GraphDefinition("nothing").to_job()).run_id
        assert type(instance.compute_log_manager).__name__ == "NoOpComputeLogManager"
    with dg.DagsterInstance.from_config(str(dagster_folder(settings))) as instance:
        assert instance.has_run(run)
        assert type(instance.compute_log_manager).__name__ == "LocalComputeLogManager"
    assert (tmp_path / "elsewhere").is_dir()


@pytest.mark.parametrize("room", ["assets", "resources", "cpmi_dagster"])
def test_no_module_imports_a_private_module_of_dagster(room):
    for path in (ROOT / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = getattr(node, "module", None) or ""
            private = [name for name in (module, *names) if name.startswith("dagster._")]
            private += [name for name in names if module == "dagster" and name.startswith("_")]
            assert not private, f"{path} imports {private}"


def test_a_server_that_does_not_answer_is_not_taken_for_a_damaged_database(tmp_path):
    error = sqlalchemy.exc.OperationalError("select 1", {}, ConnectionRefusedError("connection refused"))
    said = str(unusable_storage(tmp_path, error))
    assert said.startswith("Dagster's database cannot be used (connection refused); correct `storage` in ")


def test_a_home_that_is_a_file_is_named(tmp_path):
    (tmp_path / "home").touch()
    with pytest.raises(SettingsError, match=r"the home .*/home is a file; set CPMI_HOME to a folder"):
        load_settings("miniature", tmp_path / "home")


def test_a_home_that_takes_no_files_is_named(settings, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(whole_files.tempfile, "TemporaryFile", refuse)
    with pytest.raises(SettingsError, match=r"cannot be written \(Permission denied\)"):
        open_instance(settings)


@pytest.mark.parametrize("file", ["history/runs.db", "history/runs/index.db"])
def test_a_damaged_database_of_dagster_is_named_with_what_to_do(settings, file):
    with open_instance(settings):
        pass
    (dagster_folder(settings) / file).write_bytes(b"no database" * 100)
    with pytest.raises(SettingsError, match=r"Dagster's database in .* cannot be read .*; move that folder away"):
        open_instance(settings)


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        ("database or disk is full", "make room on its disk and run again"),
        ("disk I/O error", "make room on its disk and run again"),
        ("attempt to write a readonly database", "make that folder and its files writable and run again"),
        ("unable to open database file", "make that folder and its files writable and run again"),
        ("database is locked", "end what else writes to it and run again"),
    ],
)
def test_a_disk_that_takes_no_more_is_not_taken_for_a_damaged_database(tmp_path, cause, advice):
    error = sqlalchemy.exc.OperationalError("select 1", {}, sqlite3.OperationalError(cause))
    said = str(unusable_storage(tmp_path, error))
    assert said == f"Dagster's database in {tmp_path} cannot be used ({cause}); {advice}"


def test_a_full_disk_keeps_the_history_of_runs(settings, full_disk):
    with full_disk(8_000), pytest.raises(SettingsError, match=r"\(.*\); make room on its disk and run again"):
        open_instance(settings)
    with open_instance(settings) as instance:
        assert instance.get_runs_count() == 0


GARBAGE = {
    "is not text": b"\xff\xfe\x00",
    "is a list": b"- a\n",
    "is not YAML": b"telemetry: {enabled: [",
    "has an unknown key": b"nosuch: 3\n",
    "has a wrong type": b"concurrency: [1]\n",
    "names no class": b"run_storage: {module: dagster, class: Nope, config: {}}\n",
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize(
    "command", [open_instance, lambda settings: serve_ui(settings, 3000, lambda: None)], ids=["run", "ui"]
)
def test_a_configuration_of_somebody_else_that_makes_no_sense_is_named(tmp_path, monkeypatch, content, command):
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("the UI was started"))
    file = tmp_path / "dagster" / "dagster.yaml"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=rf"Dagster cannot use {file} \(.*correct it, or move it"):
        command(load_settings("miniature", tmp_path))
    assert file.read_bytes() == content


def test_a_history_that_is_damaged_below_what_opening_it_reads_is_named_by_status(settings, monkeypatch):
    def refuse(*_, **__):
        raise sqlalchemy.exc.DatabaseError("select", {}, sqlite3.DatabaseError("database disk image is malformed"))

    monkeypatch.setattr(dg.DagsterInstance, "get_run_records", refuse)
    with pytest.raises(SettingsError, match=r"cannot be read \(database disk image is malformed\); move that folder"):
        home_status(settings, MAKERS)


def test_a_port_that_is_in_use_is_refused_before_an_address_is_shown():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SettingsError, match=f"--port {port} cannot be used"):
            check_port(port)


def test_a_home_that_cannot_be_written_still_has_a_status(settings, monkeypatch, caplog):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(whole_files.tempfile, "TemporaryFile", refuse)
    states = {asset.key: asset.partitions for asset in home_status(settings, MAKERS)}
    assert states["labels/step_rewards"] == dict.fromkeys(settings.shard_keys, "missing")
    assert "shown is what is on disk" in caplog.text


INTERRUPTED_STEP = """
import os, signal, sys, time
from pathlib import Path
import dagster as dg
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.dagster_home import open_instance

signal.signal(signal.SIGINT, signal.default_int_handler)

@dg.op
def label() -> None:
    print("at work", flush=True)
    time.sleep(1)
    os.killpg(0, signal.SIGINT)
    time.sleep(60)

with open_instance(load_settings("miniature", Path(sys.argv[1]))) as instance:
    job = dg.GraphDefinition("labels", node_defs=[label]).to_job()
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    result = job.execute_in_process(instance=instance, raise_on_error=False, run_config=quiet)
    sys.exit(0 if result.success else 3)
"""


def test_an_interrupt_of_the_terminal_is_no_traceback_of_a_helper_process(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED_STEP, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "at work\n", "")
