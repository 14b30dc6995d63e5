"""Several stages as one op of Dagster, whose run takes a stretch of shards and finishes one after another.

run over shards 004 to 005      004: hard_negatives, answer_logprobs, …, policy_rollouts, …, step_rewards
                                005: the same, by the models that are loaded

Each table of a shard is recorded the moment it is written, so that a run which is cancelled or killed leaves whole
shards. A shard that fails does not stop the others; the run fails at its end, and names it. An error that every shard
would meet, such as a missing model, ends the run at once. So does an error that may pass, unless this is the last
attempt of the step.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import getdoc
from traceback import format_exception
from typing import Any

import dagster as dg
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import (
    CpmiError,
    EveryShardFails,
    MissingModel,
    ServerUnreachable,
    SettingsError,
    ShardsFailed,
    StorageError,
    described,
    may_pass,
    with_notes,
)
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag import presentation
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.materializations import asset_key, is_recorded, materialization, prefixed
from cpmi_dagster.resources.dag.spec_version import spec_version
from cpmi_dagster.resources.dag.stage import GPU_POOL, RESOURCES, Stage, resources_of
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.step_errors import step_errors
from cpmi_dagster.resources.lake.lake import Lake

LOG = logging.getLogger(__name__)
OF_ALL_SHARDS = (MissingModel, SettingsError, StorageError, ServerUnreachable)
"""Errors that every shard would meet."""
RECORDED = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""By which Dagster records no materialization of a result: its shards are recorded one by one."""
Shown = dg.AssetMaterialization | dg.AssetCheckResult | dg.MaterializeResult
"""What Dagster records."""


@dataclass(frozen=True)
class ShardCheck:
    """A check of a table's finished shards; where it fails as an error, nothing more is made.

    Attributes:
        table: that is checked.
        body: checks those of some shards that are made; its name and docstring are the check's.
        prefix: of the asset keys.
    """

    table: str
    body: Callable[[Lake, Settings, Sequence[str]], dg.AssetCheckResult]
    prefix: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the check, as Dagster shows it."""
        return self.body.__name__

    @property
    def asset(self) -> dg.AssetKey:
        """The asset that is checked."""
        return asset_key(self.table, self.prefix)

    @property
    def spec(self) -> dg.AssetCheckSpec:
        """The check as Dagster knows it."""
        return dg.AssetCheckSpec(self.name, asset=self.asset, description=getdoc(self.body), blocking=True)


@dataclass(frozen=True)
class ShardOp:
    """Stages that make a shard, one after the other.

    Attributes:
        name: of the op.
        stages: in the order in which they run.
        checks: of the stages' tables.
        prefix: that of the stages and checks.
    """

    name: str
    stages: Sequence[Stage]
    checks: Sequence[ShardCheck]
    prefix: tuple[str, ...] = ()

    def bind(self, settings: Settings, stages: Mapping[str, Declaration]) -> dg.AssetsDefinition:
        """The Dagster assets of these stages under a profile.

        Args:
            stages: the stages behind all tables.
        """
        versions = {key: spec_version(stage, settings, stages) for stage in self.stages for key in stage.tables}
        memo: dict[str, Any] = {}

        def compute(context: dg.AssetExecutionContext) -> Iterator[Shown]:
            with step_errors(context, settings.orchestration):
                selected, resources = context.selected_asset_keys, resources_of(context, self.prefix)
                chosen = [
                    stage
                    for stage in self.stages
                    if any(asset_key(key, self.prefix) in selected for key in stage.tables)
                ]
                runs = [(stage, stage.run_in(context, stages, memo)) for stage in chosen]
                checks = [check for check in self.checks if check.spec.key in context.selected_asset_check_keys]
                try:
                    yield from _ShardWork(context, runs, checks, versions).events()
                    # without an output, Dagster would skip what follows in the same run
                    for key in (asset_key(key, self.prefix) for stage in chosen for key in stage.tables):
                        if key in selected:
                            yield dg.MaterializeResult(asset_key=key, metadata=RECORDED)
                finally:
                    resources["database"].publish_after_step()

        return dg.multi_asset(
            name=prefixed(self.name, self.prefix),
            specs=[
                presentation.asset_spec(stage, key, versions[key]).replace_attributes(skippable=True)
                for stage in self.stages
                for key in stage.tables
            ],
            check_specs=[check.spec for check in self.checks],
            can_subset=True,
            partitions_def=dg.StaticPartitionsDefinition(settings.shard_keys),
            backfill_policy=dg.BackfillPolicy.multi_run(settings.orchestration.run_length(settings.shards)),
            required_resource_keys={prefixed(name, self.prefix) for name in RESOURCES},
            pool=GPU_POOL,
        )(compute)


@dataclass
class _ShardWork:
    """The shards of one run.

    Attributes:
        failures: a sentence per shard that failed while others could be made, and per check that raised.
        checked: the checks of tables that were made; each runs once more at the end, over all shards.
        stopped: a check has failed as an error, so no further table is made.
        costs: what was spent on each table that was made.
    """

    context: dg.AssetExecutionContext
    runs: Sequence[tuple[Stage, StageRun]]
    checks: Sequence[ShardCheck]
    versions: Mapping[str, str]
    failures: list[str] = field(default_factory=list)
    checked: set[ShardCheck] = field(default_factory=set)
    stopped: bool = False
    costs: list[Cost] = field(default_factory=list)

    def events(self) -> Iterator[Shown]:
        """Make the shards; a check that fails as an error ends the run, of which Dagster then says so.

        Raises:
            ShardsFailed: some could not be made; the message names each.
            EveryShardFails: the last of those that it names would keep all others from being made.
        """
        shards = self.context.partition_keys
        try:
            for shard in shards:
                yield from self._make(shard)
        except CpmiError as error:
            raise EveryShardFails("; ".join([*self.failures, with_notes(error)])) from error
        self.context.log.info(f"shards {', '.join(shards)}: {sum(self.costs, Cost.zero())}")
        yield from (self._result(check) for check in self.checks if check in self.checked)
        if self.failures:
            # a check that fails as an error lets no run make more
            raise (EveryShardFails if self.stopped else ShardsFailed)("; ".join(self.failures))

    def _make(self, shard: str) -> Iterator[dg.AssetMaterialization]:
        for stage, run in self.runs:
            if self.stopped:
                return
            try:
                shown = stage.bring_up_to_date(run, shard)
            except Exception as error:
                self._fail(stage, run, shard, error)
                return
            yield from self._recorded(stage, run, shard, shown)
            for check in (check for check in self.checks if check.table in stage.tables):
                self.checked.add(check)
                found = self._found(check, run, [shard])
                if isinstance(found, str):  # its result says so at the end; the shards can be made
                    self.context.log.warning(f"the check {check.name} fails at {shard}: {found}")
                elif not found.passed and found.severity == dg.AssetCheckSeverity.ERROR:
                    self.stopped = True

    def _fail(self, stage: Stage, run: StageRun, shard: str, error: Exception) -> None:
        """Keep a failure for the end of the run.

        Raises:
            EveryShardFails: the other shards would fail as well, or the step is tried again, as time may mend it.
        """
        failure = f"{stage.name} {shard}: {described(error)}"
        ours = isinstance(error, CpmiError)
        self.context.log.error(failure if ours else f"{failure}\n{''.join(format_exception(error))}")
        # in the last attempt of the step, a shard that keeps failing stops no other
        is_tried_again = self.context.op_execution_context.retry_number < run.settings.orchestration.retries
        if isinstance(error, OF_ALL_SHARDS) or (may_pass(error) and is_tried_again):
            raise EveryShardFails(failure) from error
        self.failures.append(failure)

    def _found(self, check: ShardCheck, run: StageRun, shards: Sequence[str]) -> dg.AssetCheckResult | str:
        """What a check finds in some shards; the problem where it raises."""
        try:
            return check.body(run.lake, run.settings, shards)
        except Exception as error:
            LOG.exception("the check %s cannot be made", check.name)
            return f"it cannot be made: {described(error)}"

    def _result(self, check: ShardCheck) -> dg.AssetCheckResult:
        """What a check finds in all shards on disk; one that raises has failed, and the run with it."""
        _, run = self.runs[0]
        found = self._found(check, run, run.settings.shard_keys)
        if isinstance(found, str):
            self.failures.append(f"the check {check.name} of {check.table}: {found}")
            found = dg.AssetCheckResult(passed=False, description=found)
        return found._replace(asset_key=check.asset, check_name=check.name)

    def _recorded(
        self, stage: Stage, run: StageRun, shard: str, shown: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[dg.AssetMaterialization]:
        """An event per table that was made; of what was found unchanged, only where Dagster does not know it so."""
        instance, inputs, prefix = self.context.instance, stage.inputs, stage.prefix
        for key in stage.tables:
            record = run.lake.intact_record(key, shard)
            if record is None:
                continue
            versions, is_made = (record.content, self.versions[key]), "skipped" not in shown[key]
            if is_made and record.cost:
                self.costs.append(Cost.from_dict(record.cost))
            if is_made or not is_recorded(instance, key, shard, inputs, versions, prefix):
                yield materialization(instance, key, shard, inputs, versions, shown[key], prefix)
