"""Dagster's own folder: its configuration, what is wrong with it, and the server's port."""

import re
import socket
from pathlib import Path

import pytest
import yaml

from cpmi_dagster.definitions import MAKERS
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files import whole_files
from cpmi_dagster.resources.dag.dagster_home import dagster_folder, open_instance, write_dagster_yaml
from cpmi_dagster.resources.dag.status import home_status
from cpmi_dagster.resources.web.dagster_server import check_port, serve_ui

ROOT = Path(__file__).parents[2]


@pytest.fixture
def unwritable(monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(whole_files.tempfile, "TemporaryFile", refuse)


def test_the_configuration_follows_the_profile_until_somebody_else_writes_it(settings):
    file = write_dagster_yaml(settings) / "dagster.yaml"
    changed = settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update={"gpus": 3})})
    write_dagster_yaml(changed)
    assert yaml.safe_load(file.read_text())["concurrency"]["pools"]["default_limit"] == 3
    file.write_text("telemetry: {enabled: true}")
    write_dagster_yaml(settings)
    assert file.read_text() == "telemetry: {enabled: true}"


def test_runs_of_this_process_are_kept_where_a_users_own_configuration_says_and_start_no_helpers(settings, tmp_path):
    file = write_dagster_yaml(settings) / "dagster.yaml"
    file.write_text(f"storage: {{sqlite: {{base_dir: {tmp_path / 'elsewhere'}}}}}\n")
    with open_instance(settings) as instance:
        # processes that capture a step's output would end in tracebacks at a Ctrl-C
        assert type(instance.compute_log_manager).__name__ == "NoOpComputeLogManager"
    assert (tmp_path / "elsewhere").is_dir()


def test_no_module_imports_a_private_module_of_dagster():
    private = re.compile(r"^\s*(?:from|import) dagster\._|^\s*from dagster import .*\b_\w", re.MULTILINE)
    for room in ("assets", "resources", "cpmi_dagster"):
        for path in (ROOT / room).rglob("*.py"):
            assert not private.search(path.read_text(encoding="utf-8")), path


def test_a_home_that_takes_no_files_is_named_and_still_has_a_status(settings, unwritable, caplog):
    with pytest.raises(SettingsError, match=r"cannot be written \(Permission denied\)"):
        open_instance(settings)
    states = {asset.key: asset.partitions for asset in home_status(settings, MAKERS)}
    assert states["labels/step_rewards"] == dict.fromkeys(settings.shard_keys, "missing")
    assert "shown is what is on disk" in caplog.text


@pytest.mark.parametrize("file", ["history/runs.db", "history/runs/index.db"])
def test_a_damaged_database_of_dagster_is_named_with_what_to_do(settings, file):
    open_instance(settings).dispose()
    (dagster_folder(settings) / file).write_bytes(b"no database" * 100)
    with pytest.raises(SettingsError, match=r"Dagster's database in .* cannot be read .*; move that folder away"):
        home_status(settings, MAKERS)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"telemetry: {enabled: [", b"nosuch: 3\n"])
def test_a_configuration_of_somebody_else_that_makes_no_sense_is_named(settings, monkeypatch, content):
    monkeypatch.setattr("os.execve", lambda *_: pytest.fail("the UI was started"))
    file = dagster_folder(settings) / "dagster.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    for command in (open_instance, lambda settings: serve_ui(settings, 3000, lambda: None)):
        with pytest.raises(SettingsError, match=rf"Dagster cannot use {file} \(.*correct it, or move it"):
            command(settings)
    assert file.read_bytes() == content


def test_a_port_that_is_in_use_is_refused_before_an_address_is_shown():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SettingsError, match=f"--port {port} cannot be used"):
            check_port(port)
