"""The commands of `deploy/compose.yaml`, run here: the UI, the daemon and the code server make a run."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import yaml
from waiting import free_port, wait_until

from cpmi_dagster.resources.lake.lake import Lake

ROOT = Path(__file__).parents[2]
SERVICES = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))["services"]
LAUNCH = """mutation { launchPipelineExecution(executionParams: {mode: "default", selector: {
    repositoryLocationName: "cpmi", repositoryName: "__repository__", pipelineName: "__ASSET_JOB",
    assetSelection: [{path: ["sources", "reference_problems"]}]}}) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
SECONDS = 1200

pytestmark = pytest.mark.slow


def command(service: str, **changes: str) -> list[str]:
    """What the service runs, by this interpreter's programs, with other values for some of its options."""
    return changed(SERVICES[service]["command"], changes)


def healthy(environment: dict[str, str], service: str, **changes: str) -> bool:
    """What the service's health check says."""
    check = changed(SERVICES[service]["healthcheck"]["test"][1:], changes)
    return subprocess.run(check, env=environment, capture_output=True).returncode == 0


def changed(words: list[str], changes: dict[str, str]) -> list[str]:
    program, *arguments = words
    for option, value in {"host": "127.0.0.1", **changes}.items():
        if f"--{option}" in arguments:
            arguments[arguments.index(f"--{option}") + 1] = value
    return [str(Path(sys.executable).with_name(program)), *arguments]


@contextmanager
def running(service: str, environment: dict[str, str], log: Path, **changes: str) -> Iterator[None]:
    with log.open("a") as stream:
        process = subprocess.Popen(command(service, **changes), env=environment, stdout=stream, stderr=stream)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def ask(port: str, query: str) -> dict:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql", json.dumps({"query": query}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as reply:
        return json.load(reply)["data"]


def until(answer, wanted) -> object:
    """What `answer` returns once it is one of `wanted`."""
    found = []

    def is_wanted() -> bool:
        with suppress(OSError):
            found.append(answer())
        return bool(found) and found[-1] in wanted

    wait_until(is_wanted, SECONDS, f"not one of {wanted}", every=1)
    return found[-1]


def test_a_run_asked_for_in_the_ui_is_made_by_the_services_of_the_compose_file(tmp_path):
    home, code_port, ui_port = tmp_path / "home", str(free_port()), str(free_port())
    workspace = yaml.safe_load((ROOT / "deploy" / "workspace.yaml").read_text())
    workspace["load_from"][0]["grpc_server"] |= {"host": "127.0.0.1", "port": int(code_port)}
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump(workspace))
    with ExitStack() as stack:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT), "CPMI_HOME": str(home), "DAGSTER_HOME": str(home / "dagster"),
            "CPMI_PROFILE": "miniature",
        }  # fmt: skip
        # without PostgreSQL, whose place test_compose.py holds against Dagster's own form
        configuration = yaml.safe_load((ROOT / "deploy" / "dagster.yaml").read_text())
        del configuration["storage"]
        (home / "dagster").mkdir(parents=True)
        (home / "dagster" / "dagster.yaml").write_text(yaml.safe_dump(configuration))
        log, given = tmp_path / "log", {"workspace": str(tmp_path / "workspace.yaml")}
        stack.enter_context(running("code", environment, log, port=code_port))
        until(lambda: healthy(environment, "code", port=code_port), [True])
        stack.enter_context(running("webserver", environment, log, port=ui_port, **given))
        stack.enter_context(running("daemon", environment, log, **given))
        until(lambda: ask(ui_port, "{ version }").keys() >= {"version"}, [True])
        launched = ask(ui_port, LAUNCH)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        status = f'{{ runOrError(runId: "{launched["run"]["runId"]}") {{ ... on Run {{ status }} }} }}'
        ended = until(lambda: ask(ui_port, status)["runOrError"]["status"], ["SUCCESS", "FAILURE", "CANCELED"])
        until(lambda: healthy(environment, "daemon"), [True])
    assert ended == "SUCCESS"
    assert Lake(home, "miniature").has("sources/reference_problems")
