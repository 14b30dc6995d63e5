"""`deploy/kubernetes/`: Kubernetes' own schemas accept it, and no name there becomes a setting here."""

import os
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cpmi_dagster.profiles.settings import load_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = "1.34"


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "kubernetes" / name).read_text(encoding="utf-8"))


@pytest.fixture
def deployment() -> dict[str, Any]:
    return read("dagster-values.yaml")["dagster-user-deployments"]["deployments"][0]


def test_kubernetes_accepts_what_the_values_put_into_pods_and_the_claim_of_the_home_that_they_mount(deployment):
    launcher = read("dagster-values.yaml")["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]
    container = {"name": "labeling", "image": "cpmi-dagster", **launcher["containerConfig"]}
    container |= {key: deployment[key] for key in ("env", "volumeMounts")}
    spec = {"containers": [container], "volumes": deployment["volumes"], **launcher["podSpecConfig"]}
    spec["securityContext"] = deployment["podSecurityContext"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "run"}, "spec": spec}
    for manifest in (pod, read("home.yaml")):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    claims = [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in deployment["volumes"]]
    assert {*filter(None, claims)} == {read("home.yaml")["metadata"]["name"]}


def test_no_service_gets_a_name_that_kubernetes_would_turn_into_a_setting(deployment):
    """A service `cpmi-x` puts CPMI_X_SERVICE_HOST into every pod, which `load_settings` refuses."""
    assert not deployment["name"].startswith("cpmi")


def test_the_settings_of_the_code_server_are_understood_and_give_every_gpu_its_run(deployment, monkeypatch):
    for entry in deployment["env"]:
        monkeypatch.setenv(entry["name"], entry.get("value", "secret"))
    settings = load_settings(DEPLOY / os.environ["CPMI_PROFILE"].removeprefix("/"))
    assert (settings.home, settings.rewards.types) == (Path("/data"), ("cpmi",))
    concurrency, gpus = read("dagster-values.yaml")["concurrency"], settings.orchestration.gpus
    assert gpus == concurrency["pools"]["defaultLimit"] == concurrency["runs"]["maxConcurrentRuns"]
    assert settings.orchestration.shards_per_tick >= gpus
    assert not deployment.get("resources"), "the code server's resources would be laid over those of the runs"
