"""The commands of `deploy/compose.yaml`, run here: the UI, the daemon and the code server make a run; and `cpmi ui`."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.request import Request, urlopen

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


def changed(words: list[str], options: dict[str, str]) -> list[str]:
    """A command by this interpreter's programs, with other values for some of its options."""
    program, *arguments = words
    for option, value in options.items():
        if f"--{option}" in arguments:
            arguments[arguments.index(f"--{option}") + 1] = value
    return [str(Path(sys.executable).with_name(program)), *arguments]


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(60)
    process.kill()
    process.wait()


def test_a_run_asked_for_in_the_ui_is_made_by_the_services_of_the_compose_file(tmp_path):
    home, code_port, ui_port = tmp_path / "home", str(free_port()), str(free_port())
    workspace = yaml.safe_load((ROOT / "deploy" / "workspace.yaml").read_text())
    server = workspace["load_from"][0]["grpc_server"]
    words = SERVICES[server["host"]]["command"]
    assert words[words.index("--port") + 1] == str(server["port"]), "where the code server listens"
    server |= {"host": "127.0.0.1", "port": int(code_port)}
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump(workspace))
    # without PostgreSQL, whose place test_compose.py holds against Dagster's own form
    configuration = yaml.safe_load((ROOT / "deploy" / "dagster.yaml").read_text())
    del configuration["storage"]
    (home / "dagster").mkdir(parents=True)
    (home / "dagster" / "dagster.yaml").write_text(yaml.safe_dump(configuration))
    given = {"PYTHONPATH": str(ROOT), "CPMI_HOME": str(home), "DAGSTER_HOME": str(home / "dagster")}
    environment = os.environ | given | {"CPMI_PROFILE": "miniature"}
    ports = {"code": code_port, "webserver": ui_port, "daemon": ""}

    def options(service: str) -> dict[str, str]:
        return {"host": "127.0.0.1", "port": ports[service], "workspace": str(tmp_path / "workspace.yaml")}

    def is_healthy(service: str) -> bool:
        check = changed(SERVICES[service]["healthcheck"]["test"][1:], options(service))
        return subprocess.run(check, env=environment, capture_output=True).returncode == 0

    def ask(query: str) -> dict:
        body, headers = json.dumps({"query": query}).encode(), {"Content-Type": "application/json"}
        try:
            with urlopen(Request(f"http://127.0.0.1:{ui_port}/graphql", body, headers), timeout=SECONDS) as reply:
                return json.load(reply)["data"]
        except OSError:
            return {}

    with ExitStack() as stack, (tmp_path / "log").open("a") as log:
        for service in ports:
            command = changed(SERVICES[service]["command"], options(service))
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            stack.callback(end, process)
            if service == "code":
                wait_until(lambda: is_healthy("code"), SECONDS, "the code server is not healthy", every=1)
        wait_until(lambda: ask("{ version }"), SECONDS, "the UI does not answer", every=1)
        launched = ask(LAUNCH)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        status = f'{{ runOrError(runId: "{launched["run"]["runId"]}") {{ ... on Run {{ status }} }} }}'
        ended = ("SUCCESS", "FAILURE", "CANCELED")
        wait_until(lambda: ask(status)["runOrError"]["status"] in ended, SECONDS, "the run does not end", every=1)
        assert ask(status)["runOrError"]["status"] == "SUCCESS"
        wait_until(lambda: is_healthy("daemon"), SECONDS, "the daemon is not healthy", every=1)
    assert Lake(home).has_file("sources/reference_problems")


def test_cpmi_ui_serves_and_ends_well_at_ctrl_c(tmp_path):
    command = [str(Path(sys.executable).with_name("cpmi")), "ui", "--port", str(free_port())]
    environment, log = os.environ | {"PYTHONPATH": str(ROOT), "CPMI_HOME": str(tmp_path / "home")}, tmp_path / "log"
    with log.open("w") as stream:
        ui = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream, start_new_session=True)
    try:
        wait_until(lambda: "Serving dagster-webserver" in log.read_text(), SECONDS, "the UI does not start")
        os.killpg(ui.pid, signal.SIGINT)
        assert ui.wait(SECONDS) == 0, log.read_text()
    finally:
        end(ui)
