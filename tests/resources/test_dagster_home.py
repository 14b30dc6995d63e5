"""Dagster's own folder: its configuration, what is wrong with it, and the server's port."""

import socket

import dagster as dg
import pytest
import yaml

from cpmi_dagster.definitions import MAKERS
from cpmi_dagster.errors import CpmiError, SettingsError
from cpmi_dagster.files import whole_files
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources import pools
from cpmi_dagster.resources.dagster_home import (
    dagster_folder,
    open_instance,
    write_dagster_yaml,
)
from cpmi_dagster.resources.dagster_server import check_port
from cpmi_dagster.resources.pools import wait_for_pool
from cpmi_dagster.resources.status import home_status


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", tmp_path)


def test_the_pool_has_as_many_slots_as_there_are_gpus(settings):
    orchestration = settings.orchestration.model_copy(update={"gpus": 3})
    folder = write_dagster_yaml(settings.model_copy(update={"orchestration": orchestration}))
    written = yaml.safe_load((folder / "dagster.yaml").read_text())
    assert written["concurrency"]["pools"]["default_limit"] == 3
    assert written["telemetry"] == {"enabled": False}


def test_a_home_on_a_store_has_dagsters_folder_here_or_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("CPMI_CACHE", str(tmp_path / "copies"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    settings = load_settings("miniature", "s3://bucket/home")
    assert write_dagster_yaml(settings) == tmp_path / "dagster"
    (tmp_path / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: true}")
    write_dagster_yaml(settings)
    assert (tmp_path / "dagster" / "dagster.yaml").read_text() == "telemetry: {enabled: true}"
    monkeypatch.delenv("DAGSTER_HOME")
    assert dagster_folder(settings) == settings.folder / "dagster"
    assert settings.folder.is_relative_to(tmp_path / "copies")


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


def test_waiting_for_a_run_that_lives_can_be_interrupted(settings, monkeypatch):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pools.time, "sleep", interrupt)
    with open_instance(settings) as instance:
        run = instance.create_run_for_job(dg.GraphDefinition("nothing").to_job())
        instance.event_log_storage.initialize_concurrency_limit_to_default("gpu")
        instance.event_log_storage.claim_concurrency_slot("gpu", run.run_id, "step")
        with pytest.raises(CpmiError, match="run again when it has ended"):
            wait_for_pool(instance, "gpu", dagster_folder(settings))


@pytest.mark.parametrize("file", ["history/runs.db", "history/runs/index.db"])
def test_a_damaged_database_of_dagster_is_named_with_what_to_do(settings, file):
    with open_instance(settings):
        pass
    (dagster_folder(settings) / file).write_bytes(b"no database" * 100)
    with pytest.raises(SettingsError, match=r"Dagster's database in .* cannot be read .*; move that folder away"):
        open_instance(settings)


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
