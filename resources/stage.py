"""A stage of the DAG: it reads tables, calls the method, and returns the rows of the tables it makes.

    @stage("labels/template_scores", inputs=["labels/answer_logprobs"], settings=["demand.conditionings"])
    def template_scores(run: StageRun, shard: str) -> StageOutput:
        '''CPMI of every step under every template and conditioning (Eq. 3).'''
        logprobs = run.read("labels/answer_logprobs", shard)
        return StageOutput(conditionings.template_scores(logprobs, run.settings.demand.conditionings))

What the decorator adds: a fingerprint over the code version, the named settings and models and the content of every
input, so that unchanged work is skipped; a lock, so that two runs do not make the same file; the contract check, the
atomic write, and what Dagster shows (schema, lineage, row counts, preview, cost). A Dagster run makes one
partition; its data version is the hash of the rows: only what follows changed rows is stale for Dagster.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec

import dagster as dg
import polars as pl

from cpmi_dagster.contracts.tables import TABLES, Partitioning, fingerprinted_columns
from cpmi_dagster.errors import LakeError
from cpmi_dagster.models.language_models import model_identity
from cpmi_dagster.profiles.settings import Settings
from resources import presentation
from resources.data_sources import DataSources
from resources.database import Database
from resources.declaration import StageBody
from resources.extent import Extent, covers, earlier_extent, is_nothing, recorded_setting, setting_values, widened
from resources.lake import FileRecord, Lake, content_hash, fingerprint_of, rows_hash
from resources.language_models import LanguageModels
from resources.pace import read_pace
from resources.progress import Progress
from resources.spec_version import spec_version
from resources.stage_run import SELECTED, StageOutput, StageRun, partitions_of
from resources.staleness import Maker, Staleness, refuse_stale
from resources.step_errors import step_errors

Metadata = dict[str, Any]
Used = tuple[Settings, Lake, LanguageModels, DataSources, Database, Progress]
Options = ParamSpec("Options")
GPU_POOL = "gpu"
CATEGORIES = re.compile(r"Enum\(categories=\[[^\]]*\]\)")
NOTHING_ASKED_FOR = "empty: no reward type of the profile needs it"
RUN_CONFIG = {
    "force": dg.Field(bool, default_value=False, description="make the rows again even where nothing has changed"),
}

# an unpartitioned input of which a partition depends on some rows only
ROWS_OF_PARTITION: dict[tuple[str, Partitioning | None], Callable[[Settings, str], pl.Expr]] = {
    (SELECTED, "shard"): lambda settings, shard: pl.col("shard") == shard,
    ("dataset/soft_labels", "recipe"): lambda settings, recipe: (
        pl.col("reward_type") == settings.recipe(recipe).reward_type
    ),
    ("sources/benchmark_problems", "benchmark"): lambda _, benchmark: pl.col("benchmark") == benchmark,
}

# an input of which a stage that grows depends on the rows within its extent
ROWS_OF_EXTENT = {"labels/hard_negatives": "demand.negatives"}


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

        def compute(
            context: dg.AssetExecutionContext,
            settings: dg.ResourceParam[Settings],
            lake: dg.ResourceParam[Lake],
            models: dg.ResourceParam[LanguageModels],
            sources: dg.ResourceParam[DataSources],
            database: dg.ResourceParam[Database],
            progress: dg.ResourceParam[Progress],
        ) -> Iterator[dg.MaterializeResult]:
            used = (settings, lake, models, sources, database, progress)
            yield from self._materialize(context, self.run_in(context, used, makers, memo))

        return dg.multi_asset(
            name=self.name,
            specs=[presentation.asset_spec(self, key, version, fresh) for key in self.tables],
            partitions_def=dg.StaticPartitionsDefinition(keys) if keys is not None else None,
            config_schema=RUN_CONFIG,
            pool=self.pool,
        )(compute)

    def run_in(
        self, context: dg.AssetExecutionContext, used: Used, makers: Mapping[str, Maker], memo: dict[str, Any]
    ) -> StageRun:
        """What this stage uses in a step of a Dagster run.

        Args:
            used: the step's resources.
            makers: the stages behind all tables.
            memo: values that the runs of this process share.
        """
        settings, lake, models, sources, database, progress = used
        if context.op_execution_context.op_config["force"]:
            lake = Lake(lake.home, frozenset(self.tables))
        return StageRun(
            self.name,
            self.tables,
            settings,
            lake,
            models,
            sources,
            database,
            progress,
            context.run.run_id,
            context.log.info,
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
        began = time.monotonic()
        with run.lake.lock(self.table, partition):
            refuse_stale(Staleness(run, run.makers), self)
            if self.is_up_to_date(run, partition):
                return self._skip(run, partition, began)
            asked = self.asked(run.settings)
            before = self._extent_before(run, partition, asked)
            extent = widened(before or self._extent_on_disk(run, partition, asked), asked)
            facts = self.dependencies(run, partition, extent)
            fingerprint = fingerprint_of(facts)
            unfinished = fingerprint_of({**facts, "extent": extent, "before": before}) if self.grows else fingerprint
            chunks = run.lake.chunks(self.table, partition, unfinished)
            if self.table in run.lake.remake:
                chunks.clear()
            run = replace(run, chunks=chunks, facts=facts, extent=extent, extent_before=before)
            made = self._nothing() if is_nothing(asked) else self.body(*((run, partition) if partition else (run,)))
            records = self._write(run, made, partition, fingerprint)
            pace = read_pace(chunks.folder)
            chunks.clear()
        if not all(run.database.shows(key) for key in self.tables):
            run.database.publish()
        seconds = time.monotonic() - began
        run.progress.finish(self.name, partition, sum(record.rows for record in records), seconds, skipped=False)
        rates = pace.metadata() if pace else {}
        return {record.table: presentation.written(self, record, made, seconds) | rates for record in records}

    def _skip(self, run: StageRun, partition: str | None, began: float) -> dict[str, Metadata]:
        run.log(f"{self.name}{f' {partition}' if partition else ''}: skipped, unchanged")
        records = {key: record for key in self.tables if (record := run.lake.record(key, partition))}
        rows = sum(record.rows for record in records.values())
        run.progress.finish(self.name, partition, rows, time.monotonic() - began, skipped=True)
        heads = {key: run.lake.head(key, partition, presentation.PREVIEW_ROWS) for key in records}
        return {key: presentation.skipped(self, record, heads[key]) for key, record in records.items()}

    def is_up_to_date(self, run: StageRun, partition: str | None = None) -> bool:
        """See `Maker.is_up_to_date`."""
        if not self.grows:
            fingerprints = _fingerprints(self.dependencies(run, partition))
            return all(_is_current(run, key, partition, fingerprints) for key in self.tables)
        asked = self.asked(run.settings)
        if is_nothing(asked):
            # nothing is there to be made again, even where that is asked for
            return all(run.lake.intact_record(key, partition) for key in self.tables)
        before = self._extent_before(run, partition, asked)
        return before is not None and covers(before, asked)

    def _extent_before(self, run: StageRun, partition: str | None, asked: Extent) -> Extent | None:
        """How much there is on disk of what would be made now; None where nothing of it can be kept."""
        records = [run.lake.usable_record(key, partition) for key in self.tables] if self.grows else []
        if not records or not (record := records[0]) or any(one is None for one in records):
            return None
        extent = record.extent or earlier_extent(record.settings, asked)
        if set(extent) != set(asked) or len({one.fingerprint for one in records if one}) > 1:
            return None
        facts = self.dependencies(run, partition, extent)
        if not record.extent:
            facts = _as_recorded(run, facts, record)
        return extent if record.fingerprint in _fingerprints(facts) else None

    def _extent_on_disk(self, run: StageRun, partition: str | None, asked: Extent) -> Extent:
        """What is made where nothing can be kept: what is asked for, and when forced also what there is already."""
        record = run.lake.intact_record(self.table, partition) if self.table in run.lake.remake else None
        return record.extent if record and set(record.extent) == set(asked) else asked

    def _nothing(self) -> StageOutput:
        return StageOutput({key: TABLES[key].schema.create_empty() for key in self.tables}, notes=[NOTHING_ASKED_FOR])

    def dependencies(self, run: StageRun, partition: str | None, extent: Extent | None = None) -> dict[str, Any]:
        """See `Maker.dependencies`."""
        facts = {
            "code_version": self.code_version,
            "columns": {key: _columns(key) for key in self.tables},
            "seed": run.settings.seed,
            # what is not set changes no row, so that a setting which a later version adds makes none stale
            "settings": {
                path: value for path, value in setting_values(self.settings, run.settings).items() if value is not None
            },
            "models": {
                role: [run.models.identity(role), run.models.spec(role).dtype]
                for role in self.models
                if run.models.has(role)
            },
            "sources": {name: run.sources.version(source) for name, source in self.sources(run.settings).items()},
            "inputs": {key: self._input_version(run, key, partition, extent or {}) for key in self.inputs},
        }
        if self.counts_costs:
            records = {key: run.lake.record(key, partition) for key in self.inputs if TABLES[key].partitioning}
            facts["costs"] = {key: dict(record.cost) for key, record in records.items() if record and record.cost}
        if self.partitioning == "recipe" and partition:
            recipe = run.settings.recipe(partition)
            training = recipe.trained_with(run.settings.training).model_dump(mode="json")
            facts["recipe"] = {**recipe.model_dump(mode="json"), "training": training}
            if recipe.backbone is not None and "backbone" in self.models:
                spec = run.models.pinned(recipe.backbone)
                facts["models"]["backbone"] = [model_identity(spec.name, spec.revision), spec.dtype]
        return facts

    def _input_version(self, run: StageRun, key: str, partition: str | None, extent: Extent) -> str | dict[str, str]:
        axis = ROWS_OF_EXTENT.get(key)
        if axis is not None and axis in extent:
            rows = run.lake.read(key, partition)
            return rows_hash(rows if extent[axis] is None else rows.filter(pl.col("rank") <= extent[axis]))
        if TABLES[key].partitioning is None:
            rows = ROWS_OF_PARTITION.get((key, self.partitioning))
            content = _content(run.lake, key, None)
            if not rows or not partition:
                return content
            chosen = rows(run.settings, partition)
            return run.once(f"{key} {content} {chosen}", lambda: content_hash(run.read(key).filter(chosen)))
        if TABLES[key].partitioning == self.partitioning:
            return _content(run.lake, key, partition)
        return {part: _content(run.lake, key, part) for part in partitions_of(key, run.settings) or []}

    def _write(self, run: StageRun, made: StageOutput, partition: str | None, fingerprint: str) -> list[FileRecord]:
        record = FileRecord(
            table=self.table,
            partition=partition,
            fingerprint=fingerprint,
            run_id=run.run_id,
            model=made.model,
            code_version=self.code_version,
            inputs={name: run.facts[name] for name in ("inputs", "sources", "models")},
            settings={"seed": run.facts["seed"], **run.facts["settings"]},
            extent=run.extent,
            cost=made.cost.to_dict(),
            notes=list(made.notes),
            files=list(made.files),
        )
        # the body ran once for all its tables: the first has the cost
        further = [replace(record, table=key, cost={}) for key in self.also]
        return [run.lake.write(made.frame(own.table), own) for own in (record, *further)]

    def _materialize(self, context: dg.AssetExecutionContext, run: StageRun) -> Iterator[dg.MaterializeResult]:
        if len(context.partition_keys if self.partitioning else ()) > 1:
            raise dg.Failure("this run makes one partition; launch one run per partition", allow_retries=False)
        partition = context.partition_key if self.partitioning else None
        with step_errors(context, run.settings.orchestration):
            shown = self.bring_up_to_date(run, partition)
        for key in self.tables:
            record = run.lake.record(key, partition)
            version = dg.DataVersion(record.content) if record else None
            yield dg.MaterializeResult(asset_key=key.split("/"), metadata=shown[key], data_version=version)


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


def _as_recorded(run: StageRun, facts: Mapping[str, Any], record: FileRecord) -> dict[str, Any]:
    """Facts with settings and inputs as a file of an earlier version names them, where they are the same."""
    recorded = {path: value for path, value in record.settings.items() if path != "seed"}
    inputs = record.inputs["inputs"]
    same = all(recorded_setting(recorded, path) == value for path, value in facts["settings"].items()) and all(
        inputs.get(key) in (version, _content(run.lake, key, record.partition))
        for key, version in facts["inputs"].items()
    )
    return {**facts, "settings": recorded, "inputs": inputs} if same else {}


def _columns(key: str, with_categories: bool = False) -> dict[str, str]:
    """Columns and types of a table as fingerprints know them: a category that is added changes no row."""
    kinds = {name: str(kind) for name, kind in fingerprinted_columns(TABLES[key]).items()}
    return kinds if with_categories else {name: CATEGORIES.sub("Enum", kind) for name, kind in kinds.items()}


def _fingerprints(facts: Mapping[str, Any]) -> tuple[str, str]:
    """The fingerprint of a file, and that of an earlier version, which covered the categories of enums."""
    columns = {key: _columns(key, with_categories=True) for key in facts.get("columns", {})}
    return fingerprint_of(facts), fingerprint_of({**facts, "columns": columns})


def _is_current(run: StageRun, key: str, partition: str | None, fingerprints: Collection[str]) -> bool:
    """Whether a file is up to date; a damaged one is not."""
    try:
        return run.lake.is_current(key, partition, *fingerprints)
    except LakeError as error:
        run.log(f"{error}; making it again")
        return False


def _content(lake: Lake, key: str, partition: str | None) -> str:
    record = lake.record(key, partition)
    if record is None:
        raise lake.missing(key, partition)
    return record.content
