"""Makes the partitions of a stage, as an asset of Dagster.

A run makes one partition, and is skipped if the file is current (see `states`). A lock keeps two runs from the same
work; the rows are checked against the contract, written, and shown in Dagster (schema, row counts, preview, cost). The
data version is the hash of the rows, so unchanged rows make nothing stale. Errors of a step:

    TransientError, MemoryError, ConnectionError, torch.OutOfMemoryError, …    retried after 30 s, 60 s, 120 s
    any other CpmiError                                                     failed, with its sentence
    anything else                                                           failed, with its traceback
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from shutil import rmtree
from typing import Any

import dagster as dg

from cpmi_dagster.errors import CpmiError, LakeError, first_line, is_fatal, is_transient, with_notes
from cpmi_dagster.profiles.partitions import partition_name, partitions_of
from cpmi_dagster.profiles.settings import Orchestration
from cpmi_dagster.resources.dag.facts import key_of
from cpmi_dagster.resources.dag.general_checks import contract_result, contract_spec
from cpmi_dagster.resources.dag.home_resources import LAKE, MODELS
from cpmi_dagster.resources.dag.instance import hold_run
from cpmi_dagster.resources.dag.presentation import PREVIEW_ROWS, asset_spec, run_metadata
from cpmi_dagster.resources.dag.stage import Stage, StageOutput, asset_key, carried_inputs, prefixed
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.dag.states import refuse_stale
from cpmi_dagster.resources.lake.database import publish
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.parquet import Record, hash_of, read_rows

DATA_VERSION_TAG = "dagster/data_version"
INTERRUPTED = "interrupted; run again to continue where it stopped"
SIGNALLED = ("DagsterExecutionInterruptedError", "KeyboardInterrupt")
QUERY_STOPPED = "RuntimeError: Query interrupted"
"""DuckDB's error of a signal during a query."""
LOG = logging.getLogger(__name__)


def asset_of(stage: Stage, home: Home) -> dg.AssetsDefinition:
    """The Dagster asset of the stage in a home."""
    keys = partitions_of(stage.table, home.settings) if stage.run_partitioning else None
    partitions = dg.StaticPartitionsDefinition(keys) if keys is not None else None
    used = (LAKE, MODELS) if stage.pool else (LAKE,)

    def compute(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
        partition = context.partition_key if keys is not None else None
        hold_run(home.settings, context.run.run_id, stage.prefix)
        given = {name: getattr(context.resources, prefixed(name, stage.prefix)) for name in used}
        here = replace(home, **given)
        with step_errors(context, home.settings.orchestration):
            note_home(home.settings, home.lake.remove_shards)
            run = StageRun(stage, here, partition, context.run.run_id, context.log.info)
            outputs = _bring_all(run)
            if outputs:
                publish(here.lake, here.settings)
            shown = {name: value for output in outputs for name, value in output.metadata.items()}
            shown |= stage.summary(here, partition) | ({} if outputs else {"skipped": "unchanged"})
            results = [_result(stage, here, key, partition, shown) for key in stage.assets]
        for result in results:
            if result.asset_key in context.selected_asset_keys:
                yield result
            else:  # made all the same
                assert result.asset_key and result.data_version
                tags = {DATA_VERSION_TAG: result.data_version.value}
                event = dg.AssetMaterialization(
                    result.asset_key, metadata=result.metadata, partition=partition, tags=tags
                )
                context.log_event(event)

    return dg.multi_asset(
        name=prefixed(stage.name, stage.prefix),
        specs=[asset_spec(stage, key, home) for key in stage.assets],
        check_specs=[contract_spec(key, stage.prefix, partitions) for key in stage.assets],
        partitions_def=partitions,
        can_subset=len(stage.assets) > 1,
        pool=stage.pool,
        required_resource_keys={prefixed(name, stage.prefix) for name in used},
    )(compute)


def _bring_all(run: StageRun) -> list[StageOutput]:
    """Bring up to date what a run of Dagster makes: one partition, or one after another.

    One that fails for a reason of its own stops no other.

    Returns:
        What was made now.

    Raises:
        CpmiError: see `bring_up_to_date`; the first, after all have been tried.
    """
    outputs, errors = [], []
    for partition in run.home.made_in_a_run(run.stage, run.partition):
        try:
            outputs.append(bring_up_to_date(replace(run, partition=partition)))
        except CpmiError as error:
            if is_transient(error) or is_fatal(error):
                raise
            run.log(f"{partition_name(run.stage.table, partition)} is not made: {error}")
            errors.append(error)
    if errors:
        raise errors[0]
    return [output for output in outputs if output is not None]


def _result(
    stage: Stage, home: Home, key: str, partition: str | None, shown: Mapping[str, Any]
) -> dg.MaterializeResult:
    """What Dagster records of a table after a run."""
    names = [partition] if partition else partitions_of(key, home.settings) or [None]
    records = home.lake.records(key, names)
    head = read_rows(home.lake.path(key, names[0]), key, most=PREVIEW_ROWS)
    # what others read through this table is a part of its version, or they would not be stale if that changes
    carried = [each for name in carried_inputs(key, home.stages) for each in _contents(home, name, partition)]
    contents = [*(record.content for record in records), *carried]
    return dg.MaterializeResult(
        asset_key=asset_key(key, stage.prefix),
        metadata={**run_metadata(stage, records, head, home.lake), **shown},
        data_version=dg.DataVersion(contents[0] if len(contents) == 1 else hash_of(contents)),
        check_results=[contract_result(key, stage.prefix, records)],
    )


def _contents(home: Home, key: str, partition: str | None) -> list[str]:
    """The hashes of the rows of a table that a partition of this stage depends on."""
    whole = partitions_of(key, home.settings) or [None]
    return [record.content for record in home.lake.records(key, [partition] if partition in whole else whole)]


def bring_up_to_date(run: StageRun) -> StageOutput | None:
    """Make a partition if it is missing or stale.

    Returns:
        What was made; None if the partition was current.

    Raises:
        CpmiError: an input is missing or stale, or the body fails.
    """
    began, stage, partition, home = time.monotonic(), run.stage, run.partition, run.home
    states, name, output = home.states(), f"{stage.table} {partition}", None
    if is_due := name in home.remake or not states.is_done(stage, partition):
        # before the lock of a partition: who holds that never waits for a model's place
        if stage.pool:
            home.models.take_place(run.tell)
        with home.lake.lock_partition(stage.table, partition, run.tell):
            states = home.states()  # another process may have made it meanwhile
            if is_due := name in home.remake or not states.is_done(stage, partition):
                refuse_stale(states, stage, partition)
                facts = states.facts(stage, partition)
                output = _make(replace(run, facts=facts, key=key_of(facts)))
            home.remake.discard(name)
    seconds = time.monotonic() - began
    home.progress.finish_partition(stage.name, partition, states.rows(stage, partition), seconds, skipped=not is_due)
    if output is None:
        run.log(f"{stage.name}{f' {partition}' if partition else ''}: skipped, unchanged")
    return output


def _make(run: StageRun) -> StageOutput:
    """Call the body and write its rows.

    Raises:
        LakeError: a model or source changed meanwhile.
    """
    for file in run.stage.files(run.partition, run.settings):
        run.lake.tidy(*file)
    output = run.stage.body(run)
    _write(run, output)
    rmtree(run.checkpoints.parent, ignore_errors=True)
    return output


def _check_unchanged(run: StageRun) -> None:
    now = run.home.states().facts(run.stage, run.partition)
    if changed := [name for name, fact in run.facts.items() if now[name] != fact]:
        where, what = partition_name(run.stage.table, run.partition), " and ".join(changed)
        raise LakeError(f"the {what} of {where} changed while its rows were made; nothing is written, run again")


def _write(run: StageRun, output: StageOutput) -> None:
    """Write the rows of all tables; the record of the first one has the cost."""
    stage = run.stage
    record = Record(
        table=stage.table,
        partition=run.partition,
        key=run.key,
        run_id=run.run_id,
        model=output.model,
        code_version=stage.code_version,
        facts=run.facts,
        cost=asdict(output.cost),
        notes=list(output.notes),
        files=list(output.files),
    )
    if stage.at_once:
        records = {name: replace(record, partition=name) for name in partitions_of(stage.table, run.settings) or ()}
        run.lake.write_stream(stage.table, output.batches(), records, partial(_check_unchanged, run))
        return
    _check_unchanged(run)
    for key in reversed(stage.tables):
        written = record if key == stage.table else replace(record, table=key, cost={}, files=[])
        run.lake.write(output.frame(key), written)


@contextmanager
def step_errors(context: dg.AssetExecutionContext, orchestration: Orchestration) -> Iterator[None]:
    """Turn an error of a step into Dagster's request for a retry, or its failure.

    Raises:
        RetryRequested: the error is transient, and the step has attempts left.
        Failure: the user can correct the error.
    """
    try:
        yield
    except Exception as error:
        attempt = context.op_execution_context.retry_number
        if is_transient(error) and attempt < orchestration.retries:
            wait = orchestration.retry_seconds * 2**attempt
            again = f"trying again in {wait:g} s ({attempt + 1} of {orchestration.retries})"
            said = f"{context.op_execution_context.op.name}: {first_line(error)}; {again}"
            context.log.warning(said)
            # `cpmi run` shows no lines of Dagster's log
            LOG.warning(said)
            raise dg.RetryRequested(max_retries=orchestration.retries, seconds_to_wait=wait) from error
        if isinstance(error, CpmiError):
            raise dg.Failure(description=with_notes(error), allow_retries=False) from error
        raise


def reason_of(event: dg.DagsterEvent) -> str:
    """Why a step failed, in one sentence, from the event of its failure."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    cause = (data.error.cause or data.error) if data.error else None
    if cause is None:
        return "unknown"
    reason = first_line(Exception(cause.message))
    interrupted = cause.cls_name in SIGNALLED or reason == QUERY_STOPPED
    return INTERRUPTED if interrupted else reason
