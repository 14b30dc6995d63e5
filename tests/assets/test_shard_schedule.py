"""The schedule, tick by tick: it asks for what is missing, within a tick's limits, and gives up."""

from collections import Counter
from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._core.definitions.schedule_definition import ScheduleExecutionData

from cpmi_dagster.contracts.keys import SELECTED
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import build_definitions
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.automation import LABEL, LABEL_TABLES, SHARDS_TAG
from cpmi_dagster.resources.dag.failed_runs import FIRST_TAG, failures_of, range_tags, shards_of
from cpmi_dagster.resources.dag.materializations import asset_key
from cpmi_dagster.resources.dag.shard_schedule import NOTHING_TO_DO, stretches
from cpmi_dagster.resources.dag.states import CURRENT, State, States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord


class World:
    """A home whose shards are labelled by marking them, and the schedule's ticks on it.

    `stale` holds the shards whose files count as stale.

    Args:
        failing: how often labeling a shard fails; those not named never.
    """

    def __init__(
        self, settings: Settings, instance: dg.DagsterInstance, failing: dict[str, int], stale: set[str]
    ) -> None:
        self.settings, self.instance, self.lake = settings, instance, Lake.of(settings)
        self.failing, self.stale = failing, stale
        definitions = build_definitions(settings)
        self.repository = definitions.get_repository_def()
        self.schedule = definitions.resolve_schedule_def("missing_or_failed_shards")
        self.lake.write(TABLES[SELECTED].schema.create_empty(), FileRecord(SELECTED, None, "r", "", "1"))

    def tick(self) -> ScheduleExecutionData:
        with dg.build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=datetime.now(UTC),
            repository_def=self.repository,
            resources={"lake": self.lake},
        ) as context:
            return self.schedule.evaluate_tick(context)

    def label(self, request: dg.RunRequest) -> list[str]:
        """A Dagster run that marks the shards of a request as labelled, but for those that fail."""
        job = dg.GraphDefinition(LABEL).to_job()
        run = self.instance.create_run_for_job(job, tags=dict(request.tags))
        shards = shards_of(run, self.settings)
        failed = [shard for shard in shards if self.failing.get(shard, 0) > 0]
        self.failing.update({shard: self.failing[shard] - 1 for shard in failed})
        for shard in shards:
            if shard not in failed:
                self._mark(run.run_id, shard)
        if failed:
            self.instance.report_run_failed(run)
        return shards

    def _mark(self, run_id: str, shard: str) -> None:
        for key in LABEL_TABLES:
            self.lake.write(TABLES[key].schema.create_empty(), FileRecord(key, shard, run_id, "", "1"))
            self.instance.report_runless_asset_event(dg.AssetMaterialization(asset_key(key), partition=shard))


@pytest.fixture
def world(tmp_path, tmp_path_factory, monkeypatch):
    """Makes a world of twelve shards; files count as stale where a test says so."""
    stale: set[str] = set()
    changed = State("other", "changed")
    monkeypatch.setattr(States, "state", lambda _, key, shard: changed if shard in stale else CURRENT)
    # a tick needs an instance that it can open by its folder
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:

        def build(failing=(), **orchestration) -> World:
            settings = load_settings("miniature", tmp_path)
            changed = settings.orchestration.model_copy(update=orchestration)
            settings = settings.model_copy(update={"shards": 12, "orchestration": changed})
            return World(settings, instance, dict(failing), stale)

        yield build


def shards_asked_for(world: World, data: ScheduleExecutionData) -> list[list[str]]:
    job = dg.GraphDefinition(LABEL).to_job()
    runs = [world.instance.create_run_for_job(job, tags=dict(r.tags)) for r in data.run_requests or []]
    found = [shards_of(run, world.settings) for run in runs]
    for run in runs:
        world.instance.delete_run(run.run_id)
    return found


@pytest.mark.slow
def test_ticks_ask_for_every_shard_try_failed_ones_again_and_give_up(world):
    here = world(failing={"002": 1, "005": 99}, shards_per_tick=3, attempts=3)
    asked: Counter[str] = Counter()
    largest, warned = 0, ""
    for _ in range(8):
        data = here.tick()
        taken = [here.label(request) for request in data.run_requests or []]
        largest = max(largest, sum(map(len, taken)))
        asked.update(shard for shards in taken for shard in shards)
        warned = data.skip_message or warned
    assert asked == Counter(dict.fromkeys(here.settings.shard_keys, 1) | {"002": 2, "005": 3})
    assert largest == 3
    assert sorted(here.lake.partitions("labels/step_rewards")) == [s for s in here.settings.shard_keys if s != "005"]
    assert "given up after 3 failed runs: 005" in warned


def test_a_failed_shard_runs_alone_and_last(world):
    here = world(failing={"001": 1}, shards_per_tick=4, shards_per_run=4)
    data = here.tick()
    assert shards_asked_for(here, data) == [["000", "001", "002", "003"]]
    here.label(data.run_requests[0])
    assert shards_asked_for(here, here.tick()) == [["004", "005", "006", "007"]]
    for shard in here.settings.shard_keys[4:]:
        here._mark("r", shard)
    (request,) = here.tick().run_requests
    assert (request.partition_key, request.tags[SHARDS_TAG]) == ("001", "001")


def test_a_run_and_its_restarts_are_one_attempt(world):
    here, job, tags = world(attempts=2), dg.GraphDefinition(LABEL).to_job(), range_tags(["000", "001"])
    first = here.instance.create_run_for_job(job, tags=tags)
    restart = here.instance.create_run_for_job(job, tags=tags, root_run_id=first.run_id, parent_run_id=first.run_id)
    for run, attempts in ((first, 1), (restart, 1), (here.instance.create_run_for_job(job, tags=tags), 2)):
        here.instance.report_run_failed(run)
        counted = failures_of(here.instance, here.settings, ["000", "001", "002"], LABEL)
        assert counted == {"000": attempts, "001": attempts, "002": 0}
    assert shards_asked_for(here, here.tick())[0][0] == "002"


def test_stale_shards_are_asked_for_in_stretches_with_the_missing_ones(world):
    here = world(shards_per_tick=8, shards_per_run=2)
    for shard in here.settings.shard_keys[:10]:
        here._mark("r", shard)
    here.stale.update({"003", "004", "005"})
    data = here.tick()
    assert shards_asked_for(here, data) == [["003", "004"], ["005"], ["010", "011"]]
    assert [request.tags[SHARDS_TAG] for request in data.run_requests] == ["003-004", "005", "010-011"]
    assert data.run_requests[0].tags[FIRST_TAG] == "003"


def test_several_gpus_each_get_a_run(world):
    here = world(gpus=4, shards_per_tick=4, shards_per_run=4)
    assert shards_asked_for(here, here.tick()) == [["000"], ["001"], ["002"], ["003"]]


def test_a_shard_that_was_made_since_has_its_failures_forgiven(world):
    here = world(failing={"000": 1}, attempts=1, shards_per_tick=1)
    here.label(here.tick().run_requests[0])
    assert shards_asked_for(here, here.tick()) == [["001"]]
    here._mark("by hand", "000")
    here.lake.paths("labels/step_rewards", "000")[0].unlink()
    assert shards_asked_for(here, here.tick()) == [["000"]]


def test_before_the_selection_and_where_all_is_labelled_nothing_is_asked_for(world):
    here = world()
    for shard in here.settings.shard_keys:
        here._mark("r", shard)
    assert here.tick().skip_message == NOTHING_TO_DO
    here.lake.paths(SELECTED)[0].unlink()
    assert "run the job `ingest` first" in (here.tick().skip_message or "")


def test_stretches_are_of_neighbours():
    assert list(stretches(["000", "001", "002", "005", "006"], 2)) == [["000", "001"], ["002"], ["005", "006"]]
    assert list(stretches([], 2)) == []


def test_a_run_of_recipes_is_of_no_shard(tmp_path):
    settings = load_settings("miniature", tmp_path)
    runs = [dg.DagsterRun("j", tags=tags) for tags in ({"dagster/partition": "mc_bce"}, {}, range_tags(["001", "002"]))]
    assert [shards_of(run, settings) for run in runs] == [[], [], ["001", "002"]]
