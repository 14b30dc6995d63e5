"""How fast the Dagster UI answers after weeks: a long history in PostgreSQL and in SQLite, asked by GraphQL.

    python performance/postgres_history.py --runs 200 --shards 40

Each run labels every shard: a planned and a made materialization for each label table and shard, with the metadata that
a run has. Dagster writes them by its own interface. Then a webserver on 127.0.0.1 is asked, `--repeats` times, what its
pages ask. One process asks, so these are times without other load.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._core.events import (
    DagsterEvent,
    DagsterEventBatchMetadata,
    DagsterEventType,
    StepMaterializationData,
    generate_event_batch_id,
)
from dagster._core.execution.plan.objects import StepSuccessData
from postgres_server import free_port, temporary_server

from cpmi_dagster.definitions import build_definitions
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.automation import LABEL, LABEL_TABLES
from cpmi_dagster.resources.dag.dagster_home import write_dagster_yaml
from cpmi_dagster.resources.web.dagster_server import WORKSPACE

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
EVERY_FAILING = 20
BATCH = 400
START_SECONDS = 120
QUERIES = {
    "runs page": """{
        runsFeedOrError(limit: 30, view: ROOTS) { ... on RunsFeedConnection {
            results { id runStatus creationTime startTime endTime jobName tags { key value } assetSelection { path } }
            cursor hasMore } }
        runsFeedCountOrError(view: ROOTS) { ... on RunsFeedCount { count } } }""",
    "asset page": """query ($key: AssetKeyInput!) {
        assetNodeOrError(assetKey: $key) { ... on AssetNode {
            id description groupName kinds staleStatus dependencyKeys { path } dependedByKeys { path }
            partitionStats { numMaterialized numPartitions numFailed numMaterializing } } }
        assetOrError(assetKey: $key) { ... on Asset { assetMaterializations(limit: 100) {
            runId partition timestamp stepKey metadataEntries { label ... on MarkdownMetadataEntry { mdStr }
            ... on IntMetadataEntry { intValue } ... on FloatMetadataEntry { floatValue } } } } }
        assetsLatestInfo(assetKeys: [$key]) {
            latestMaterialization { runId timestamp } inProgressRunIds unstartedRunIds latestRun { id status } } }""",
    "partitions": """query ($key: AssetKeyInput!) {
        assetNodeOrError(assetKey: $key) { ... on AssetNode {
            id partitionKeysByDimension { name partitionKeys }
            partitionStats { numMaterialized numPartitions numFailed numMaterializing }
            assetPartitionStatuses { ... on DefaultPartitionStatuses {
                materializedPartitions failedPartitions unmaterializedPartitions materializingPartitions } }
            latestMaterializationByPartition { runId partition timestamp } } } }""",
    "asset graph": """{
        assetNodes { id assetKey { path } staleStatus
            partitionStats { numMaterialized numPartitions numFailed numMaterializing } } }""",
}


def fill(instance: dg.DagsterInstance, settings: Settings, runs: int) -> int:
    """Write the history of `runs` runs, every twentieth of them failed; returns the number of events."""
    from dagster._core.execution.api import create_execution_plan

    job = build_definitions(settings).resolve_job_def(LABEL)
    first, last = settings.shard_keys[0], settings.shard_keys[-1]
    tags = {RANGE_START: first, RANGE_END: last, "cpmi/profile": settings.profile}
    plan, events = create_execution_plan(job, tags=tags), 0
    for number in range(1, runs + 1):
        run = instance.create_run_for_job(job, plan, tags=tags, status=dg.DagsterRunStatus.NOT_STARTED)
        _report(instance, run, DagsterEventType.RUN_START)
        for table in LABEL_TABLES:
            _label(instance, run, table, settings.shard_keys)
        failed = number % EVERY_FAILING == 0
        _report(instance, run, DagsterEventType.RUN_FAILURE if failed else DagsterEventType.RUN_SUCCESS)
        events = events or len(instance.all_logs(run.run_id))
    return runs * events


def _label(instance: dg.DagsterInstance, run: dg.DagsterRun, table: str, shards: list[str]) -> None:
    step = table.replace("/", "__")
    _report(instance, run, DagsterEventType.STEP_START, step)
    batch = generate_event_batch_id()
    for shard in shards:
        made = dg.AssetMaterialization(table.split("/"), metadata=_metadata(shard), partition=shard)
        event = _event(run, DagsterEventType.ASSET_MATERIALIZATION, step, StepMaterializationData(made, []))
        end = DagsterEventBatchMetadata(batch, shard == shards[-1])
        instance.report_dagster_event(event, run.run_id, batch_metadata=end)
    _report(instance, run, DagsterEventType.STEP_SUCCESS, step, StepSuccessData(1000.0))


def _metadata(shard: str) -> dict[str, Any]:
    row = f"| t0000{shard}017 | 3 | marginal | 0 | -1.204 | -0.881 | -0.323 |"
    head = "| trajectory_id | step_index | conditioning | template | gold_shift | negative_shift | cpmi |"
    return {
        "dagster/row_count": 48_211,
        "fingerprint": f"{shard}c0ffee" * 6,
        "preview": dg.MetadataValue.md("\n".join([head, "|---" * 7 + "|", *[row] * 5])),
        "seconds": 41.7,
        "cost": {"wall_seconds": 41.7, "forward_tokens": 1_204_881, "generated_tokens": 3_100},
    }


def _report(instance: dg.DagsterInstance, run: dg.DagsterRun, kind: DagsterEventType, *rest: Any) -> None:
    instance.report_dagster_event(_event(run, kind, *rest), run.run_id)


def _event(run: dg.DagsterRun, kind: DagsterEventType, step: str | None = None, data: Any = None) -> DagsterEvent:
    return DagsterEvent(kind.value, run.job_name, step_key=step, event_specific_data=data, message=kind.value)


@contextmanager
def webserver(settings: Settings, profile: Path) -> Iterator[str]:
    """The address of the GraphQL of a webserver for a home, once it answers."""
    port = free_port()
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(settings.home / "dagster"),
        "CPMI_HOME": str(settings.home),
        "CPMI_PROFILE": str(profile),
    }
    command = [sys.executable, "-m", "dagster_webserver", "-w", WORKSPACE, "-h", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/graphql"
    try:
        _wait_for(address)
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            ask(address, "{ version }")
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def ask(address: str, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The data of a GraphQL reply.

    Raises:
        SystemExit: the reply holds errors.
    """
    body = json.dumps({"query": query, "variables": variables or {}}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        answer = json.load(reply)
    if "errors" in answer:
        raise SystemExit(f"the webserver refused a query: {answer['errors'][0]['message']}")
    return answer["data"]


def measure(address: str, repeats: int) -> dict[str, list[float]]:
    """Seconds of each query, after one that is not counted."""
    key = {"key": {"path": ["labels", "template_scores"]}}
    seconds: dict[str, list[float]] = {name: [] for name in QUERIES}
    for round_number in range(repeats + 1):
        for name, query in QUERIES.items():
            began = time.perf_counter()
            ask(address, query, key if "$key" in query else None)
            if round_number:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def measure_store(name: str, folder: Path, runs: int, shards: int, repeats: int, postgres: dict | None) -> None:
    """Fill one store, ask, and print its rows."""
    profile = folder / f"{name.lower()}.yaml"
    orchestration = {"orchestration": {"postgres": postgres}} if postgres else {}
    profile.write_text(yaml.safe_dump({"extends": "miniature", "shards": shards, **orchestration}))
    settings = load_settings(profile, folder / name)
    began = time.perf_counter()
    with dg.DagsterInstance.from_config(str(write_dagster_yaml(settings))) as instance:
        # keeps connections open; a run opens one for every event
        instance.optimize_for_webserver(statement_timeout=60_000, pool_recycle=-1, max_overflow=10)
        events = fill(instance, settings, runs)
    print(f"{name}: {runs} runs, {events:,} events written in {time.perf_counter() - began:.0f} s", flush=True)
    with webserver(settings, profile) as address:
        for query, seconds in measure(address, repeats).items():
            print(f"{name:<12}{query:<14}{statistics.median(seconds):>8.3f}{max(seconds):>9.3f}", flush=True)


def main() -> None:
    """Fill both stores and print median and slowest answer of each page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--shards", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", choices=["PostgreSQL", "SQLite"])
    arguments = parser.parse_args()
    os.environ["DAGSTER_EVENT_BATCH_SIZE"] = str(BATCH)
    sizes = (arguments.runs, arguments.shards, arguments.repeats)
    print(f"{'store':<12}{'page':<14}{'median':>8}{'slowest':>9}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if arguments.only != "SQLite":
            server = stack.enter_context(temporary_server())
            os.environ["PG_PASSWORD"] = server.password
            postgres = {"host": "127.0.0.1", "port": server.port}
            measure_store("PostgreSQL", folder, *sizes, postgres)
        if arguments.only != "PostgreSQL":
            measure_store("SQLite", folder, *sizes, None)


if __name__ == "__main__":
    main()
