"""What Dagster's own pages say and launch: stale marks, one shard from nothing, tables alone, everything by itself."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import httpx2
import pytest
from small_run import SMALL, write_profile
from waiting import free_port, wait_until

from cpmi_dagster.contracts.keys import LOGPROBS, REJECTED_ROWS, REPORT, SELECTED, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.definitions import build_definitions, home_of, home_status
from cpmi_dagster.profiles.partitions import needed_assets
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.general_checks import IS_CURRENT, KEEPS_CONTRACT
from cpmi_dagster.resources.dag.instance import open_instance, recorded_instance
from cpmi_dagster.resources.dag.jobs import INGEST, JUDGE_FILES
from cpmi_dagster.resources.dag.presentation import code_version
from cpmi_dagster.resources.dag.stage import asset_key
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("published_at_the_end")]
EDITS: dict[str, dict[str, Any]] = {
    "scoring.templates: 4, now 2": {"scoring": {"templates": 2}},
    "seed: 0, now 5": {"seed": 5},
    "rewards.alpha_read: 1.0, now 0.3": {"rewards": {"alpha": 0.3}},
    "needed negatives: 4, now 3": {"negatives": {"count": 3}},
    "rollouts.policy_count: 2, now 3": {"rollouts": {"policy_count": 3}},
    "soft_labels.clip: none, now 6.0": {"soft_labels": {"clip": 6.0}},
    "selection.trajectories: 16, now 12": {"selection": {"trajectories": 12}},
    "benchmarks.bootstrap_samples: 50, now 60": {"benchmarks": {"bootstrap_samples": 60}},
    "benchmarks.candidates: 2, now 3": {"benchmarks": {"candidates": 3}},
    "recipe.training.epochs: 1.0, now 2": {"training": {"epochs": 2}},
}
"""What the checks say, by what was edited."""


def edited(settings: Settings, edit: dict[str, Any]) -> Settings:
    """The settings with some of their values changed."""
    changes = {
        name: getattr(settings, name).model_copy(update=value) if isinstance(value, dict) else value
        for name, value in edit.items()
    }
    return settings.model_copy(update=changes)


def test_after_ten_edits_the_checks_say_what_status_says_and_unsynced_selections_follow(own_copy):
    now = [own_copy]
    home = home_of(own_copy)
    definitions = build_definitions(home, lambda: home_of(now[0]).states())
    job = definitions.resolve_job_def(JUDGE_FILES)
    before = {key: code_version(home.stages[key], home) for key in needed_assets(own_copy)}
    for words, edit in EDITS.items():
        now[0] = settings = edited(own_copy, edit)
        with open_instance(own_copy) as instance:
            result = job.execute_in_process(instance=instance)
        said = {each.asset_key.to_user_string(): each for each in result.get_asset_check_evaluations()}
        shown = {asset.key: "stale" in asset.partitions.values() for asset in home_status(settings)}
        assert {key: not evaluation.passed for key, evaluation in said.items()} == {key: shown[key] for key in said}
        stale = {key for key, evaluation in said.items() if not evaluation.passed}
        assert said.keys() == before.keys() and stale, edit
        assert all(str(said[key].description).partition(words)[1] for key in stale), said
        anew = home_of(settings)
        assert {key for key in before if code_version(anew.stages[key], anew) != before[key]} == stale, edit
    (own_copy.home / "report" / "index.html").write_text("another")
    is_current, reason = home_of(own_copy).states().explain(REPORT)
    assert not is_current and reason == "files of reports/report are missing, or others than it wrote"


def test_a_check_that_dagster_no_longer_shows_is_asked_for_again_and_then_the_watch_rests(own_copy):
    definitions = build_definitions(home_of(own_copy))
    job, repository = definitions.resolve_job_def(JUDGE_FILES), definitions.get_repository_def()
    with open_instance(own_copy) as instance:

        def requests() -> Sequence[dg.RunRequest]:
            with dg.build_sensor_context(instance, repository_def=repository) as context:
                return repository.get_sensor_def("watch_home").evaluate_tick(context).run_requests or []

        def settle() -> None:
            for request in requests():
                job.execute_in_process(instance=instance, tags=dict(request.tags))
            assert not requests()

        settle()
        for _ in range(2):  # as by runs that began before the check
            instance.report_runless_asset_event(dg.AssetMaterialization(asset_key(STEP_REWARDS), partition="000"))
            assert len(requests()) == 1
            settle()


def test_one_shard_is_made_from_nothing_by_one_run_and_each_table_can_be_made_alone(small_profile, tmp_path):
    settings = load_settings(small_profile, tmp_path)
    definitions = build_definitions(home_of(settings))
    graph, every = definitions.resolve_asset_graph(), definitions.resolve_implicit_global_asset_job_def()
    upstream = dg.AssetSelection.assets(asset_key(STEP_REWARDS)).upstream().resolve(graph)
    lake = Lake.of(settings)
    with open_instance(settings) as instance:
        one = every.get_subset(asset_selection=upstream).execute_in_process(instance=instance, partition_key="001")
        assert one.success
        assert lake.partitions(STEP_REWARDS) == ["001"] and lake.partitions(SELECTED) == settings.shard_keys
        for key, partition, companion in (REJECTED_ROWS, None, TRAJECTORIES), (LOGPROBS, "001", None):
            alone = every.get_subset(asset_selection={asset_key(key)})
            result = alone.execute_in_process(instance=instance, partition_key=partition)
            made = {event.asset_key for event in result.get_asset_materialization_events()}
            assert made == {asset_key(name) for name in (key, companion) if name}
            checks = {each.check_name for each in result.get_asset_check_evaluations() if each.passed}
            assert {IS_CURRENT, KEEPS_CONTRACT} <= checks
        assert definitions.resolve_job_def(INGEST).execute_in_process(instance=instance).success


TINY = SMALL | {
    "profile": "tiny",
    "shards": 2,
    "selection": {"trajectories": 8},
    "rewards": {"types": ["cpmi", "step_length", "truth"]},
    "models": {"prover": None, "policy": None},
    "recipes": [{"name": "cpmi_bce", "reward_type": "cpmi"}],
    "orchestration": {"schedule": "* * * * *"},
}
START_SCHEDULE = "mutation($at: ScheduleSelector!) { startSchedule(scheduleSelector: $at) { __typename } }"
START_SENSOR = "mutation($at: SensorSelector!) { startSensor(sensorSelector: $at) { __typename } }"
BACKFILL = """mutation($assets: [AssetKeyInput!]!) { launchPartitionBackfill(
    backfillParams: {assetSelection: $assets, allPartitions: true}) { __typename ... on PythonError { message } } }"""


class Pages:
    """The GraphQL of `cpmi ui`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/graphql"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        reply = httpx2.post(self.url, json={"query": query, "variables": variables}, timeout=60).json()
        assert "errors" not in reply, reply
        return reply["data"]

    def answers(self) -> bool:
        with suppress(httpx2.HTTPError, json.JSONDecodeError):
            return bool(self.ask("{ assetNodes { id } }")["assetNodes"])
        return False


@pytest.fixture
def tiny(tmp_path) -> Settings:
    """A profile of minutes, with an empty home."""
    values = {**TINY, "benchmarks": {"best_of_n": [], "bootstrap_samples": 20}}
    values["sources"] = {"benchmarks": {"processbench_gsm8k": {"path": "miniature:processbench_gsm8k", "limit": 8}}}
    return load_settings(write_profile(tmp_path / "tiny.yaml", values), tmp_path / "home")


@pytest.fixture
def pages(tiny) -> Iterator[Pages]:
    """The webserver and daemon of the tiny home."""
    port = free_port()
    command = [sys.executable, "-m", "cpmi_dagster", "ui", "-p", tiny.given, "--port", str(port)]
    with (tiny.home.parent / "ui.log").open("w") as log:
        server = subprocess.Popen(
            command,
            env={**os.environ, "CPMI_HOME": str(tiny.home)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            pages = Pages(port)
            wait_until(pages.answers, 180, "the webserver does not answer", every=1)
            yield pages
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                server.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def test_an_empty_home_with_everything_switched_on_ends_in_a_report_and_then_nothing_is_asked_for(pages, tiny):
    here = {"repositoryName": "__repository__", "repositoryLocationName": "cpmi"}
    pages.ask(START_SCHEDULE, at={**here, "scheduleName": "missing_or_failed_shards"})
    for sensor in ("follow_sources", "follow_labels", "follow_dataset"):
        pages.ask(START_SENSOR, at={**here, "sensorName": sensor})
    with recorded_instance(tiny) as instance:
        made = partial(instance.get_latest_materialization_event, asset_key(REPORT))
        wait_until(made, 900, "there is no report", every=2)
        runs = instance.get_runs()
        assert not [run for run in runs if run.is_failure_or_canceled]
        labelled = sorted(run.tags["dagster/partition"] for run in runs if run.job_name == "label_shards")
        assert labelled == tiny.shard_keys
        check = dg.AssetCheckKey(asset_key(STEP_REWARDS), KEEPS_CONTRACT)
        passed = instance.event_log_storage.get_asset_check_execution_history(check, limit=9)
        assert sorted((str(each.partition), each.status.value) for each in passed) == [
            (shard, "SUCCEEDED") for shard in tiny.shard_keys
        ]
        repository = build_definitions(home_of(tiny)).get_repository_def()
        for _ in range(10):
            for sensor in (each for each in repository.sensor_defs if each.name.startswith("follow_")):
                with dg.build_sensor_context(instance, repository_def=repository) as context:
                    assert not sensor.evaluate_tick(context).run_requests, sensor.name
            schedule = repository.get_schedule_def("missing_or_failed_shards")
            with dg.build_schedule_context(
                instance, scheduled_execution_time=datetime.now(UTC), repository_def=repository
            ) as context:
                assert not schedule.evaluate_tick(context).run_requests
    assets = [{"path": key.split("/")} for key in needed_assets(tiny)]
    assert pages.ask(BACKFILL, assets=assets)["launchPartitionBackfill"]["__typename"] == "LaunchBackfillSuccess"
    assert (Path(tiny.home) / "report" / "index.html").is_file()
