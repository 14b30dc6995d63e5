"""`cpmi ui` as it is started: Dagster's own pages on 127.0.0.1, which end with the command."""

import json
import os
import signal
import subprocess
import sys
from urllib.request import Request, urlopen

import pytest
from waiting import free_port, wait_until

SECONDS = 600


@pytest.mark.slow
def test_the_ui_answers_on_this_machine_and_ends_with_the_interrupt_of_a_terminal(tmp_path):
    port, log = free_port(), tmp_path / "log"
    with log.open("w") as stream:
        command = [sys.executable, "-m", "cpmi_dagster", "ui", "--port", str(port)]
        environment = {**os.environ, "CPMI_HOME": str(tmp_path / "home")}
        ui = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=stream, stderr=stream, start_new_session=True
        )

    def ask(path: str, body: bytes | None = None) -> str:
        request = Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=SECONDS) as reply:
            return reply.read().decode()

    def answers() -> bool:
        assert ui.poll() is None, log.read_text()
        try:
            return bool(ask("/server_info"))
        except OSError:
            return False

    try:
        wait_until(answers, SECONDS, "the UI does not answer", every=0.5)
        assert "<html" in ask("/")
        locations = ask(
            "/graphql",
            b'{"query": "{ repositoriesOrError { ... on RepositoryConnection { nodes { id location { name } } } } }"}',
        )
        assert json.loads(locations)["data"]["repositoriesOrError"]["nodes"][0]["location"]["name"] == "cpmi"
        os.killpg(ui.pid, signal.SIGINT)
        assert ui.wait(SECONDS) == 0, log.read_text()
    finally:
        if ui.poll() is None:
            os.killpg(ui.pid, signal.SIGKILL)
            ui.wait()
