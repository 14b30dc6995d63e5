"""`deploy/compose.yaml` and the Dockerfile: read by their own tools, closed to the network, without secrets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dagster._config import validate_config
from dagster_postgres import DagsterPostgresStorage

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.instance import write_dagster_yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = ("compose.yaml", "compose.gpu.yaml")
OURS = ("code", "webserver", "daemon")
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
SECRET = re.compile(r"PASSWORD|TOKEN|SECRET|KEY")


def compose(name: str) -> dict:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def example() -> dict[str, str]:
    lines = (DEPLOY / ".env.example").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("name", FILES)
def test_the_compose_specification_accepts_the_file(name):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_passes_its_linter():
    command = [Path(sys.executable).with_name("hadolint"), DEPLOY / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_ports_are_on_loopback_secrets_in_the_environment_and_our_services_without_rights_they_do_not_need():
    services = [service for name in FILES for service in compose(name)["services"].values()]
    ports = [port for service in services for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)
    variables = [entry for service in services for entry in service.get("environment", {}).items()]
    assert all(VARIABLE.fullmatch(value) for name, value in variables if SECRET.search(name))
    assert not [name for name, value in example().items() if value and SECRET.search(name)]
    for name in OURS:
        service = compose("compose.yaml")["services"][name]
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])


@pytest.mark.parametrize("name", OURS)
def test_the_settings_of_each_service_are_understood(name, monkeypatch):
    environment = compose("compose.yaml")["services"][name]["environment"]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, VARIABLE.sub(lambda match: example()[match[1]], value))
    assert load_settings().home == Path("/data") and environment["DAGSTER_HOME"] == "/data/dagster"
    assert compose("dagster.yaml")["storage"]["postgres"]["postgres_db"]["password"]["env"] in environment


def test_dagster_accepts_the_configuration_and_it_says_the_rest_as_a_home_does(tmp_path):
    ours, written = compose("dagster.yaml"), write_dagster_yaml(load_settings("miniature", tmp_path)) / "dagster.yaml"
    place = ours.pop("storage")["postgres"]
    assert place["postgres_db"]["hostname"] in compose("compose.yaml")["services"]
    assert validate_config(DagsterPostgresStorage.config_type(), place).success
    assert ours == yaml.safe_load(written.read_text())
    assert ours["concurrency"]["pools"]["default_limit"] == int(example()["GPUS"])
