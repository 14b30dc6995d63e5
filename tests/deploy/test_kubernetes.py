"""`deploy/kubernetes/`: Kubernetes' own schemas accept what stands in them, and no name there becomes a setting here.

Dagster's chart is not part of this repository. With `DAGSTER_CHART`, a folder such as
`helm pull dagster/dagster --version 1.13.27 --untar` makes, the values are held against it too.
"""

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


def deployment() -> dict[str, Any]:
    return read("dagster-values.yaml")["dagster-user-deployments"]["deployments"][0]


def test_kubernetes_accepts_the_claim_of_the_home():
    kubernetes_validate.validate(read("home.yaml"), KUBERNETES, strict=True)


def test_kubernetes_accepts_what_the_values_put_into_pods():
    pod = deployment()
    launcher = read("dagster-values.yaml")["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]
    container = {"name": "labeling", "image": "cpmi-dagster", **launcher["containerConfig"]}
    container |= {key: pod[key] for key in ("env", "volumeMounts")}
    spec = {"containers": [container], "volumes": pod["volumes"], "securityContext": pod["podSecurityContext"]}
    manifest = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "run"}, "spec": {**spec, **launcher["podSpecConfig"]},
    }  # fmt: skip
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_no_service_gets_a_name_that_kubernetes_would_turn_into_a_setting():
    """A service `cpmi-x` puts CPMI_X_SERVICE_HOST into every pod, which `load_settings` refuses."""
    assert not deployment()["name"].startswith("cpmi")


def test_the_settings_of_the_code_server_are_understood(monkeypatch):
    for entry in deployment()["env"]:
        monkeypatch.setenv(entry["name"], entry.get("value", "secret"))
    profile = DEPLOY / os.environ["CPMI_PROFILE"].removeprefix("/")
    assert load_settings(profile).home == Path("/data")


def test_runs_keep_the_memory_and_the_gpu_that_the_values_give_them():
    """`K8sRunLauncher` lays the code server's resources over those of the runs."""
    assert not deployment().get("resources")


def test_the_claim_of_the_home_is_the_one_that_is_mounted():
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in deployment()["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claims == {read("home.yaml")["metadata"]["name"]}


def test_a_run_is_tried_again_as_on_a_home_of_its_own(tmp_path):
    """What the user must correct fails at once; a run whose process is gone is started once more."""
    chart = read("dagster-values.yaml")["dagsterDaemon"]["runRetries"]
    folder = write_dagster_yaml(load_settings("miniature", tmp_path))
    own = yaml.safe_load((folder / "dagster.yaml").read_text(encoding="utf-8"))["run_retries"]
    assert chart["maxRetries"] == own["max_retries"]
    assert chart["retryOnAssetOrOpFailure"] is own["retry_on_asset_or_op_failure"] is False


def test_the_number_of_gpus_is_the_same_wherever_it_stands(monkeypatch, tmp_path):
    gpus = {entry["name"]: entry.get("value") for entry in deployment()["env"]}["CPMI_ORCHESTRATION__GPUS"]
    concurrency = read("dagster-values.yaml")["concurrency"]
    assert int(gpus) == concurrency["pools"]["defaultLimit"] == concurrency["runs"]["maxConcurrentRuns"]
    monkeypatch.setenv("CPMI_ORCHESTRATION__GPUS", gpus)
    team = load_settings(DEPLOY / "profiles" / "team.yaml", tmp_path).orchestration
    assert team.shards_per_tick >= team.gpus


@pytest.mark.skipif(CHART is None, reason="DAGSTER_CHART names no folder of Dagster's Helm chart")
def test_dagsters_chart_accepts_the_values():
    import json

    defaults = yaml.safe_load(Path(CHART, "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads(Path(CHART, "values.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(merged(defaults, read("dagster-values.yaml")))
    assert not unknown(read("dagster-values.yaml"), defaults)


def merged(base: Any, own: Any) -> Any:
    """The values that Helm would use: mappings are merged, everything else is replaced."""
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    return base | {key: merged(base[key], value) if key in base else value for key, value in own.items()}


def unknown(own: dict, defaults: dict, place: str = "") -> list[str]:
    """Keys that the chart has no default for, so does not read; mappings that are empty there take any."""
    found = []
    for key, value in own.items():
        if key not in defaults:
            found.append(f"{place}{key}")
        elif isinstance(value, dict) and isinstance(defaults[key], dict) and defaults[key]:
            found += unknown(value, defaults[key], f"{place}{key}.")
    return found
