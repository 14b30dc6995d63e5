"""Several stages as one op of Dagster, whose run takes a stretch of shards and finishes one after another.

run over shards 004 to 005      004: hard_negatives, answer_logprobs, …, policy_rollouts, …, step_rewards
                                005: the same, by the models that are loaded

Each table of a shard is recorded the moment it is written, so that a run which is cancelled or killed leaves whole
shards. A shard that fails keeps no other from being made; the run fails at its end, and names it. What every shard
would meet, such as a missing model, ends the run at once; so does what may pass, but for the last attempt of the step.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from inspect import getdoc
from itertools import chain
from threading import Event
from traceback import format_exception
from typing import Any

import dagster as dg

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import (
    CpmiError,
    EveryShardFails,
    MissingModel,
    NoActors,
    ServerUnreachable,
    SettingsError,
    ShardsFailed,
    StorageError,
    described,
    may_pass,
    with_notes,
)
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources import presentation
from cpmi_dagster.resources.lake import Lake
from cpmi_dagster.resources.language_models import LanguageModels
from cpmi_dagster.resources.materializations import asset_key, is_recorded, materialization
from cpmi_dagster.resources.run_config import label_config, settings_of_run
from cpmi_dagster.resources.side_by_side import side_by_side
from cpmi_dagster.resources.spec_version import spec_version
from cpmi_dagster.resources.stage import GPU_POOL, RESOURCES, Stage
from cpmi_dagster.resources.stage_run import StageRun
from cpmi_dagster.resources.staleness import Maker
from cpmi_dagster.resources.step_errors import step_errors

LOG = logging.getLogger(__name__)
OF_ALL_SHARDS = (MissingModel, SettingsError, StorageError, NoActors, ServerUnreachable)
"""Errors that every shard would meet."""
Shown = dg.AssetMaterialization | dg.AssetCheckResult
"""What Dagster records."""


@dataclass(frozen=True)
class ShardCheck:
    """A check of a table's finished shards; where it fails as an error, nothing more is made.

    Attributes:
        table: what is checked.
        body: looks at those of some shards that are made; its name and text are the check's.
    """

    table: str
    body: Callable[[Lake, Settings, Sequence[str]], dg.AssetCheckResult]

    @property
    def key(self) -> dg.AssetCheckKey:
        """The check as Dagster knows it."""
        return dg.AssetCheckKey(asset_key(self.table), self.body.__name__)

    @property
    def spec(self) -> dg.AssetCheckSpec:
        """What Dagster shows of it."""
        return dg.AssetCheckSpec(
            self.body.__name__, asset=asset_key(self.table), description=getdoc(self.body), blocking=True
        )

    def result(self, found: dg.AssetCheckResult) -> dg.AssetCheckResult:
        """What the body found, under the check's name."""
        return dg.AssetCheckResult(
            passed=found.passed,
            asset_key=self.key.asset_key,
            check_name=self.key.name,
            metadata=found.metadata,
            severity=found.severity,
            description=found.description,
        )


@dataclass(frozen=True)
class ShardOp:
    """Stages that make a shard, one after the other.

    Attributes:
        name: of the op.
        stages: in the order in which they run.
        checks: of the stages' tables.
    """

    name: str
    stages: Sequence[Stage]
    checks: Sequence[ShardCheck]

    def bind(self, settings: Settings, makers: Mapping[str, Maker]) -> dg.AssetsDefinition:
        """The Dagster assets of these stages under a profile.

        Args:
            makers: the stages behind all tables.
        """
        versions = self._versions(settings, makers)
        memo: dict[str, Any] = {}

        def compute(context: dg.AssetExecutionContext) -> Iterator[Shown]:
            with step_errors(context, settings.orchestration):
                used, chosen, profile = _used(context), self._chosen(context), context.resources.settings
                if used["settings"] is not profile and len(chosen) < len(self.stages):
                    raise SettingsError(
                        f"the launchpad changes settings of {len(chosen)} of the {len(self.stages)} stages of group "
                        f"`{self.name}`, which read each other's tables; launch the whole group"
                    )
                runs = [(stage, stage.run_in(context, makers, memo, used)) for stage in chosen]
                checks = [check for check in self.checks if check.key in context.selected_asset_check_keys]
                made_by = versions if used["settings"] is profile else self._versions(used["settings"], makers)
                try:
                    yield from _ShardWork(context, runs, checks, made_by).events()
                finally:
                    used["models"].end_actors()

        return dg.multi_asset(
            name=self.name,
            specs=[
                presentation.asset_spec(stage, key, versions[key]).replace_attributes(skippable=True)
                for stage in self.stages
                for key in stage.tables
            ],
            check_specs=[check.spec for check in self.checks],
            can_subset=True,
            partitions_def=dg.StaticPartitionsDefinition(settings.shard_keys),
            backfill_policy=dg.BackfillPolicy.multi_run(settings.orchestration.run_length(settings.shards)),
            required_resource_keys=RESOURCES,
            config_schema=label_config(settings),
            pool=GPU_POOL,
        )(compute)

    def _versions(self, settings: Settings, makers: Mapping[str, Maker]) -> dict[str, str]:
        return {key: spec_version(stage, settings, makers) for stage in self.stages for key in stage.tables}

    def _chosen(self, context: dg.AssetExecutionContext) -> list[Stage]:
        return [stage for stage in self.stages if context.selected_asset_keys & set(map(asset_key, stage.tables))]


def _used(context: dg.AssetExecutionContext) -> dict[str, Any]:
    """The settings of a run, and models that know them where the launchpad changes some."""
    profile, models = context.resources.settings, context.resources.models
    settings = settings_of_run(profile, context.op_execution_context.op_config)
    return {"settings": settings, "models": models if settings is profile else LanguageModels(settings)}


@dataclass(frozen=True)
class _Made:
    """The tables of a shard that a stage has brought up to date; `shown` is what Dagster shows of each."""

    stage: Stage
    run: StageRun
    shard: str
    shown: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class _ShardWork:
    """The shards of one run.

    Attributes:
        failures: a sentence per shard that failed while others could be made, and per check that raised.
        checked: the checks of tables that were made; each is asked once more in the end.
        stopped: set where no further table is to be made.
        costs: what was spent on each table that was made.
    """

    context: dg.AssetExecutionContext
    runs: Sequence[tuple[Stage, StageRun]]
    checks: Sequence[ShardCheck]
    versions: Mapping[str, str]
    failures: list[str] = field(default_factory=list)
    checked: set[ShardCheck] = field(default_factory=set)
    stopped: Event = field(default_factory=Event)
    costs: list[Cost] = field(default_factory=list)

    def events(self) -> Iterator[Shown]:
        """Make the shards; a check that fails as an error ends the run, of which Dagster then says so.

        Raises:
            ShardsFailed: some could not be made; the message names each.
            EveryShardFails: the last of those that it names would keep all others from being made.
        """
        try:
            with closing(self._finished()) as finished:
                for made in finished:
                    # not in the shard's thread, which may be ahead: an event names those that Dagster has of its inputs
                    yield from self._recorded(made)
        except CpmiError as error:
            raise EveryShardFails("; ".join([*self.failures, with_notes(error)])) from error
        self.context.log.info(f"shards {', '.join(self.context.partition_keys)}: {sum(self.costs, Cost.zero())}")
        yield from (self._result(check) for check in self.checks if check in self.checked)
        if self.failures:
            # a check that fails as an error lets no run make more
            raise (EveryShardFails if self.stopped.is_set() else ShardsFailed)("; ".join(self.failures))

    def _finished(self) -> Generator[_Made, None, None]:
        """What the stages have made, in the order in which it is made."""
        _, run = self.runs[0]
        ray = run.settings.orchestration.ray
        if ray is None:
            yield from chain.from_iterable(map(self._make, self.context.partition_keys))
        else:
            run.models.connect_actors()
            yield from side_by_side(self._make, self.context.partition_keys, ray.shards_at_once, run.models.stop_actors)

    def _make(self, shard: str) -> Iterator[_Made]:
        for stage, run in self.runs:
            if self.stopped.is_set():
                return
            try:
                shown = stage.bring_up_to_date(run, shard)
            except Exception as error:
                self._fail(stage, run, shard, error)
                return
            yield _Made(stage, run, shard, shown)
            self._check(stage, run, shard)

    def _fail(self, stage: Stage, run: StageRun, shard: str, error: Exception) -> None:
        """Keep a failure for the end of the run.

        Raises:
            EveryShardFails: the other shards would fail as well, or the step is tried again, as time may mend it.
        """
        if isinstance(error, NoActors) and self.stopped.is_set():
            return  # the actors were stopped for another shard
        failure = f"{stage.name} {shard}: {described(error)}"
        with stage.named_in_logs(run, shard):
            ours = isinstance(error, CpmiError)
            self.context.log.error(failure if ours else f"{failure}\n{''.join(format_exception(error))}")
        if isinstance(error, OF_ALL_SHARDS) or (may_pass(error) and self._is_tried_again):
            self.stopped.set()
            raise EveryShardFails(failure) from error
        self.failures.append(failure)

    @property
    def _is_tried_again(self) -> bool:
        """Whether the step has attempts left: in the last, a shard that keeps failing stops no other."""
        _, run = self.runs[0]
        return self.context.op_execution_context.retry_number < run.settings.orchestration.retries

    def _check(self, stage: Stage, run: StageRun, shard: str) -> None:
        """Stop where a shard that was just made fails as an error; it alone is read."""
        for check in (check for check in self.checks if check.table in stage.tables):
            self.checked.add(check)
            try:
                found = check.body(run.lake, run.settings, [shard])
                if not found.passed and found.severity == dg.AssetCheckSeverity.ERROR:
                    self.stopped.set()
            except Exception as error:  # its result will say so; the shards can be made
                self.context.log.warning(f"the check {check.key.name} cannot be made at {shard}: {described(error)}")

    def _result(self, check: ShardCheck) -> dg.AssetCheckResult:
        """What a check finds in all shards on disk; one that raises has failed, and the run with it."""
        _, run = self.runs[0]
        try:
            return check.result(check.body(run.lake, run.settings, run.settings.shard_keys))
        except Exception as error:
            LOG.exception("the check %s cannot be made", check.key.name)
            problem = f"it cannot be made: {described(error)}"
            self.failures.append(f"the check {check.key.name} of {check.table}: {problem}")
            return check.result(dg.AssetCheckResult(passed=False, description=problem))

    def _recorded(self, made: _Made) -> Iterator[dg.AssetMaterialization]:
        """An event per table that was made; of what was found unchanged, only where Dagster does not know it so."""
        instance, inputs = self.context.instance, made.stage.inputs
        for key in made.stage.tables:
            record, shown = made.run.lake.intact_record(key, made.shard), made.shown[key]
            if record is None:
                continue
            versions = (record.content, self.versions[key])
            if "skipped" not in shown and record.cost:
                self.costs.append(Cost.from_dict(record.cost))
            if "skipped" not in shown or not is_recorded(instance, key, made.shard, inputs, versions):
                yield materialization(instance, key, made.shard, inputs, versions, shown)
