"""The schedule, tick by tick: it asks for what is missing or failed, within a tick's limits."""

from collections import Counter
from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._core.definitions.schedule_definition import ScheduleExecutionData

from cpmi_dagster.contracts.keys import SELECTED
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import build_definitions, home_of
from cpmi_dagster.files.life_locks import hold
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.asset_keys import asset_key
from cpmi_dagster.resources.dag.automation import (
    FIRST_TAG,
    LABEL,
    LABEL_TABLES,
    LAST_TAG,
    PARTITION_TAG,
    SHARDS_TAG,
    shards_of,
)
from cpmi_dagster.resources.dag.dagster_home import dagster_folder
from cpmi_dagster.resources.dag.run_life import ALIVE
from cpmi_dagster.resources.dag.shard_schedule import NOTHING_TO_DO
from cpmi_dagster.resources.dag.states import CURRENT, MISSING, State, States
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import Record


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
        definitions = build_definitions(home_of(settings))
        self.repository = definitions.get_repository_def()
        self.schedule = definitions.resolve_schedule_def("missing_or_failed_shards")
        for shard in settings.shard_keys:
            self.lake.write(TABLES[SELECTED].schema.create_empty(), Record(SELECTED, shard, "key", "r"))

    def tick(self) -> ScheduleExecutionData:
        with dg.build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=datetime.now(UTC),
            repository_def=self.repository,
        ) as context:
            return self.schedule.evaluate_tick(context)

    def label(self, request: dg.RunRequest) -> str:
        """A Dagster run that marks the shard of a request as labelled, if it does not fail."""
        tags = dict(request.tags) | {PARTITION_TAG: request.partition_key}
        run = self.instance.create_run_for_job(self.repository.get_job(LABEL), tags=tags)
        (shard,) = shards_of(run, self.settings)
        if self.failing.get(shard, 0) > 0:
            self.failing[shard] -= 1
            self.instance.report_run_failed(run)
        else:
            self.mark(run.run_id, shard)
        return shard

    def mark(self, run_id: str, shard: str) -> None:
        """Write the labels of a shard, and have Dagster know of it."""
        for key in LABEL_TABLES:
            self.lake.write(TABLES[key].schema.create_empty(), Record(key, shard, "key", run_id))
            self.instance.report_runless_asset_event(dg.AssetMaterialization(asset_key(key), partition=shard))


@pytest.fixture
def world(tmp_path, tmp_path_factory, monkeypatch):
    """Makes a world of twelve shards; files count as stale where a test says so."""
    stale: set[str] = set()
    changed = State("other", "changed")

    def state(states: States, key: str, shard: str) -> State:
        return changed if shard in stale else CURRENT if states.lake.has(key, shard) else MISSING

    monkeypatch.setattr(States, "state", state)
    # a tick needs an instance that it can open by its folder
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:

        def build(failing=(), **orchestration) -> World:
            settings = load_settings("miniature", tmp_path)
            changed = settings.orchestration.model_copy(update=orchestration)
            settings = settings.model_copy(update={"shards": 12, "orchestration": changed})
            return World(settings, instance, dict(failing), stale)

        yield build


def shards_asked_for(data: ScheduleExecutionData) -> list[str | None]:
    return [request.partition_key for request in data.run_requests or []]


def test_ticks_ask_for_every_shard_and_try_failed_ones_again(world):
    here = world(failing={"002": 1, "005": 99}, shards_per_tick=3)
    asked: Counter[str] = Counter()
    for _ in range(8):
        data = here.tick()
        assert len(data.run_requests or []) <= 3
        asked.update(here.label(request) for request in data.run_requests or [])
    assert asked["002"] == 2 and asked["005"] > 2
    assert {asked[shard] for shard in here.settings.shard_keys if shard not in ("002", "005")} == {1}
    assert sorted(here.lake.partitions("labels/step_rewards")) == [s for s in here.settings.shard_keys if s != "005"]


def test_a_shard_is_a_run_and_a_failed_one_comes_last(world):
    here = world(failing={"001": 1}, shards_per_tick=4)
    data = here.tick()
    assert shards_asked_for(data) == ["000", "001", "002", "003"]
    assert [request.tags[SHARDS_TAG] for request in data.run_requests] == ["000", "001", "002", "003"]
    for request in data.run_requests:
        here.label(request)
    assert shards_asked_for(here.tick()) == ["004", "005", "006", "007"]
    for shard in here.settings.shard_keys[4:11]:
        here.mark("r", shard)
    assert shards_asked_for(here.tick()) == ["011", "001"]


def test_stale_shards_are_asked_for_with_the_missing_ones(world):
    here = world(shards_per_tick=8)
    for shard in here.settings.shard_keys[:10]:
        here.mark("r", shard)
    here.stale.update({"003", "004"})
    assert shards_asked_for(here.tick()) == ["003", "004", "010", "011"]


def test_a_shard_that_is_being_labelled_is_not_asked_for_and_a_run_without_a_process_is_ended(world):
    here = world(shards_per_tick=1)
    run = here.instance.create_run_for_job(here.repository.get_job(LABEL), tags={PARTITION_TAG: "000"})
    here.instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", LABEL), run.run_id)
    lock = hold(dagster_folder(here.settings) / ALIVE / f"{run.run_id}.lock")
    assert shards_asked_for(here.tick()) == ["001"]
    assert not here.instance.get_run_by_id(run.run_id).is_finished
    del lock  # as after a kill
    here.tick()
    assert here.instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE


def test_before_the_selection_and_where_all_is_labelled_nothing_is_asked_for(world):
    here = world()
    for shard in here.settings.shard_keys:
        here.mark("r", shard)
    assert here.tick().skip_message == NOTHING_TO_DO
    for shard in here.settings.shard_keys:
        here.lake.path(SELECTED, shard).unlink()
    assert "run the job `ingest` first" in (here.tick().skip_message or "")


def test_a_run_of_recipes_is_of_no_shard(tmp_path):
    settings = load_settings("miniature", tmp_path)
    backfilled = {FIRST_TAG: "001", LAST_TAG: "002"}
    runs = [dg.DagsterRun("j", tags=tags) for tags in ({PARTITION_TAG: "mc_bce"}, {}, backfilled)]
    assert [shards_of(run, settings) for run in runs] == [[], [], ["001", "002"]]
