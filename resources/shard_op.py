"""Several stages as one op of Dagster, whose run takes a stretch of shards and finishes one after another.

run over shards 004 to 005      004: hard_negatives, answer_logprobs, …, policy_rollouts, …, step_rewards
                                005: the same, by the models that are loaded

Each table of a shard is recorded the moment it is written, so that a run which is cancelled or killed leaves whole
shards. A shard that fails keeps no other from being made; the run fails at its end, and names it.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from inspect import getdoc
from itertools import chain
from threading import Event
from typing import Any

import dagster as dg

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import CpmiError, described, may_pass, with_notes
from cpmi_dagster.profiles.settings import Settings
from resources import presentation
from resources.lake import Lake
from resources.materializations import asset_key, is_recorded, materialization
from resources.side_by_side import side_by_side
from resources.spec_version import spec_version
from resources.stage import GPU_POOL, RESOURCES, RUN_CONFIG, Stage
from resources.stage_run import StageRun
from resources.staleness import Maker
from resources.step_errors import step_errors

LOG = logging.getLogger(__name__)
Shown = dg.AssetMaterialization | dg.AssetCheckResult
"""What Dagster records."""


@dataclass(frozen=True)
class ShardCheck:
    """A check of a table's finished shards; where it fails as an error, nothing more is made.

    Attributes:
        table: what is checked.
        body: looks at the lake; its name and text are the check's.
    """

    table: str
    body: Callable[[Lake, Settings], dg.AssetCheckResult]

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

    def fails(self, lake: Lake, settings: Settings) -> bool:
        """Whether the shards on disk fail as an error."""
        return _is_error(self.body(lake, settings))

    def result(self, lake: Lake, settings: Settings) -> dg.AssetCheckResult:
        """Check the shards on disk; a check that raises has failed, and says why."""
        try:
            found = self.body(lake, settings)
        except Exception as error:
            LOG.exception("the check %s cannot be made", self.key.name)
            found = dg.AssetCheckResult(passed=False, description=f"it cannot be made: {described(error)}")
        return dg.AssetCheckResult(
            passed=found.passed,
            asset_key=self.key.asset_key,
            check_name=self.key.name,
            metadata=found.metadata,
            severity=found.severity,
            description=found.description,
        )


def _is_error(found: dg.AssetCheckResult) -> bool:
    return not found.passed and found.severity == dg.AssetCheckSeverity.ERROR


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
        versions = {key: spec_version(stage, settings, makers) for stage in self.stages for key in stage.tables}
        memo: dict[str, Any] = {}

        def compute(context: dg.AssetExecutionContext) -> Iterator[Shown]:
            chosen = [stage for stage in self.stages if context.selected_asset_keys & set(map(asset_key, stage.tables))]
            runs = [(stage, stage.run_in(context, makers, memo)) for stage in chosen]
            checks = [check for check in self.checks if check.key in context.selected_asset_check_keys]
            work = _ShardWork(context, runs, checks, versions)
            try:
                with step_errors(context, context.resources.settings.orchestration):
                    yield from work.events()
            finally:
                context.resources.models.end_actors()
            if work.failures:
                raise dg.Failure(description="; ".join(work.failures), allow_retries=False)

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
            config_schema=RUN_CONFIG,
            pool=GPU_POOL,
        )(compute)


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
        failures: a sentence per shard that failed.
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
        """Make the shards; a check that fails as an error ends the run, of which Dagster then says so."""
        with closing(self._finished()) as finished:
            for made in finished:
                # not in the shard's own thread, which may be ahead: an event names those that Dagster has of its inputs
                yield from self._recorded(made)
        self.context.log.info(f"shards {', '.join(self.context.partition_keys)}: {sum(self.costs, Cost.zero())}")
        _, run = self.runs[0]
        yield from (check.result(run.lake, run.settings) for check in self.checks if check in self.checked)

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
            except CpmiError as error:
                if may_pass(error):
                    raise
                self.failures.append(f"{stage.name} {shard}: {with_notes(error)}")
                with stage.named_in_logs(run, shard):
                    self.context.log.error(self.failures[-1])
                return
            yield _Made(stage, run, shard, shown)
            self._check(stage, run, shard)

    def _check(self, stage: Stage, run: StageRun, shard: str) -> None:
        for check in (check for check in self.checks if check.table in stage.tables):
            self.checked.add(check)
            try:
                if check.fails(run.lake, run.settings):
                    self.stopped.set()
            except Exception as error:  # its result will say so; the shards can be made
                self.context.log.warning(f"the check {check.key.name} cannot be made at {shard}: {described(error)}")

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
