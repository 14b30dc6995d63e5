"""A stage of the DAG: it reads tables, calls the method, and returns the rows of the tables it makes.

    @stage("dataset/soft_labels", inputs=["labels/step_rewards"], settings=["soft_labels", …])
    def soft_labels(run: StageRun) -> StageOutput:
        '''Soft labels: a robust z-score over the whole labelled set, then a sigmoid (Eq. 7).'''
        rewards, own = run.read("labels/step_rewards"), run.settings.sources.probability_labels
        return StageOutput(normalise(rewards, run.settings.soft_labels, own))

What the decorator adds: a key over the code version, the named settings and models and the content of every input (see
`states`), so that what has been made is found and not made again; a lock, so that two runs do not do the same work; the
contract check, the atomic write, and what Dagster shows (schema, lineage, row counts, preview, cost). A Dagster run
makes one partition; its data version is the hash of the rows: only what follows changed rows is stale for Dagster.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Concatenate, ParamSpec

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag import presentation
from cpmi_dagster.resources.dag.declaration import Declaration, StageBody
from cpmi_dagster.resources.dag.materializations import asset_key, materialization, prefixed
from cpmi_dagster.resources.dag.spec_version import spec_version
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.states import States, ToMake, refuse_stale
from cpmi_dagster.resources.dag.step_errors import step_errors
from cpmi_dagster.resources.lake.current_files import Entry
from cpmi_dagster.resources.lake.pace import Pace
from cpmi_dagster.resources.lake.parts import MADE_TOGETHER, NOTHING, is_in_parts, partitions_of, parts_asked
from cpmi_dagster.resources.lake.records import FileRecord, hash_of
from cpmi_dagster.resources.lake.table_files import words
from cpmi_dagster.resources.workers.chunks import StageOutput

Metadata = dict[str, Any]
RESOURCES = {"settings", "lake", "models", "sources", "database", "progress"}
"""What a step has from Dagster, by the names of a `StageRun`."""
Options = ParamSpec("Options")
GPU_POOL = "gpu"
NO_HEAD_ALONE = "empty: no recipe of the profile trains a head on a frozen backbone"


@dataclass(frozen=True)
class _Made:
    """What a body returned, the files of each table that are read now, and how fast it went."""

    output: StageOutput
    entries: Mapping[str, Entry]
    pace: Pace | None


class Stage(Declaration):
    """A declared stage; `bind` makes the Dagster asset of it for a profile."""

    def bind(self, settings: Settings, stages: Mapping[str, Declaration]) -> dg.AssetsDefinition:
        """The Dagster asset of this stage under a profile.

        Args:
            stages: the stages behind all tables, to judge inputs.
        """
        keys = partitions_of(self.table, settings)
        version, fresh = spec_version(self, settings, stages), settings.orchestration.fresh_within_days
        memo: dict[str, Any] = {}

        def compute(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
            yield from self._materialize(context, self.run_in(context, stages, memo), version)

        return dg.multi_asset(
            name=prefixed(self.name, self.prefix),
            specs=[
                presentation.asset_spec(self, key, version, fresh).replace_attributes(skippable=len(self.tables) > 1)
                for key in self.tables
            ],
            can_subset=len(self.tables) > 1,
            partitions_def=dg.StaticPartitionsDefinition(keys) if keys is not None else None,
            required_resource_keys={prefixed(name, self.prefix) for name in RESOURCES},
            pool=None if parts_asked(self.table, settings) == (NOTHING,) else self.pool,
        )(compute)

    def run_in(
        self,
        context: dg.AssetExecutionContext,
        stages: Mapping[str, Declaration],
        memo: dict[str, Any],
    ) -> StageRun:
        """What this stage uses in a step of a Dagster run.

        Args:
            context: has the `RESOURCES`.
            stages: the stages behind all tables.
            memo: values that the runs of this process share.
        """
        return StageRun(
            self.name,
            self.tables,
            run_id=context.run.run_id,
            log=context.log.info,
            **resources_of(context, self.prefix),
            stages=stages,
            inputs=self.inputs,
            memo=memo,
        )

    def bring_up_to_date(self, run: StageRun, partition: str | None = None) -> dict[str, Metadata]:
        """Make a partition if it is missing or stale.

        Returns:
            Per table, the metadata that Dagster shows; `skipped` is in it when nothing had changed.

        Raises:
            CpmiError: an input is missing, or the body could not make the rows.
        """
        began = time.monotonic()
        with run.lake.making(self.table, partition, run.log):
            for key in self.tables:
                run.lake.tables.tidy(key, partition)
            states = self._states(run)
            states.adopt_inputs(self, partition)
            refuse_stale(states, self)
            wanted = states.to_make(self, partition, check=True)
            made = self._make(run, partition, wanted) if wanted.missing else None
            entries = made.entries if made else wanted.entries
            run.lake.count({(key, partition): entry for key, entry in entries.items()})
            # a run may have been killed once it had written the rows
            for record in run.lake.records(self.table, partition):
                run.lake.chunks(self.table, partition, hash_of(record.parts)).clear()
        run.database.publish_soon()
        seconds = time.monotonic() - began
        records = {key: record for key in self.tables if (record := run.lake.record(key, partition))}
        rows = sum(record.rows for record in records.values())
        run.progress.finish(self.name, partition, rows, seconds, skipped=made is None)
        if made is not None:
            rates = made.pace.metadata() if made.pace else {}
            return {
                key: presentation.written(self, record, made.output, seconds) | rates for key, record in records.items()
            }
        run.log(f"{self.name}{f' {partition}' if partition else ''}: skipped, unchanged")
        heads = {key: run.lake.head(key, partition, presentation.PREVIEW_ROWS) for key in records}
        return {key: presentation.skipped(self, record, heads[key]) for key, record in records.items()}

    def _states(self, run: StageRun) -> States:
        return States(run.settings, run.lake, run.models, run.sources, run.stages, run.memo)

    def _make(self, run: StageRun, partition: str | None, wanted: ToMake) -> "_Made":
        """Call the body for the parts that are missing, and write its rows.

        Raises:
            LakeError: a model or a source has changed meanwhile.
        """
        are_all = self.table in MADE_TOGETHER or not wanted.entries[self.table]
        missing = list(wanted.keys) if are_all else list(wanted.missing)
        keys = {part: wanted.keys[part] for part in missing}
        chunks = run.lake.chunks(self.table, partition, hash_of(keys))
        if self.table in run.lake.remake:
            chunks.clear()
        fixed = replace(run, lake=run.lake.fixed(), chunks=chunks, facts=wanted.facts, parts=missing)
        if missing == [NOTHING]:
            empty = {key: TABLES[key].schema.create_empty() for key in self.tables}
            output = StageOutput(empty, notes=[self.unasked])
        else:
            output = self.body(*((fixed, partition) if partition else (fixed,)))
            now = self._states(fixed).facts(self, partition)
            if changed := [name for name, fact in wanted.facts.items() if now[name] != fact]:
                chunks.clear()  # some of them may be made of what it changed to
                where, what = words(self.table, partition), " and ".join(changed)
                raise LakeError(
                    f"the {what} of {where} changed while its rows were made; nothing is written, run again"
                )
        rejected = [key for key in self.also if is_in_parts(key)]
        kept = {} if are_all else wanted.entries
        for key in rejected if kept else ():
            before, now = run.lake.seeing({(key, partition): kept[key]}).read(key, partition), output.frame(key)
            if not before.equals(now.select(before.columns).sort(TABLES[key].schema.primary_key())):
                # a trajectory that one part rejects is in no part, so those that were made before may have too many
                return self._make(run, partition, replace(wanted, entries={own: {} for own in self.tables}))
        pace = chunks.pace
        records = self._write(fixed, output, partition, keys)
        entries = {
            key: {**_without(kept.get(key, {}), missing), records[key].file_name: missing} for key in self.tables
        }
        return _Made(output, entries, pace)

    def _write(
        self, run: StageRun, made: StageOutput, partition: str | None, keys: Mapping[str, str]
    ) -> dict[str, FileRecord]:
        """Commit the rows of all tables; the first table has the cost, since the body ran once for all of them."""
        facts = run.facts
        record = FileRecord(
            table=self.table,
            partition=partition,
            run_id=run.run_id,
            model=made.model,
            code_version=self.code_version,
            parts=keys,
            inputs={name: facts[name] for name in ("inputs", "sources", "models") if name in facts},
            settings={name: facts[name] for name in ("seed", "recipe") if name in facts}
            | facts.get("settings", {})
            | facts.get("asks", {}),
            cost=made.cost.to_dict(),
            notes=list(made.notes),
            files=list(made.files),
        )
        own = {
            key: record if key == self.table else replace(record, table=key, cost={}, files=[]) for key in self.tables
        }
        return {key: run.lake.put(made.frame(key), own[key]) for key in reversed(self.tables)}

    def _materialize(
        self, context: dg.AssetExecutionContext, run: StageRun, code: str
    ) -> Iterator[dg.MaterializeResult]:
        """Make all tables; those that the run did not ask for are recorded as well, since they may have changed."""
        if len(context.partition_keys if self.partitioning else ()) > 1:
            raise dg.Failure("a run makes one partition; launch one run per partition", allow_retries=False)
        partition = context.partition_key if self.partitioning else None
        with step_errors(context, run.settings.orchestration):
            shown = self.bring_up_to_date(run, partition)
            run.database.publish_after_step()
        for key in self.tables:
            record = run.lake.record(key, partition)
            content = record.content if record else None
            asset, versions = asset_key(key, self.prefix), (content or "", code)
            if asset in context.selected_asset_keys:
                version = dg.DataVersion(content) if content else None
                yield dg.MaterializeResult(asset_key=asset, metadata=shown[key], data_version=version)
            elif content:
                context.log_event(
                    materialization(context.instance, key, partition, self.inputs, versions, shown[key], self.prefix)
                )


def resources_of(context: dg.AssetExecutionContext, prefix: Sequence[str]) -> dict[str, Any]:
    """The `RESOURCES` of a step by their names in a `StageRun`."""
    return {name: getattr(context.resources, prefixed(name, prefix)) for name in RESOURCES}


def _declares(
    make: Callable[Concatenate[StageBody, Options], Stage],
) -> Callable[Options, Callable[[StageBody], Stage]]:
    """A decorator with the fields of a `Stage` as its arguments, all but the body, which it decorates."""

    def declare(*args: Options.args, **options: Options.kwargs) -> Callable[[StageBody], Stage]:
        return lambda body: make(body, *args, **options)

    return declare


stage = _declares(Stage)
"""Declare a stage; the arguments are the attributes of `Stage`."""
model_stage = partial(stage, pool=GPU_POOL, kinds=("pytorch", "huggingface"))
"""Declare a stage that runs a language or reward model."""


def _without(entry: Entry, parts: Sequence[str]) -> dict[str, list[str]]:
    """The files of a partition with the parts that other files do not have."""
    left = {file: [part for part in own if part not in parts] for file, own in entry.items()}
    return {file: own for file, own in left.items() if own}
