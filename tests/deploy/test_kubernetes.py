"""`deploy/kubernetes/`: Kubernetes' own schemas accept what stands in them, and no name there becomes a setting here.

Dagster's chart is not part of this repository. With `DAGSTER_CHART`, a folder such as
`helm pull dagster/dagster --version 1.13.27 --untar` makes, the values are held against its schema too.
"""

import json
import os
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.dagster_home import write_dagster_yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = os.environ.get("DAGSTER_CHART")
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


def test_a_run_is_tried_again_as_on_a_home_of_its_own(tmp_path):
    chart = read("dagster-values.yaml")["dagsterDaemon"]["runRetries"]
    written = (write_dagster_yaml(load_settings("miniature", tmp_path)) / "dagster.yaml").read_text(encoding="utf-8")
    retries = yaml.safe_load(written)["run_retries"]
    assert chart["maxRetries"] == retries["max_retries"]
    assert chart["retryOnAssetOrOpFailure"] is retries["retry_on_asset_or_op_failure"] is False


@pytest.mark.skipif(CHART is None, reason="DAGSTER_CHART names no folder of Dagster's Helm chart")
def test_dagsters_chart_accepts_the_values():
    defaults = yaml.safe_load(Path(CHART, "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads(Path(CHART, "values.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(merged(defaults, read("dagster-values.yaml")))


def merged(base: Any, values: Any) -> Any:
    """The values that Helm would use: mappings are merged, everything else is replaced."""
    if not isinstance(base, dict) or not isinstance(values, dict):
        return values
    return base | {key: merged(base[key], value) if key in base else value for key, value in values.items()}
