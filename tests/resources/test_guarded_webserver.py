"""`cpmi ui` as it is started, asked over HTTP."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import free_port, wait_until

from cpmi_dagster.resources.web.guarded_webserver import AS_MODULE, guarded_command

SECONDS = 900
MUTATION = "mutation%20%7BsetNuxSeen%7D"


def test_the_webserver_alone_is_replaced_among_the_processes_of_dagster_dev():
    assert guarded_command(["python", "-m", "dagster_webserver", "--port", "1"]) == [
        *("python", *AS_MODULE, "--port", "1")
    ]
    daemon = ["python", "-m", "dagster._daemon", "run"]
    assert guarded_command(daemon) == daemon


def test_a_file_where_the_user_stands_is_not_imported(tmp_path):
    (tmp_path / "starlette.py").write_text("raise SystemExit('the wrong one')")
    done = subprocess.run([sys.executable, *AS_MODULE, "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "dagster-webserver, version" in done.stdout


def ask(port: int, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, reply.read().decode(errors="replace")
    finally:
        connection.close()


@pytest.fixture(scope="module")
def port(tmp_path_factory) -> Iterator[int]:
    """A running `cpmi ui`."""
    folder: Path = tmp_path_factory.mktemp("ui")
    number = free_port()
    with (folder / "log").open("w") as log:
        ui = subprocess.Popen(
            [sys.executable, "-m", "cpmi_dagster", "ui", "--port", str(number)],
            cwd=folder,
            env={**os.environ, "CPMI_HOME": str(folder / "home")},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def answers() -> bool:
        assert ui.poll() is None, (folder / "log").read_text()
        try:
            return ask(number, "GET", "/server_info")[0] == 200
        except OSError:
            return False

    try:
        wait_until(answers, SECONDS, "the UI does not answer", every=0.5)
        yield number
    finally:
        os.killpg(ui.pid, signal.SIGINT)
        try:
            ui.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(ui.pid, signal.SIGKILL)
            ui.wait()


@pytest.mark.slow
def test_the_ui_answers_its_own_pages(port):
    status, page = ask(port, "GET", "/", Accept="text/html")
    assert status == 200 and "<html" in page
    own = {"Origin": f"http://127.0.0.1:{port}", "Content_Type": "application/json"}
    status, reply = ask(port, "POST", "/graphql", json.dumps({"query": "{ version }"}), **own)
    assert status == 200 and json.loads(reply)["data"]["version"]


@pytest.mark.slow
def test_the_ui_refuses_what_pages_of_other_sites_can_send(port):
    body = json.dumps({"query": "{ version }"})
    assert ask(port, "GET", "/", Host="evil.example")[0] == 400
    assert ask(port, "POST", "/graphql", body, Host="evil.example", Content_Type="application/json")[0] == 400
    assert ask(port, "POST", "/graphql", body, Origin="https://evil.example", Content_Type="application/json")[0] == 403
    assert ask(port, "POST", "/report_asset_materialization/a", "{}", Origin="https://evil.example")[0] == 403
    assert ask(port, "GET", f"/graphql?query={MUTATION}", Accept="image/*")[0] == 405
    assert ask(port, "POST", f"/graphql?query={MUTATION}", Accept="image/*")[0] == 405
    socket_headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec_WebSocket_Protocol": "graphql-ws",
    }
    assert ask(port, "GET", "/graphql", Origin="https://evil.example", **socket_headers)[0] == 403
