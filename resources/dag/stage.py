"""A stage of the DAG: reads tables, calls the method, and returns the rows of the tables it makes.

    @stage("dataset/soft_labels", inputs=["labels/step_rewards"], settings=["soft_labels", …])
    def soft_labels(run: StageRun) -> StageOutput:
        '''Soft labels: a robust z-score over the whole labelled set, then a sigmoid (Eq. 7).'''
        rewards, theirs = run.read("labels/step_rewards"), run.settings.sources.probability_labels
        return StageOutput(normalise(rewards, run.settings.soft_labels, theirs))

`bind` makes its Dagster asset. A run makes one partition, and is skipped if the file is current (see `states`). A lock
keeps two runs from the same work; the rows are checked against the contract, written, and shown in Dagster (schema,
row counts, preview, cost). The data version is the hash of the rows, so unchanged rows make nothing stale.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from shutil import rmtree
from typing import Any, Concatenate, ParamSpec

import dagster as dg

from cpmi_dagster.errors import CpmiError, LakeError, is_fatal, is_transient
from cpmi_dagster.resources.dag.asset_keys import asset_key, prefixed
from cpmi_dagster.resources.dag.declaration import Declaration, StageOutput, carried_inputs
from cpmi_dagster.resources.dag.file_metadata import PREVIEW_ROWS, facts_of
from cpmi_dagster.resources.dag.general_checks import contract_result, contract_spec
from cpmi_dagster.resources.dag.home_resources import LAKE, MODELS
from cpmi_dagster.resources.dag.instance import hold_run
from cpmi_dagster.resources.dag.presentation import asset_spec
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.dag.states import key_of, refuse_stale
from cpmi_dagster.resources.dag.step_errors import step_errors
from cpmi_dagster.resources.lake.database import publish
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import partitions_of, words
from cpmi_dagster.resources.lake.records import Record, hash_of

Options = ParamSpec("Options")
GPU_POOL = "gpu"
DATA_VERSION_TAG = "dagster/data_version"


def _event_of(result: dg.MaterializeResult, partition: str | None) -> dg.AssetMaterialization:
    """The event of a table that a run made though its asset is not selected."""
    assert result.asset_key and result.data_version
    tags = {DATA_VERSION_TAG: result.data_version.value}
    return dg.AssetMaterialization(result.asset_key, metadata=result.metadata, partition=partition, tags=tags)


class Stage(Declaration):
    """A declared stage."""

    def bind(self, home: Home) -> dg.AssetsDefinition:
        """The Dagster asset of the stage in a home."""
        keys = partitions_of(self.table, home.settings) if self.run_partitioning else None
        partitions = dg.StaticPartitionsDefinition(keys) if keys is not None else None
        used = (LAKE, MODELS) if self.pool else (LAKE,)

        def compute(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
            partition = context.partition_key if keys is not None else None
            hold_run(home.settings, context.run.run_id, self.prefix)
            given = {name: getattr(context.resources, prefixed(name, self.prefix)) for name in used}
            here = replace(home, **given)
            with step_errors(context, home.settings.orchestration):
                run = StageRun(self, here, partition, context.run.run_id, context.log.info)
                outputs = self._bring_all(run)
                shown = {name: value for output in outputs for name, value in output.metadata.items()}
                shown |= self.summary(here, partition) | ({} if outputs else {"skipped": "unchanged"})
                results = [self._result(here, key, partition, shown) for key in self.assets]
            for result in results:
                if result.asset_key in context.selected_asset_keys:
                    yield result
                else:  # made all the same
                    context.log_event(_event_of(result, partition))

        return dg.multi_asset(
            name=prefixed(self.name, self.prefix),
            specs=[asset_spec(self, key, home) for key in self.assets],
            check_specs=[contract_spec(key, self.prefix, partitions) for key in self.assets],
            partitions_def=partitions,
            can_subset=len(self.assets) > 1,
            pool=self.pool,
            required_resource_keys={prefixed(name, self.prefix) for name in used},
        )(compute)

    def _bring_all(self, run: StageRun) -> list[StageOutput]:
        """Bring up to date what a run of Dagster makes: one partition, or one after another.

        One that fails for a reason of its own stops no other.

        Returns:
            What was made now.

        Raises:
            CpmiError: see `bring_up_to_date`; the first, after all have been tried.
        """
        outputs, errors = [], []
        for partition in run.home.made_in_a_run(self, run.partition):
            try:
                outputs.append(self.bring_up_to_date(replace(run, partition=partition)))
            except CpmiError as error:
                if is_transient(error) or is_fatal(error):
                    raise
                run.log(f"{words(self.table, partition)} is not made: {error}")
                errors.append(error)
        if errors:
            raise errors[0]
        return [output for output in outputs if output is not None]

    def _result(self, home: Home, key: str, partition: str | None, shown: Mapping[str, Any]) -> dg.MaterializeResult:
        """What Dagster records of a table after a run."""
        names = [partition] if partition else partitions_of(key, home.settings) or [None]
        records = [record for name in names if (record := home.lake.record(key, name))]
        head = home.lake.head(key, names[0], PREVIEW_ROWS)
        # what others read through this table is a part of its version, or they would not be stale if that changes
        carried = [each for name in carried_inputs(key, home.stages) for each in self._contents(home, name, partition)]
        contents = [*(record.content for record in records), *carried]
        return dg.MaterializeResult(
            asset_key=asset_key(key, self.prefix),
            metadata={**facts_of(self, records, head, home.lake), **shown},
            data_version=dg.DataVersion(contents[0] if len(contents) == 1 else hash_of(contents)),
            check_results=[contract_result(key, self.prefix, records)],
        )

    def _contents(self, home: Home, key: str, partition: str | None) -> list[str]:
        """The hashes of the rows of a table that a partition of this stage depends on."""
        whole = partitions_of(key, home.settings) or [None]
        names = [partition] if partition in whole else whole
        return [record.content for name in names if (record := home.lake.record(key, name))]

    def bring_up_to_date(self, run: StageRun) -> StageOutput | None:
        """Make a partition if it is missing or stale.

        Returns:
            What was made; None if the partition was current.

        Raises:
            CpmiError: an input is missing or stale, or the body fails.
        """
        began, lake, home = time.monotonic(), run.lake, run.home
        # before the lock of a partition: who holds that never waits for a model's place
        if self.pool and home.states().state(self.table, run.partition).kind != "current":
            home.models.take_place(run.tell)
        with lake.making(self.table, run.partition, run.tell):
            states = home.states()
            refuse_stale(states, self, run.partition)
            facts = states.facts(self, run.partition)
            run = replace(run, facts=facts, key=key_of(facts))
            forced = f"{self.table} {run.partition}" in home.remake
            is_made = not forced and states.is_made(self, run.partition, run.key, check=True)
            output = None if is_made else self._make(run)
            home.remake.discard(f"{self.table} {run.partition}")
        seconds = time.monotonic() - began
        records = [lake.record(*file) for file in states.files(self, run.partition)]
        rows = sum(record.rows for record in records if record)
        home.progress.finish_partition(self.name, run.partition, rows, seconds, skipped=is_made)
        if output is None:
            run.log(f"{self.name}{f' {run.partition}' if run.partition else ''}: skipped, unchanged")
        return output

    def _make(self, run: StageRun) -> StageOutput:
        """Call the body and write its rows.

        Raises:
            LakeError: a model or source changed meanwhile.
        """
        note_home(run.settings, run.lake.remove_shards)
        files = run.home.states().files(self, run.partition)
        is_new = not all(run.lake.has(*file) for file in files)
        for file in files:
            run.lake.tidy(*file)
        output = self.body(run)
        self._write(run, output)
        rmtree(run.checkpoints.parent, ignore_errors=True)
        if is_new:
            publish(run.lake, run.settings)
        return output

    def _check_unchanged(self, run: StageRun) -> None:
        now = run.home.states().facts(self, run.partition)
        if changed := [name for name, fact in run.facts.items() if now[name] != fact]:
            where, what = words(self.table, run.partition), " and ".join(changed)
            raise LakeError(f"the {what} of {where} changed while its rows were made; nothing is written, run again")

    def _write(self, run: StageRun, output: StageOutput) -> None:
        """Write the rows of all tables; the record of the first one has the cost."""
        record = Record(
            table=self.table,
            partition=run.partition,
            key=run.key,
            run_id=run.run_id,
            model=output.model,
            code_version=self.code_version,
            facts=run.facts,
            cost=output.cost.to_dict(),
            notes=list(output.notes),
            files=list(output.files),
        )
        if self.at_once:
            records = {name: replace(record, partition=name) for name in partitions_of(self.table, run.settings) or ()}
            run.lake.write_stream(self.table, output.batches(), records, partial(self._check_unchanged, run))
            return
        self._check_unchanged(run)
        for key in reversed(self.tables):
            written = record if key == self.table else replace(record, table=key, cost={}, files=[])
            run.lake.write(output.frame(key), written)


def _declares(
    make: Callable[Concatenate[Callable[..., StageOutput], Options], Stage],
) -> Callable[Options, Callable[[Callable[..., StageOutput]], Stage]]:
    """A decorator of the body that takes the other fields of a `Stage` as its arguments."""

    def declare(*args: Options.args, **options: Options.kwargs) -> Callable[[Callable[..., StageOutput]], Stage]:
        return lambda body: make(body, *args, **options)

    return declare


stage = _declares(Stage)
"""Declares a stage; the arguments are the attributes of `Declaration`."""
model_stage = partial(stage, pool=GPU_POOL, kinds=("pytorch", "huggingface"))
"""Declares a stage that runs a language or reward model."""
