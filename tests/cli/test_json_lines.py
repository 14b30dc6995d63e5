"""CPMI_LOG_FORMAT=json: everything that a run writes to the terminal is JSON Lines."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow

KEY = "sk-very-secret-4711"
BEFORE_LABELS = ("sources/math_shepherd", "sources/reference_problems", "alignment", "selection")


@contextmanager
def refusing_server() -> Iterator[str]:
    """A completions server that refuses the key, and repeats it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()


def run(profile: str, home: Path, *options: str) -> tuple[int, str]:
    """`cpmi run` in a process of its own: its exit code, and all that it wrote."""
    environment = {**os.environ, "CPMI_HOME": str(home), "CPMI_LOG_FORMAT": "json", "ENDPOINT_KEY": KEY}
    command = [sys.executable, "-m", "cpmi_dagster", "run", "-p", profile, *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def first_run(small_profile, tmp_path_factory) -> tuple[Path, str]:
    """The home of a run up to the selection, and what the run wrote."""
    home = tmp_path_factory.mktemp("home")
    code, written = run(small_profile, home, *(f"--only={key}" for key in BEFORE_LABELS))
    assert code == 0, written
    return home, written


def test_every_line_of_a_run_is_an_object_with_what_is_known(first_run):
    lines = [json.loads(line) for line in first_run[1].splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    shards = [line for line in lines if line.get("stage") == "trajectories" and "rows" in line]
    assert shards and shards[-1]["shard"] == "003" and len(shards[-1]["run_id"]) == 36
    assert lines[-1]["message"].startswith("the run has finished")


def test_a_run_that_fails_names_the_shard_and_shows_no_key(first_run, small_profile, tmp_path):
    with refusing_server() as url:
        rollouts = {"name": "miniature:labeler", "engine": "endpoint", "endpoint": url, "revision": "1"}
        models = {"rollouts": {**rollouts, "api_key_variable": "ENDPOINT_KEY"}}
        profile = tmp_path / "small.yaml"
        profile.write_text(yaml.safe_dump({"extends": small_profile, "profile": "small", "models": models}))
        code, written = run(str(profile), first_run[0], "--only", "labels", "--shards", "0", "--quiet")
    assert code == 1
    lines = [json.loads(line) for line in written.splitlines()]
    assert "INFO" not in {line["level"] for line in lines}
    [failure] = [line for line in lines if "shard" in line]
    assert (failure["stage"], failure["shard"]) == ("policy_rollouts", "000")
    assert "status 401" in failure["message"]
    assert KEY not in written
    assert Lake.of(load_settings(small_profile, first_run[0])).exists("labels/answer_logprobs")
