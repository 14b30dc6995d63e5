"""Daemon, code server and webserver killed during a backfill of 12 shards: it completes, none is labelled twice.

    PYTHONPATH=.:tests python tests/faults/killed_services.py --shards 12

The three run as three processes on SQLite, as `deploy/compose.yaml` starts them. Each is killed with SIGKILL when a
share of the shards is labelled, and started again five seconds later. Runs are children of the code server, and go on
without it.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from kill_labeling import BEFORE_LABELS, LONGEST_RUN_SECONDS, ROOT, start
from small_run import SMALL, write_profile
from waiting import free_port

from cpmi_dagster.resources.dag.automation import LABEL_TABLES
from cpmi_dagster.resources.lake.lake import Lake

LAST = "labels/step_rewards"
AT_WORK = ("REQUESTED", "FAILING", "CANCELING")
PAUSE_SECONDS = 5
BACKFILL = """mutation ($assets: [AssetKeyInput!], $shards: [String!]) {
    launchPartitionBackfill(backfillParams: {assetSelection: $assets, partitionNames: $shards}) {
        __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""


class Service:
    """One of Dagster's processes, which can be killed and started again."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self._command = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        self._environment = environment
        self._log = log
        self.start()

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Signal the service itself; its children are left to themselves."""
        self._process.send_signal(how)
        self._process.wait()


def services(home: Path, profile: str, address: tuple[int, int]) -> list[Service]:
    """Daemon, code server and webserver of a home."""
    ui_port, code_port = address
    workspace, log = home / "workspace.yaml", home / "services.log"
    server = {"grpc_server": {"host": "127.0.0.1", "port": code_port, "location_name": "cpmi"}}
    workspace.write_text(yaml.safe_dump({"load_from": [server]}))
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home / "dagster"),
        "CPMI_HOME": str(home),
        "CPMI_PROFILE": profile,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    code = ["dagster", "code-server", "start", "--host=127.0.0.1", f"--port={code_port}"]
    commands = {
        "code server": [*code, "--module-name=cpmi_dagster.definitions"],
        "webserver": ["dagster-webserver", "--host=127.0.0.1", f"--port={ui_port}", f"--workspace={workspace}"],
        "daemon": ["dagster-daemon", "run", f"--workspace={workspace}"],
    }
    return [Service(name, command, environment, log) for name, command in commands.items()]


def ask(address: str, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a GraphQL reply.

    Raises:
        KeyError: the reply holds errors.
    """
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.load(reply)["data"]


def backfill(address: str, shards: list[str]) -> str:
    """Ask for the labels of shards, as the partitions page does; returns the backfill's id.

    Raises:
        AssertionError: the webserver or code server does not answer, or refuses.
    """
    assets = [{"path": table.split("/")} for table in LABEL_TABLES]
    deadline = time.monotonic() + 120
    while True:
        try:
            reply = ask(address, BACKFILL, {"assets": assets, "shards": shards})["launchPartitionBackfill"]
            if reply["__typename"] == "LaunchBackfillSuccess":
                return reply["backfillId"]
        except (OSError, KeyError) as error:
            reply = error
        assert time.monotonic() < deadline, f"no backfill: {reply}"
        time.sleep(2)


def disturb(running: list[Service], instance: dg.DagsterInstance, backfill_id: str, home: Path, shards: int) -> str:
    """Kill the services one after another while shards are labelled; returns how the backfill ended.

    Raises:
        AssertionError: it ended before all of them were killed, or does not end.
    """
    lake, left, deadline = Lake(home), list(running), time.monotonic() + LONGEST_RUN_SECONDS
    while True:
        labelled = len(lake.partitions(LAST))
        if left and labelled >= shards * (len(running) - len(left) + 1) / (len(running) + 1):
            service = left.pop(0)
            service.stop(signal.SIGKILL)
            print(f"{service.name} killed after {labelled} shards", flush=True)
            time.sleep(PAUSE_SECONDS)
            service.start()
        job = instance.get_backfill(backfill_id)
        status = job.status.name if job else ""
        if status not in AT_WORK:
            names = [service.name for service in left]
            assert not left, f"the backfill was {status} with {labelled} shards before {names} were killed"
            return status
        assert time.monotonic() < deadline, f"the backfill does not end: {labelled} shards are labelled"
        time.sleep(1)


def times_made(instance: dg.DagsterInstance, shard: str) -> int:
    """How often Dagster has the rewards of a shard as made."""
    key = dg.AssetKey(LAST.split("/"))
    found = instance.fetch_materializations(dg.AssetRecordsFilter(key, asset_partitions=[shard]), limit=10)
    return len(found.records)


def main() -> None:
    """Run the backfill and check what it made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=12)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home, address = Path(name) / "home", (free_port(), free_port())
        values = {**SMALL, "shards": chosen.shards, "selection": {"trajectories": 2 * chosen.shards}}
        profile = write_profile(Path(name) / "small.yaml", values)
        assert start(profile, home, *BEFORE_LABELS).wait(LONGEST_RUN_SECONDS) == 0
        shards, began = [f"{shard:03d}" for shard in range(chosen.shards)], time.monotonic()
        running = services(home, profile, address)
        try:
            with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
                started = backfill(f"http://127.0.0.1:{address[0]}/graphql", shards)
                ended = disturb(running, instance, started, home, chosen.shards)
                made = [times_made(instance, shard) for shard in shards]
                runs = instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": started}))
        finally:
            for service in running:
                service.stop()
        print(f"{ended} after {time.monotonic() - began:.0f} s, {len(runs)} runs: {[run.status.name for run in runs]}")
        print(f"shards made {sorted(set(made))} times")
        assert ended == "COMPLETED_SUCCESS" and set(made) == {1}
        assert Lake(home).partitions(LAST) == shards


if __name__ == "__main__":
    main()
