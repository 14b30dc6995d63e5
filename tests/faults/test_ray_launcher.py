"""Two Ray nodes on this machine, a shard a run: the node of one is killed with -9, and its run goes on on the other."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import dagster as dg
import psutil
import pytest
import yaml
from kill_labeling import ROOT, compare
from small_run import SMALL, run_all, write_profile
from waiting import free_port, wait_until

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.instance import ALIVE, dagster_folder, life_of
from cpmi_dagster.resources.dag.jobs import LABEL

pytest.importorskip("dagster_ray", reason="the extra `ray` is not installed")
pytestmark = pytest.mark.slow

HEAD, OTHER = "127.0.0.2", "127.0.0.3"
SECONDS = 600
FEW = {
    **SMALL, "selection": {"trajectories": 8}, "shards": 2, "rewards": {"types": ["cpmi", "mc"]},
    "recipes": [{"name": "mc_bce", "reward_type": "mc"}], "benchmarks": {"best_of_n": []},
}  # fmt: skip


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[psutil.Process]:
    """A program of this environment, killed with all of its children at the end of the block."""
    with log.open("w") as said:
        program = str(Path(sys.executable).with_name(command[0]))
        process = psutil.Popen([program, *command[1:]], env=environment, stdout=said, stderr=said)
    try:
        yield process
    finally:
        kill(process)


def kill(node: psutil.Process) -> None:
    """`kill -9` of a process and all that it started, at once."""
    if node.is_running():
        everything = [*node.children(recursive=True), node]
        for process in everything:
            with suppress(psutil.NoSuchProcess):  # one may end by itself after it was listed
                process.kill()
        psutil.wait_procs(everything)


def node_command(address: str, gcs: int, dashboard: int) -> list[str]:
    role = [f"--address={HEAD}:{gcs}"]
    if address == HEAD:
        role = ["--head", f"--port={gcs}", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
    limits = ["--num-cpus=1", "--num-gpus=0", f"--object-store-memory={100 * 2**20}"]
    # as many ports as the system has: the usual range of workers would hold some of those that are free here
    limits += ["--min-worker-port=0", "--max-worker-port=0"]
    limits += [f"--ray-client-server-port={free_port()}", f"--dashboard-agent-listen-port={free_port()}"]
    return ["ray", "start", "--block", f"--node-ip-address={address}", *role, *limits]


def has_started(nodes: list[psutil.Process], log: Path) -> bool:
    """Whether the last node says so in its log; skips the test, with the log, if a node has ended instead."""
    if any(not node.is_running() or node.status() == psutil.STATUS_ZOMBIE for node in nodes):
        pytest.skip(f"Ray does not start here: {log.read_text()}")
    return "Ray runtime started" in log.read_text()


def write_launcher(folder: Path, dashboard: int) -> None:
    """The `dagster.yaml` of docs/operating.md, which looks at the runs more often."""
    variables = ["CPMI_HOME", "CPMI_PROFILE", "DAGSTER_HOME", "PYTHONPATH", "OMP_NUM_THREADS"]
    ray = {"address": f"http://127.0.0.1:{dashboard}", "num_cpus": 1, "env_vars": variables}
    values = {
        "run_launcher": {"module": "dagster_ray", "class": "RayRunLauncher", "config": {"ray": ray}},
        "run_monitoring": {
            "enabled": True, "max_resume_run_attempts": 2, "start_timeout_seconds": SECONDS, "poll_interval_seconds": 2
        },
        "telemetry": {"enabled": False},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dagster.yaml").write_text(yaml.safe_dump(values))


def launch(shard: str, environment: dict[str, str]) -> str:
    """Have the launcher start the run of a shard; returns its id."""
    run_id, tags = str(uuid.uuid4()), json.dumps({"dagster/partition": shard})
    command = [str(Path(sys.executable).with_name("dagster")), "job", "launch", "-m", "cpmi_dagster.definitions"]
    subprocess.run([*command, "-j", LABEL, "--run-id", run_id, "--tags", tags], env=environment, check=True)
    return run_id


def runs_on(node: psutil.Process, folder: Path, runs: list[str]) -> list[str]:
    """The runs whose process is on a node and holds its lock."""
    commands = ""
    for process in node.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            commands += " ".join(process.cmdline())
    return [run for run in runs if run in commands and life_of(folder / ALIVE / f"{run}.lock") == "held"]


def test_a_run_whose_node_is_killed_goes_on_on_another_and_each_shard_is_made_once(tmp_path):
    profile, whole = write_profile(tmp_path / "few.yaml", FEW), tmp_path / "whole"
    assert not run_all(load_settings(profile, whole), only=("sources", "alignment", "selection")).failures
    settings = load_settings(profile, tmp_path / "home")
    shutil.copytree(whole / "lake", settings.home / "lake")
    assert not run_all(load_settings(profile, whole), only=("labels",)).failures
    gcs, dashboard, folder = free_port(), free_port(), dagster_folder(settings)
    write_launcher(folder, dashboard)
    environment = os.environ | {
        "CPMI_HOME": str(settings.home), "CPMI_PROFILE": profile, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
        "DAGSTER_HOME": str(folder), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    with ExitStack() as stack:
        # its tables are made before two processes would make them at once
        instance = stack.enter_context(dg.DagsterInstance.from_config(str(folder)))
        nodes = []
        for address in (HEAD, OTHER):
            log = tmp_path / f"{address}.log"
            nodes.append(stack.enter_context(running(node_command(address, gcs, dashboard), environment, log)))
            wait_until(partial(has_started, nodes, log), SECONDS, f"{address} does not start")
        # both are in the queue before the daemon takes them; one after the other they could be on the same node
        runs = [launch(shard, environment) for shard in settings.shard_keys]
        daemon = ["dagster-daemon", "run", "-m", "cpmi_dagster.definitions"]
        stack.enter_context(running(daemon, environment, tmp_path / "daemon.log"))

        def ended() -> bool:
            return all(run.is_finished for run in instance.get_runs(dg.RunsFilter(run_ids=runs)))

        lost: list[str] = []
        wait_until(lambda: lost.extend(runs_on(nodes[1], folder, runs)) or lost or ended(), SECONDS, "no run")
        if not lost:
            pytest.skip("Ray has started no run on the second node, which was to be killed")
        kill(nodes[1])
        wait_until(ended, SECONDS, "the runs do not end", every=1)
        states = {run.run_id: run.status.name for run in instance.get_runs(dg.RunsFilter(run_ids=runs))}
        assert states == dict.fromkeys(runs, "SUCCESS")
        assert instance.count_resume_run_attempts(lost[0]) == 1
        key = dg.AssetKey(["labels", "step_rewards"])
        made = [record.partition_key for record in instance.fetch_materializations(key, limit=10).records]
        assert sorted(made) == settings.shard_keys
    compare(settings.home, whole)
