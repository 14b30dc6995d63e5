"""A run takes a stretch of shards, finishes one after another, and records each table once."""

from collections.abc import Sequence

import dagster as dg
import polars as pl
import pytest

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import (
    MissingModel,
    PassingError,
    ScoringError,
    ServerUnreachable,
)
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.automation import LABEL
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.dag.failed_runs import range_tags
from cpmi_dagster.resources.dag.materializations import asset_key
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.runs import run_phase
from cpmi_dagster.resources.dag.shard_op import ShardCheck, ShardOp
from cpmi_dagster.resources.dag.stage import Stage, stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.chunks import StageOutput
from cpmi_dagster.resources.workers.language_models import LanguageModels

NEGATIVES, REWARDS = "labels/hard_negatives", "labels/step_rewards"


@pytest.fixture
def settings(tmp_path) -> Settings:
    orchestration = {"retry_seconds": 0.0, "retries": 1, "shards_per_run": 3}
    settings = load_settings("miniature", home=tmp_path)
    return settings.model_copy(update={"orchestration": settings.orchestration.model_copy(update=orchestration)})


class Labels:
    """Two stages that keep a list of what they made, and fail where they are asked to."""

    def __init__(self, failing: dict[str, list[BaseException]] | None = None) -> None:
        self.made: list[str] = []
        self.failing = failing or {}
        self.stages: Sequence[Stage] = (self._negatives(), self._rewards())

    def _work(self, name: str, shard: str) -> None:
        if waiting := self.failing.get(f"{name} {shard}"):
            raise waiting.pop(0)
        self.made.append(f"{name} {shard}")

    def _negatives(self) -> Stage:
        @stage(NEGATIVES)
        def negatives(run: StageRun, shard: str) -> StageOutput:
            """A negative a shard."""
            self._work("negatives", shard)
            row = {"trajectory_id": shard, "rank": 1, "answer": "3", "source": "model"}
            return StageOutput(pl.DataFrame([row]), cost=Cost(1.0, 2, 3))

        return negatives

    def _rewards(self) -> Stage:
        @stage(REWARDS, inputs=[NEGATIVES])
        def rewards(run: StageRun, shard: str) -> StageOutput:
            """A reward a shard."""
            self._work("rewards", shard)
            row = {"trajectory_id": shard, "step_index": 0, "reward_type": "mc", "reward": 1.0}
            return StageOutput(pl.DataFrame([row]))

        return rewards


def run(
    labels: Labels,
    settings: Settings,
    instance: dg.DagsterInstance,
    first: str = "000",
    last: str = "002",
    checks: Sequence[ShardCheck] = (),
    **options,
) -> dg.ExecuteInProcessResult:
    tags, resources = range_tags([first, last]), resources_of(settings)
    assets = [ShardOp("labels", labels.stages, checks).bind(settings, {})]
    return dg.materialize(assets, instance=instance, resources=resources, tags=tags, raise_on_error=False, **options)


def resources_of(settings: Settings) -> dict[str, object]:
    lake = Lake.of(settings)
    return {
        "settings": settings,
        "lake": lake,
        "models": LanguageModels(settings),
        "sources": DataSources(settings),
        "database": Database(lake),
        "progress": LoggedProgress(),
    }


def recorded(instance: dg.DagsterInstance, table: str) -> list[str]:
    """The partitions of all events of a table, oldest first."""
    records = instance.fetch_materializations(asset_key(table), limit=100, ascending=True).records
    return [str(record.partition_key) for record in records]


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    failure = result.get_step_failure_events()[0].step_failure_data.user_failure_data
    return failure.description if failure and failure.description else ""


def test_a_shard_is_finished_before_the_next_is_begun_and_recorded_once(settings):
    labels = Labels()
    with dg.DagsterInstance.ephemeral() as instance:
        assert run(labels, settings, instance).success
        assert recorded(instance, REWARDS) == ["000", "001", "002"]
        assert recorded(instance, NEGATIVES) == ["000", "001", "002"]
    assert labels.made == [f"{name} 00{shard}" for shard in range(3) for name in ("negatives", "rewards")]


def test_a_shard_bears_the_hash_of_its_own_rows_and_of_its_inputs(settings):
    with dg.DagsterInstance.ephemeral() as instance:
        run(Labels(), settings, instance)
        for shard in ("000", "002"):
            of_shard = dg.AssetRecordsFilter(asset_key=asset_key(REWARDS), asset_partitions=[shard])
            (record,) = instance.fetch_materializations(of_shard, limit=5).records
            tags, lake = record.asset_materialization.tags, Lake.of(settings)
            assert tags["dagster/data_version"] == lake.record(REWARDS, shard).content
            assert tags[f"dagster/input_data_version/{NEGATIVES}"] == lake.record(NEGATIVES, shard).content


def test_what_is_unchanged_is_recorded_only_where_dagster_does_not_know_it(settings):
    labels = Labels()
    for _ in range(2):
        with dg.DagsterInstance.ephemeral() as instance:
            for _ in range(2):
                assert run(labels, settings, instance).success
            assert recorded(instance, REWARDS) == ["000", "001", "002"]
    assert len(labels.made) == 6


UNSCORED, MISSING = ScoringError("trajectory t7 cannot be scored"), MissingModel("model folder /m does not exist")
NO_ANSWER, UNREACHED = PassingError("the server does not answer"), ServerUnreachable("it takes no connection")


@pytest.mark.parametrize(
    ("failing", "labelled", "reason"),
    [
        ({"negatives 001": [UNSCORED]}, "000 002", f"negatives 001: {UNSCORED}"),
        # what every shard would meet ends the run, and what failed before is named
        (
            {"rewards 000": [UNSCORED], "negatives 001": [MISSING]},
            "",
            f"rewards 000: {UNSCORED}; negatives 001: {MISSING}",
        ),
        # what may pass is tried again; in the last attempt its shard fails alone
        ({"rewards 001": [NO_ANSWER]}, "000 001 002", ""),
        ({"rewards 001": [NO_ANSWER, NO_ANSWER]}, "000 002", f"rewards 001: {NO_ANSWER}"),
        ({"rewards 001": [UNREACHED, UNREACHED]}, "000", f"rewards 001: {UNREACHED}"),
        # a run that is cancelled leaves whole shards
        ({"rewards 001": [KeyboardInterrupt()]}, "000", None),
    ],
)
def test_a_failure_stops_what_it_concerns_and_is_named_in_the_end(settings, failing, labelled, reason):
    labels = Labels({name: list(errors) for name, errors in failing.items()})
    with dg.DagsterInstance.ephemeral() as instance:
        result = run(labels, settings, instance)
        assert recorded(instance, REWARDS) == labelled.split() == Lake.of(settings).partitions(REWARDS)
    assert result.success == (reason == "")
    if reason:
        assert failure_of(result).endswith(reason)
    assert all(labels.made.count(made) == 1 for made in labels.made)


def test_all_shards_that_fail_are_named_in_the_end_a_fault_of_ours_too(settings):
    labels = Labels({"negatives 000": [UNSCORED], "rewards 001": [KeyError("t9")]})
    with dg.DagsterInstance.ephemeral() as instance:
        result = run(labels, settings, instance)
        assert recorded(instance, REWARDS) == ["002"]
    failures = [f"negatives 000: {UNSCORED}", "rewards 001: KeyError: 't9'"]
    assert sorted(failure_of(result).split("; ")) == failures


@pytest.mark.parametrize(
    ("error", "labelled"),
    [
        (UNSCORED, ["000", "002"]),
        (MISSING, ["000"]),
    ],
)
def test_one_process_too_goes_on_with_the_other_shards(settings, error, labelled):
    labels, tables = Labels({"rewards 001": [error, error]}), [NEGATIVES, REWARDS]
    definitions = dg.Definitions(
        assets=[ShardOp("labels", labels.stages, ()).bind(settings, {})],
        resources=resources_of(settings),
        jobs=[dg.define_asset_job(LABEL)],
    )
    with open_instance(settings) as instance:
        outcome = run_phase(definitions, settings, instance, LABEL, ["000", "001", "002"], tables)
        assert recorded(instance, REWARDS) == labelled
    assert outcome.failures == [f"labels: rewards 001: {error}"]


def broken(lake: Lake, settings: Settings, shards: Sequence[str]) -> dg.AssetCheckResult:
    """Fails once a second shard is there."""
    return dg.AssetCheckResult(passed=len(lake.partitions(NEGATIVES)) < 2)


def test_a_check_that_fails_stops_the_run_before_more_is_made(settings):
    labels = Labels()
    with dg.DagsterInstance.ephemeral() as instance:
        result = run(labels, settings, instance, checks=[ShardCheck(NEGATIVES, broken)])
    (evaluation,) = result.get_asset_check_evaluations()
    assert (evaluation.check_name, evaluation.passed, result.success) == ("broken", False, False)
    assert labels.made == ["negatives 000", "rewards 000", "negatives 001"]


def test_a_check_reads_each_shard_once_as_it_is_made_and_all_of_them_in_the_end(settings):
    asked: list[list[str]] = []

    def counting(lake: Lake, settings: Settings, shards: Sequence[str]) -> dg.AssetCheckResult:
        """Keeps what it is asked for."""
        asked.append(list(shards))
        return dg.AssetCheckResult(passed=True)

    with dg.DagsterInstance.ephemeral() as instance:
        assert run(Labels(), settings, instance, checks=[ShardCheck(NEGATIVES, counting)]).success
    assert asked == [["000"], ["001"], ["002"], list(settings.shard_keys)]


def raising(lake: Lake, settings: Settings, shards: Sequence[str]) -> dg.AssetCheckResult:
    """Has a fault of its own."""
    raise KeyError("answer")


def passing(lake: Lake, settings: Settings, shards: Sequence[str]) -> dg.AssetCheckResult:
    """Finds nothing."""
    return dg.AssetCheckResult(passed=True)


def test_a_check_that_raises_fails_and_keeps_no_shard_from_being_made(settings):
    labels, checks = Labels(), [ShardCheck(NEGATIVES, raising), ShardCheck(NEGATIVES, passing)]
    with dg.DagsterInstance.ephemeral() as instance:
        result = run(labels, settings, instance, checks=checks)
        assert sorted(recorded(instance, REWARDS)) == ["000", "001", "002"]
    found = {one.check_name: (one.passed, one.description) for one in result.get_asset_check_evaluations()}
    assert found == {"raising": (False, "it cannot be made: KeyError: 'answer'"), "passing": (True, None)}
    assert failure_of(result) == "the check raising of labels/hard_negatives: it cannot be made: KeyError: 'answer'"


def test_some_tables_may_be_chosen(settings):
    labels = Labels()
    with dg.DagsterInstance.ephemeral() as instance:
        assert run(labels, settings, instance, selection=[asset_key(NEGATIVES)]).success
    assert labels.made == ["negatives 000", "negatives 001", "negatives 002"]


@pytest.mark.parametrize(("gpus", "most", "length"), [(1, 3, 3), (2, 3, 2), (8, 3, 1), (1, 99, 4)])
def test_a_backfill_is_split_so_that_no_gpu_stays_idle(settings, gpus, most, length):
    orchestration = settings.orchestration.model_copy(update={"gpus": gpus, "shards_per_run": most})
    changed = settings.model_copy(update={"orchestration": orchestration})
    bound = ShardOp("labels", Labels().stages, ()).bind(changed, {})
    assert bound.backfill_policy == dg.BackfillPolicy.multi_run(length)
