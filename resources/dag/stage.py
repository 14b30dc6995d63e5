"""A stage of the DAG: reads tables, calls the method, and returns the rows of the tables it makes.

    @stage("dataset/soft_labels", inputs=["labels/step_rewards"], settings=["soft_labels", …])
    def soft_labels(run: StageRun) -> StageOutput:
        '''Soft labels: a robust z-score over the whole labelled set, then a sigmoid (Eq. 7).'''
        rewards, theirs = run.read("labels/step_rewards"), run.settings.sources.probability_labels
        return StageOutput(normalise(rewards, run.settings.soft_labels, theirs))

`bind` makes its Dagster asset. A run makes one partition, and is skipped if the file is current (see `states`). A lock
keeps two runs from the same work; the rows are checked against the contract, written, and shown in Dagster (schema,
lineage, row counts, preview, cost). The data version is the hash of the rows, so unchanged rows make nothing stale.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from shutil import rmtree
from typing import Any, Concatenate, ParamSpec

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.resources.dag import presentation
from cpmi_dagster.resources.dag.asset_keys import asset_key, prefixed
from cpmi_dagster.resources.dag.dagster_home import dagster_folder
from cpmi_dagster.resources.dag.declaration import Declaration, StageOutput
from cpmi_dagster.resources.dag.run_life import hold_run
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.dag.states import key_of, refuse_stale
from cpmi_dagster.resources.dag.step_errors import step_errors
from cpmi_dagster.resources.lake.database import publish
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import partitions_of, words
from cpmi_dagster.resources.lake.records import Record, hash_of

Metadata = dict[str, Any]
Options = ParamSpec("Options")
GPU_POOL = "gpu"


class Stage(Declaration):
    """A declared stage."""

    def bind(self, home: Home) -> dg.AssetsDefinition:
        """The Dagster asset of the stage in a home."""
        keys = partitions_of(self.table, home.settings) if self.partitioning else None

        def compute(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
            partition = context.partition_key if keys is not None else None
            hold_run(dagster_folder(home.settings), context.run.run_id)
            with step_errors(context, home.settings.orchestration):
                run = StageRun(self, home, partition, context.run.run_id, context.log.info)
                shown = self.bring_up_to_date(run)
            for key in self.tables:
                content = self._content(home, key, partition)
                version = dg.DataVersion(content) if content else None
                yield dg.MaterializeResult(
                    asset_key=asset_key(key, self.prefix), metadata=shown[key], data_version=version
                )

        return dg.multi_asset(
            name=prefixed(self.name, self.prefix),
            specs=[presentation.asset_spec(self, key, home.settings) for key in self.tables],
            partitions_def=dg.StaticPartitionsDefinition(keys) if keys is not None else None,
            backfill_policy=dg.BackfillPolicy.multi_run(1) if keys is not None else None,
            pool=self.pool if self.asked(home.settings) else None,
        )(compute)

    def _content(self, home: Home, key: str, partition: str | None) -> str:
        """The hash of a table's rows after a run."""
        names = partitions_of(key, home.settings) if self.at_once else [partition]
        records = [home.lake.record(key, name) for name in names or [None]]
        contents = [record.content for record in records if record]
        return contents[0] if len(contents) == 1 else hash_of(contents)

    def bring_up_to_date(self, run: StageRun) -> dict[str, Metadata]:
        """Make a partition if it is missing or stale.

        Returns:
            Metadata for Dagster by table, with `skipped` if the partition was current.

        Raises:
            CpmiError: an input is missing, or the body fails.
        """
        began, lake, home = time.monotonic(), run.lake, run.home

        def say(line: str) -> None:
            run.log(line)
            home.progress.tell(line)

        with lake.making(self.table, run.partition, say):
            states = home.states()
            refuse_stale(states, self)
            facts = states.facts(self, run.partition)
            run = replace(run, facts=facts, key=key_of(facts))
            forced = f"{self.table} {run.partition}" in home.remake
            is_made = not forced and states.is_made(self, run.partition, run.key, check=True)
            output = None if is_made else self._make(run)
            home.remake.discard(f"{self.table} {run.partition}")
        seconds = time.monotonic() - began
        files = home.states().files(self, run.partition)
        records = {key: [lake.record(*file) for file in files if file[0] == key] for key in self.tables}
        records = {key: [record for record in each if record] for key, each in records.items()}
        rows = sum(record.rows for each in records.values() for record in each)
        home.progress.finish(self.name, run.partition, rows, seconds, skipped=is_made)
        if output is None:
            run.log(f"{self.name}{f' {run.partition}' if run.partition else ''}: skipped, unchanged")
        more = {"skipped": "unchanged"} if output is None else {"seconds": round(seconds, 2), **output.metadata}
        shown = {}
        for key, each in records.items():
            head = lake.head(key, each[0].partition, presentation.PREVIEW_ROWS)
            shown[key] = presentation.facts_of(self, each, head) | more
        return shown

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
        if self.asked(run.settings):
            output = self.body(run)
        else:
            empty = {key: TABLES[key].schema.create_empty() for key in self.tables}
            output = StageOutput([] if self.at_once else empty, notes=[self.unasked])
        self._write(run, output)
        for folder in run.checkpoints.parent.glob(f"{run.partition}-*"):  # of earlier keys too
            rmtree(folder, ignore_errors=True)
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
