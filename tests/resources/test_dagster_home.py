"""Dagster's own folder: its configuration, and the server's port."""

import re
import socket
from pathlib import Path

import pytest
import yaml

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.resources.commands.ui import check_port
from cpmi_dagster.resources.dag.instance import write_dagster_yaml

ROOT = Path(__file__).parents[2]


def test_the_configuration_follows_the_profile_until_somebody_else_writes_it(settings):
    file = write_dagster_yaml(settings) / "dagster.yaml"
    changed = settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update={"gpus": 3})})
    write_dagster_yaml(changed)
    assert yaml.safe_load(file.read_text())["concurrency"]["pools"]["default_limit"] == 3
    file.write_text("telemetry: {enabled: true}")
    write_dagster_yaml(settings)
    assert file.read_text() == "telemetry: {enabled: true}"


def test_no_module_imports_a_private_module_of_dagster():
    private = re.compile(r"^\s*(?:from|import) dagster\._|^\s*from dagster import .*\b_\w", re.MULTILINE)
    for path in (ROOT / "cpmi_dagster").rglob("*.py"):
        assert not private.search(path.read_text(encoding="utf-8")), path


def test_a_port_that_is_in_use_is_refused_before_an_address_is_shown():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SettingsError, match=f"--port {port} cannot be used"):
            check_port(port)
