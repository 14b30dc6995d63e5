"""A stage of the DAG: it reads tables, calls the method, and returns the rows of the tables it makes.

    @stage("dataset/soft_labels", inputs=["labels/step_rewards"], settings=["soft_labels", …])
    def soft_labels(run: StageRun) -> StageOutput:
        '''Soft labels: a robust z-score over the whole labelled set, then a sigmoid (Eq. 7).'''
        rewards, own = run.read("labels/step_rewards"), run.settings.sources.probability_labels
        return StageOutput(normalise(rewards, run.settings.soft_labels, own))

What the decorator adds: a fingerprint over the code version, the named settings and models and the content of every
input, so that unchanged work is skipped; a lock, so that two runs do not make the same file; the contract check, the
atomic write, and what Dagster shows (schema, lineage, row counts, preview, cost). A Dagster run makes one
partition; its data version is the hash of the rows: only what follows changed rows is stale for Dagster.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.files.json_log import logged_as
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag import presentation
from cpmi_dagster.resources.dag.declaration import StageBody
from cpmi_dagster.resources.dag.labeling_budget import recorded_cost
from cpmi_dagster.resources.dag.materializations import asset_key, materialization
from cpmi_dagster.resources.dag.profile_at_work import profile_at_work
from cpmi_dagster.resources.dag.run_config import FORCE, RUN_CONFIG
from cpmi_dagster.resources.dag.spec_version import spec_version
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.dag.staleness import Maker, Staleness, input_partitions, refuse_stale
from cpmi_dagster.resources.dag.step_errors import step_errors
from cpmi_dagster.resources.lake.extent import (
    Extent,
    covers,
    is_nothing,
    setting_values,
    widened,
)
from cpmi_dagster.resources.lake.fingerprints import (
    columns_of,
    fingerprint_of,
    rows_hash,
)
from cpmi_dagster.resources.lake.home_files import LateWrite
from cpmi_dagster.resources.lake.input_rows import ROWS_OF_PARTITION, partitions_of, rows_of_extent
from cpmi_dagster.resources.lake.lake import Begun, Contents, FileRecord
from cpmi_dagster.resources.lake.pace import Pace
from cpmi_dagster.resources.workers.chunks import StageOutput

Metadata = dict[str, Any]
RESOURCES = {"settings", "lake", "models", "sources", "database", "progress"}
"""What a step has from Dagster, by the names of a `StageRun`."""
Options = ParamSpec("Options")
GPU_POOL = "gpu"
LOG = logging.getLogger(__name__)
NOTHING_ASKED_FOR = "empty: no reward type of the profile needs it"


class Stage(Maker):
    """A declared stage; `bind` makes the Dagster asset of it for a profile."""

    def bind(self, settings: Settings, makers: Mapping[str, Maker]) -> dg.AssetsDefinition:
        """The Dagster asset of this stage under a profile.

        Args:
            makers: the stages behind all tables, to tell stale inputs from others.
        """
        keys = partitions_of(self.table, settings)
        version, fresh = spec_version(self, settings, makers), settings.orchestration.fresh_within_days
        memo: dict[str, Any] = {}

        def compute(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
            yield from self._materialize(context, self.run_in(context, makers, memo), version)

        return dg.multi_asset(
            name=self.name,
            specs=[
                presentation.asset_spec(self, key, version, fresh).replace_attributes(skippable=len(self.tables) > 1)
                for key in self.tables
            ],
            can_subset=len(self.tables) > 1,
            partitions_def=dg.StaticPartitionsDefinition(keys) if keys is not None else None,
            required_resource_keys=RESOURCES,
            config_schema=RUN_CONFIG,
            pool=self.pool,
        )(compute)

    def run_in(
        self,
        context: dg.AssetExecutionContext,
        makers: Mapping[str, Maker],
        memo: dict[str, Any],
        changed: Mapping[str, Any] | None = None,
    ) -> StageRun:
        """What this stage uses in a step of a Dagster run.

        Args:
            context: has the `RESOURCES`.
            makers: the stages behind all tables.
            memo: values that the runs of this process share.
            changed: what this run uses in place of a resource, by its name.
        """
        used = {name: getattr(context.resources, name) for name in RESOURCES} | dict(changed or {})
        if context.op_execution_context.op_config[FORCE]:
            used["lake"] = used["lake"].remaking(self.tables)
        return StageRun(
            self.name,
            self.tables,
            run_id=context.run.run_id,
            log=context.log.info,
            **used,
            makers=makers,
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
        with self.named_in_logs(run, partition):
            return self._bring_up_to_date(run, partition)

    def named_in_logs(self, run: StageRun, partition: str | None) -> AbstractContextManager[None]:
        """Lines logged within the block name the run, this stage, and its shard, recipe or question set."""
        part = {self.partitioning: partition} if self.partitioning and partition else {}
        return logged_as(run_id=run.run_id, stage=self.name, **part)

    def _bring_up_to_date(self, run: StageRun, partition: str | None) -> dict[str, Metadata]:
        began = time.monotonic()
        run.lake.files.check()
        with run.lake.making(self.table, partition, run.log):
            begun = run.lake.begun(self.tables, partition)
            for key in self.tables:
                run.lake.tidy(key, partition, run.log)
            refuse_stale(Staleness(run, run.makers), self)
            if self.is_up_to_date(run, partition):
                return self._skip(run, partition, began)
            try:
                with profile_at_work(run.settings):
                    made, records, pace = self._make(run, partition, begun)
            except LateWrite as error:
                run.log(str(error))
                LOG.warning(str(error))
                if not self._is_made_by_another(run, partition):
                    raise
                return self._skip(run, partition, began)
        if not run.database.shows(*self.tables):
            run.database.publish()
        seconds = time.monotonic() - began
        run.progress.finish(self.name, partition, sum(record.rows for record in records), seconds, skipped=False)
        rates = pace.metadata() if pace else {}
        return {record.table: presentation.written(self, record, made, seconds) | rates for record in records}

    def _make(
        self, run: StageRun, partition: str | None, begun: Begun
    ) -> tuple[StageOutput, list[FileRecord], Pace | None]:
        """Call the body, and write its rows unless what they depend on, or they themselves, have changed meanwhile.

        Args:
            begun: the files that were in place at the start.
        """
        asked, contents = self.asked(run.settings), self._contents_of_inputs(run, partition)
        before = self._extent_before(run, partition, asked)
        extent = widened(before or self._extent_on_disk(run, partition, asked), asked)
        facts = self.dependencies(run, partition, extent)
        fingerprint = fingerprint_of(facts)
        unfinished = fingerprint_of({**facts, "extent": extent, "before": before}) if self.grows else fingerprint
        chunks = run.lake.chunks(self.table, partition, unfinished)
        if self.table in run.lake.remake:
            chunks.clear()
        lake = run.lake.at(contents, begun)
        fixed = replace(run, lake=lake, chunks=chunks, facts=facts, extent=extent, extent_before=before)
        made = self._nothing() if is_nothing(asked) else self.body(*((fixed, partition) if partition else (fixed,)))
        run.lake.files.look_again()
        if changed := _differing(facts, self.dependencies(run, partition, extent)):
            chunks.clear()  # some of them may be made of what it changed to
            where = f"{self.table} {partition}" if partition else self.table
            raise LakeError(f"the {changed} of {where} changed while its rows were made; nothing is written, run again")
        records = self._write(fixed, made, partition, fingerprint)
        pace = chunks.pace
        chunks.clear()
        return made, records, pace

    def _is_made_by_another(self, run: StageRun, partition: str | None) -> bool:
        """Whether the run that wrote first has made the same; of several tables it may still write the last."""
        for seconds in (0, 1, 2, 4, 8):
            time.sleep(seconds)
            run.lake.files.look_again()
            if self.is_up_to_date(run, partition):
                return True
        return False

    def _skip(self, run: StageRun, partition: str | None, began: float) -> dict[str, Metadata]:
        run.log(f"{self.name}{f' {partition}' if partition else ''}: skipped, unchanged")
        run.lake.chunks(self.table, partition, "").clear()  # a run may have been killed once it had written the rows
        records = {key: record for key in self.tables if (record := run.lake.record(key, partition))}
        rows = sum(record.rows for record in records.values())
        run.progress.finish(self.name, partition, rows, time.monotonic() - began, skipped=True)
        heads = {key: run.lake.head(key, partition, presentation.PREVIEW_ROWS) for key in records}
        return {key: presentation.skipped(self, record, heads[key]) for key, record in records.items()}

    def is_up_to_date(self, run: StageRun, partition: str | None = None) -> bool:
        """See `Maker.is_up_to_date`."""
        if not self.grows:
            record = self._record_on_disk(run, partition)
            return record is not None and record.fingerprint == fingerprint_of(self.dependencies(run, partition))
        asked = self.asked(run.settings)
        if is_nothing(asked):
            # nothing is there to be made again, even where that is asked for
            return all(run.lake.intact_record(key, partition) for key in self.tables)
        before = self._extent_before(run, partition, asked)
        return before is not None and covers(before, asked)

    def _extent_before(self, run: StageRun, partition: str | None, asked: Extent) -> Extent | None:
        """How much there is on disk of what would be made now; None where nothing of it can be kept."""
        record = self._record_on_disk(run, partition) if self.grows else None
        if record is None:
            return None
        extent = record.extent
        if set(extent) != set(asked):
            return None
        return extent if record.fingerprint == fingerprint_of(self.dependencies(run, partition, extent)) else None

    def _record_on_disk(self, run: StageRun, partition: str | None) -> FileRecord | None:
        """What made the files of a partition; None where one is missing, damaged or not made with the others."""
        found = [run.lake.usable_record(key, partition) for key in self.tables]
        fingerprints = {record.fingerprint if record else None for record in found}
        return found[0] if len(fingerprints) == 1 else None

    def _extent_on_disk(self, run: StageRun, partition: str | None, asked: Extent) -> Extent:
        """What is made where nothing can be kept: what is asked for, and when forced also what there is already."""
        record = run.lake.intact_record(self.table, partition) if self.table in run.lake.remake else None
        return record.extent if record and set(record.extent) == set(asked) else asked

    def _nothing(self) -> StageOutput:
        return StageOutput({key: TABLES[key].schema.create_empty() for key in self.tables}, notes=[NOTHING_ASKED_FOR])

    def dependencies(self, run: StageRun, partition: str | None, extent: Extent | None = None) -> dict[str, Any]:
        """See `Maker.dependencies`."""
        extent = extent or {}
        facts = {
            "code_version": self.code_version,
            "columns": {key: columns_of(key) for key in self.tables},
            "seed": run.settings.seed,
            # what is not set changes no row, so that a setting which a later version adds makes none stale
            "settings": {
                path: value for path, value in setting_values(self.settings, run.settings).items() if value is not None
            },
            "models": {role: run.models.facts(role) for role in self.models if run.models.has(role)},
            "sources": {name: run.sources.version(source) for name, source in self.sources(run.settings).items()},
            "inputs": {key: self._input_version(run, key, partition, extent) for key in self.inputs},
        }
        if self.counts_costs:
            records = {key: run.lake.record(key, partition) for key in self.inputs if TABLES[key].partitioning}
            facts["costs"] = {key: dict(record.cost) for key, record in records.items() if record and record.cost}
        if self.partitioning == "recipe" and partition:
            recipe = run.settings.recipe(partition)
            training = recipe.trained_with(run.settings.training).model_dump(mode="json")
            facts["recipe"] = {**recipe.model_dump(mode="json"), "training": training}
            if recipe.backbone is not None and "backbone" in self.models:
                facts["models"]["backbone"] = run.models.facts_of(recipe.backbone)
        return facts

    def _contents_of_inputs(self, run: StageRun, partition: str | None) -> Contents:
        """The content of every file that the body may read."""
        return {
            (key, name): run.lake.content(key, name)
            for key in self.inputs
            for name in input_partitions(self, key, partition, run.settings)
        }

    def _input_version(self, run: StageRun, key: str, partition: str | None, extent: Extent) -> str | dict[str, str]:
        within = rows_of_extent(key, extent)
        if within is not None:
            name = f"{key} {run.lake.content(key, partition)} {within}"
            return run.once(name, lambda: rows_hash(run.lake.read(key, partition).filter(within)))
        if TABLES[key].partitioning is None:
            rows = ROWS_OF_PARTITION.get((key, self.partitioning))
            content = run.lake.content(key, None)
            if not rows or not partition:
                return content
            chosen = rows(run.settings, partition)
            return run.once(f"{key} {content} {chosen}", lambda: rows_hash(run.read(key).filter(chosen)))
        if TABLES[key].partitioning == self.partitioning:
            return run.lake.content(key, partition)
        return {part: run.lake.content(key, part) for part in partitions_of(key, run.settings) or []}

    def _write(self, run: StageRun, made: StageOutput, partition: str | None, fingerprint: str) -> list[FileRecord]:
        record = FileRecord(
            table=self.table,
            partition=partition,
            fingerprint=fingerprint,
            run_id=run.run_id,
            model=made.model,
            code_version=self.code_version,
            inputs={name: run.facts[name] for name in ("inputs", "sources", "models")},
            settings={name: run.facts[name] for name in ("seed", "recipe") if name in run.facts}
            | run.facts["settings"],
            extent=run.extent,
            cost=recorded_cost(made.cost, run.lake.intact_record(self.table, partition) if run.extent_before else None),
            notes=list(made.notes),
            files=list(made.files),
        )
        # the body ran once for all its tables: the first has the cost. It comes last: others look for it alone
        records = (*(replace(record, table=key, cost={}) for key in self.also), record)
        written = [run.lake.write(made.frame(own.table), own) for own in records]
        return [written[-1], *written[:-1]]

    def _materialize(
        self, context: dg.AssetExecutionContext, run: StageRun, code: str
    ) -> Iterator[dg.MaterializeResult]:
        """Make all tables; those that the run did not ask for are recorded as well, since they may have changed."""
        if len(context.partition_keys if self.partitioning else ()) > 1:
            raise dg.Failure("a run makes one partition; launch one run per partition", allow_retries=False)
        partition = context.partition_key if self.partitioning else None
        with step_errors(context, run.settings.orchestration):
            shown = self.bring_up_to_date(run, partition)
        for key in self.tables:
            record = run.lake.record(key, partition)
            content = record.content if record else None
            if asset_key(key) in context.selected_asset_keys:
                version = dg.DataVersion(content) if content else None
                yield dg.MaterializeResult(asset_key=asset_key(key), metadata=shown[key], data_version=version)
            elif content:
                made = materialization(context.instance, key, partition, self.inputs, (content, code), shown[key])
                context.log_event(made)


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


def _differing(facts: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What of the facts has changed: `models`, `sources and inputs`."""
    return " and ".join(name for name, fact in facts.items() if now[name] != fact)
