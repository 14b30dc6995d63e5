"""What happens without somebody who asks: the schedule, tick by tick, and the sensor of failed runs."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import dagster as dg
import pytest
from dagster._core.definitions.schedule_definition import ScheduleExecutionData

from cpmi_dagster.contracts.keys import SELECTED, TRUTH
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import build_definitions, home_of
from cpmi_dagster.files.locks import hold
from cpmi_dagster.profiles.partitions import partitions_of
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.instance import ALIVE, PARTITION_TAG, dagster_folder
from cpmi_dagster.resources.dag.jobs import INGEST, LABEL, label_tables, phases
from cpmi_dagster.resources.dag.sensors import NOTHING_TO_DO, Due, failed_runs, failure_facts, requests_of
from cpmi_dagster.resources.dag.stage import asset_key
from cpmi_dagster.resources.dag.states import CURRENT, MISSING, State, States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record


def settings_with(home, **orchestration) -> Settings:
    settings = load_settings("miniature", home)
    return settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update=orchestration)})


class World:
    """A home of six shards that are labelled by marking them, and the schedule's ticks on it.

    Args:
        failing: how often labeling a shard fails; those not named never.
        stale: the shards whose files count as stale.
    """

    def __init__(self, settings: Settings, instance: dg.DagsterInstance, failing: dict[str, int], stale: set[str]):
        self.settings, self.instance, self.lake = settings, instance, Lake.of(settings)
        self.failing, self.stale = failing, stale
        definitions = build_definitions(home_of(settings))
        self.repository = definitions.get_repository_def()
        self.schedule = definitions.resolve_schedule_def("missing_or_failed_shards")
        for key in phases(settings)[INGEST]:
            for shard in partitions_of(key, settings) or [None]:
                self.lake.write(TABLES[key].schema.create_empty(), Record(key, shard, "key", "r"))

    def tick(self) -> ScheduleExecutionData:
        now, repository = datetime.now(UTC), self.repository
        with dg.build_schedule_context(self.instance, scheduled_execution_time=now, repository_def=repository) as asked:
            return self.schedule.evaluate_tick(asked)

    def asks_for(self) -> list[str | None]:
        return [request.partition_key for request in self.tick().run_requests or []]

    def label(self, request: dg.RunRequest) -> str:
        """A Dagster run that marks the shard of a request as labelled, if it does not fail."""
        tags = dict(request.tags) | {PARTITION_TAG: request.partition_key}
        run = self.instance.create_run_for_job(self.repository.get_job(LABEL), tags=tags)
        shard = tags[PARTITION_TAG]
        if self.failing.get(shard, 0) > 0:
            self.failing[shard] -= 1
            self.instance.report_run_failed(run)
        else:
            self.mark(shard, run.run_id)
        return shard

    def mark(self, shard: str, run_id: str = "r") -> None:
        """Write the labels of a shard, and have Dagster know of it."""
        for key in label_tables(self.settings):
            self.lake.write(TABLES[key].schema.create_empty(), Record(key, shard, "key", run_id))
            self.instance.report_runless_asset_event(dg.AssetMaterialization(asset_key(key), partition=shard))


@pytest.fixture
def world(tmp_path, tmp_path_factory, monkeypatch):
    stale: set[str] = set()

    def state(states: States, key: str, shard: str | None = None) -> State:
        is_stale = key.startswith("labels/") and shard in stale
        return State("stale", "changed") if is_stale else CURRENT if states.lake.has_file(key, shard) else MISSING

    monkeypatch.setattr(States, "state", state)
    # a tick needs an instance that it can open by its folder
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:

        def build(failing=(), **orchestration) -> World:
            settings = settings_with(tmp_path, **orchestration).model_copy(update={"shards": 6})
            return World(settings, instance, dict(failing), stale)

        yield build


def test_ticks_ask_for_every_shard_failed_ones_last_and_again_and_then_for_stale_ones(world):
    here = world(failing={"001": 1, "003": 99}, shards_per_tick=4)
    asked: Counter[str] = Counter()
    for tick in range(5):
        requests = here.tick().run_requests
        assert len(requests) <= 4
        if tick == 1:
            assert [request.partition_key for request in requests] == ["004", "005", "001", "003"]
        asked.update(map(here.label, requests))
    assert asked["001"] == 2 and asked["003"] > 2 and asked.total() == 4 + 2 + asked["003"]
    here.mark("003")
    assert here.tick().skip_message == NOTHING_TO_DO
    here.stale.update({"000", "002"})
    here.lake.path("labels/step_rewards", "005").unlink()
    assert here.asks_for() == ["000", "002", "005"]


def test_a_shard_that_is_being_labelled_is_not_asked_for_and_a_run_without_a_process_is_ended(world):
    here = world(shards_per_tick=1)
    run = here.instance.create_run_for_job(here.repository.get_job(LABEL), tags={PARTITION_TAG: "000"})
    here.instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", LABEL), run.run_id)
    lock = hold(dagster_folder(here.settings) / ALIVE / f"{run.run_id}.lock")
    assert here.asks_for() == ["001"]
    assert not here.instance.get_run_by_id(run.run_id).is_finished
    del lock  # as after a kill
    watch = here.repository.get_sensor_def("watch_home")
    with dg.build_sensor_context(here.instance, repository_def=here.repository) as context:
        watch.evaluate_tick(context)
    assert here.instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE
    for shard in here.settings.shard_keys:
        here.lake.path(SELECTED, shard).unlink()
    assert "run the job `ingest` first" in (here.tick().skip_message or "")


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict]]]:
    """A server's address, and what is posted to it."""
    received: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", received
    server.shutdown()


def test_a_failed_run_is_one_line_of_json_in_the_log_and_is_posted(tmp_path, webhook, monkeypatch, capfd):
    @dg.op
    def labels() -> None:
        raise dg.Failure("negatives 001: trajectory t7 cannot be scored", allow_retries=False)

    @dg.job(name=LABEL)
    def job() -> None:
        labels()

    monkeypatch.setenv("TEAM_WEBHOOK", webhook[0])
    with dg.DagsterInstance.ephemeral() as instance:
        tags = {"dagster/partition": "001"}
        result = job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
        event = next(event for event in result.all_events if event.is_failure and event.is_job_event)
        with dg.build_run_status_sensor_context("failed_runs", event, instance, result.dagster_run) as context:
            failed_runs(settings_with(tmp_path, webhook_variable="TEAM_WEBHOOK"))(context.for_run_failure())
    (posted,) = webhook[1]
    assert posted["text"].endswith("of shard 001 failed: labels: negatives 001: trajectory t7 cannot be scored")
    assert (posted["profile"], posted["job"], posted["shards"]) == ("miniature", LABEL, ["001"])
    (line,) = [line for line in capfd.readouterr().err.splitlines() if '"shards": ["001"]' in line]
    assert json.loads(line[line.index("{") :]) == posted


def test_a_run_that_is_killed_says_so_and_one_without_a_job_has_a_name(tmp_path):
    settings = load_settings("miniature", tmp_path)
    definitions = build_definitions(home_of(settings))
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        run = instance.create_run_for_job(job.get_subset(asset_selection={asset_key(TRUTH)}))
        event = instance.report_run_failed(run)
        with dg.build_run_status_sensor_context("failed_runs", event, instance, run) as context:
            text = str(failure_facts(context.for_run_failure(), settings)["text"])
    assert "a materialization failed: The process of this run ended silently (killed, or out of memory)" in text


def test_nothing_trains_by_itself_unless_turned_on_and_only_the_watch_of_the_home_is_on(tmp_path):
    repository = build_definitions(home_of(load_settings("miniature", tmp_path))).get_repository_def()
    sensors = {sensor.name: sensor.default_status for sensor in repository.sensor_defs}
    assert {name for name, status in sensors.items() if status == dg.DefaultSensorStatus.RUNNING} == {
        "watch_home",
        "failed_runs",
    }
    assert {"follow_sources", "follow_labels", "follow_dataset"} < {*sensors}


def test_a_request_that_failed_is_not_made_again_until_something_has_changed():
    due = [Due("build_dataset", None, "labels have changed")]
    with dg.DagsterInstance.ephemeral() as instance:

        @dg.job(name="build_dataset")
        def job() -> None: ...

        (request,) = requests_of(instance, iter(due))
        run = instance.create_run_for_job(job, tags=dict(request.tags))
        assert "is at work" in requests_of(instance, iter(due)).skip_message
        instance.report_run_failed(run)
        assert "failed in run" in requests_of(instance, iter(due)).skip_message
        assert requests_of(instance, iter([due[0]._replace(reason="they have changed again")]))
