"""A failed run is logged and posted; nothing trains by itself."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import dagster as dg
import pytest

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import build_definitions, home_of
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.automation import FOLLOW_DATASET, FOLLOW_LABELS, LABEL, PROFILE_TAG
from cpmi_dagster.resources.dag.run_sensors import failed_runs, post


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict]]]:
    """A server's address, and what is posted to it."""
    received: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204 if self.path == "/hook" else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", received
    server.shutdown()


def settings_with(home, **orchestration) -> Settings:
    settings = load_settings("miniature", home)
    return settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update=orchestration)})


def fail(settings: Settings) -> None:
    """Evaluate the sensor on a run of shard 001 that failed."""

    @dg.op
    def labels() -> None:
        raise dg.Failure("negatives 001: trajectory t7 cannot be scored", allow_retries=False)

    @dg.job(name=LABEL)
    def job() -> None:
        labels()

    with dg.DagsterInstance.ephemeral() as instance:
        tags = {"dagster/partition": "001"}
        result = job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
        event = next(event for event in result.all_events if event.is_failure and event.is_job_event)
        with dg.build_run_status_sensor_context("failed_runs", event, instance, result.dagster_run) as context:
            failed_runs(settings)(context.for_run_failure())


def test_a_failed_run_is_one_line_of_json_in_the_log_and_is_posted(tmp_path, webhook, monkeypatch, capfd):
    monkeypatch.setenv("TEAM_WEBHOOK", webhook[0])
    for variable in (None, "TEAM_WEBHOOK"):
        fail(settings_with(tmp_path, webhook_variable=variable))
    (posted,) = webhook[1]
    assert posted["text"].endswith("of shards 001 failed: labels: negatives 001: trajectory t7 cannot be scored")
    assert (posted["profile"], posted["job"], posted["shards"]) == ("miniature", LABEL, ["001"])
    lines = [line for line in capfd.readouterr().err.splitlines() if '"shards": ["001"]' in line]
    logged = [json.loads(line[line.index("{") :]) for line in lines]
    assert len(logged) == 2 and logged[1] == posted


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "is not set"),
        ("http://127.0.0.1:9/secret", "ConnectError"),
        ("no address", "UnsupportedProtocol"),
        ("refusing", "status 500"),
    ],
)
def test_a_webhook_that_cannot_be_reached_is_no_error_and_its_address_is_not_shown(webhook, url, reason):
    url = webhook[0].replace("hook", "wrong") if url == "refusing" else url
    problem = post(url, {})
    assert reason in problem
    assert not url or url not in problem


def test_nothing_trains_by_itself_unless_somebody_turns_that_on(tmp_path):
    repository = build_definitions(home_of(load_settings("miniature", tmp_path))).get_repository_def()
    sensors = {sensor.name: sensor for sensor in repository.sensor_defs}
    assert "default_automation_condition_sensor" not in sensors
    for sensor in (FOLLOW_LABELS, FOLLOW_DATASET):
        assert sensors[sensor.name].default_status == dg.DefaultSensorStatus.STOPPED
    graph = repository.asset_graph
    followers = {key.to_user_string() for key in FOLLOW_LABELS.asset_selection.resolve(graph)}
    assert followers == {key for key, table in TABLES.items() if table.group == "dataset"}


def test_every_job_says_what_it_is_for_and_bears_the_profile(tmp_path):
    repository = build_definitions(home_of(load_settings("miniature", tmp_path))).get_repository_def()
    for job in repository.get_all_jobs():
        if not job.name.startswith("__"):
            assert len(job.description or "") > 30, job.name
    assert repository.get_job(LABEL).run_tags[PROFILE_TAG] == "miniature"


@pytest.mark.parametrize(("days", "is_watched"), [(None, False), (7.0, True)])
def test_the_data_set_is_watched_for_its_age_where_the_profile_says_so(tmp_path, days, is_watched):
    definitions = build_definitions(home_of(settings_with(tmp_path, fresh_within_days=days)))
    policies = {spec.key.to_user_string(): spec.freshness_policy for spec in definitions.resolve_all_asset_specs()}
    assert (policies["dataset/soft_labels"] is not None) == is_watched
    assert policies["labels/step_rewards"] is None
