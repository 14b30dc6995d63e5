"""The two checks that every asset has.

keeps_contract    the rows have the columns, types and keys of the table's contract; checked before they are written
is_current        what is there is what the profile would make now, else why not: `States`, in Dagster's words

    is_current of labels/step_rewards, after an edit of the profile:
        scoring.templates: 4, now 2 (labels/answer_logprobs); shards 000 to 003

Dagster has no mark of its own for a stale partitioned asset. `is_current` stops nothing; it is evaluated when somebody
asks for it, in every run for the tables that it makes, at the end of `cpmi run`, and whenever the sensor `watch_home`
finds that it would say something else.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.resources.dag.instance import hold_run
from cpmi_dagster.resources.dag.stage import asset_key, prefixed
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.parquet import Record

IS_CURRENT, KEEPS_CONTRACT = "is_current", "keeps_contract"
EVERY_ASSETS = (IS_CURRENT, KEEPS_CONTRACT)


def contract_spec(key: str, prefix: Sequence[str], partitions: dg.PartitionsDefinition | None) -> dg.AssetCheckSpec:
    """The check of a table's contract."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # of checks with partitions
        return dg.AssetCheckSpec(
            KEEPS_CONTRACT,
            asset=asset_key(key, prefix),
            description="The rows have the columns, types, ranges and keys of the table's contract; no others are "
            "written.",
            partitions_def=partitions,
        )


def contract_result(key: str, prefix: Sequence[str], records: Sequence[Record]) -> dg.AssetCheckResult:
    """The result for rows that have been written, or were found as they had been written."""
    schema = TABLES[key].schema
    names = schema.primary_key()
    shown = {"rows": sum(record.rows for record in records), "columns": len(schema.columns())}
    return dg.AssetCheckResult(
        passed=True,
        asset_key=asset_key(key, prefix),
        check_name=KEEPS_CONTRACT,
        metadata={**shown, **({"primary_key": ", ".join(names)} if names else {})},
    )


def currency_check(
    tables: Sequence[str], judge: Callable[[], States], prefix: Sequence[str] = ()
) -> dg.AssetsDefinition:
    """The check `is_current` of some tables, which Dagster can run for any of them.

    Args:
        judge: the states of all partitions, judged anew.
        prefix: of the asset keys.
    """
    specs = [
        dg.AssetCheckSpec(
            IS_CURRENT,
            asset=asset_key(key, prefix),
            description="What is there is what the profile would make now; if not, this says which setting, model, "
            "source or input differs.",
        )
        for key in tables
    ]

    @dg.multi_asset_check(specs=specs, name=prefixed(IS_CURRENT, prefix), can_subset=True)
    def compute(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = context.op_execution_context.selected_asset_check_keys
        states = judge()
        hold_run(states.settings, context.op_execution_context.run.run_id, prefix)
        for key in tables:
            if dg.AssetCheckKey(asset_key(key, prefix), IS_CURRENT) in wanted and states.lake.has_table(key):
                passed, text = states.explain(key)
                yield dg.AssetCheckResult(
                    passed=passed,
                    asset_key=asset_key(key, prefix),
                    check_name=IS_CURRENT,
                    severity=dg.AssetCheckSeverity.WARN,
                    description=text,
                )

    return compute


class Verdict(NamedTuple):
    """What the check `is_current` of a table should say.

    Attributes:
        passed: whether the table is current.
        text: why not, or that it is.
        materialization: Dagster's number of the asset's latest one, of which the check should say it.
    """

    passed: bool
    text: str
    materialization: int | None


def unreported(instance: dg.DagsterInstance, tables: Sequence[str], states: States) -> dict[str, Verdict]:
    """By table, what `is_current` should say and Dagster's pages do not show.

    The pages show the evaluation that was planned last, and that only if the asset has not been materialized since.
    """
    there = {asset_key(key): key for key in tables if states.lake.has_table(key)}
    checks = [dg.AssetCheckKey(asset, IS_CURRENT) for asset in there]
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    made = {each.asset_entry.asset_key: each.asset_entry for each in instance.get_asset_records([*there])}
    found = {}
    for check in checks:
        key, last = there[check.asset_key], made.get(check.asset_key)
        materialization = last.last_materialization_record if last else None
        verdict = Verdict(*states.explain(key), materialization.storage_id if materialization else None)
        if not _is_shown(instance, latest.get(check), verdict, materialization):
            found[key] = verdict
    return found


def _is_shown(instance: dg.DagsterInstance, record: Any, verdict: Verdict, materialization: Any) -> bool:
    """Whether the latest record of a check has a verdict, or a run at work will give it one."""
    evaluation = record.event.asset_check_evaluation if record and record.event else None
    if evaluation is None:
        run = instance.get_run_by_id(record.run_id) if record else None
        return run is not None and not run.is_finished
    if (evaluation.passed, evaluation.description) != (verdict.passed, verdict.text):
        return False
    if materialization is None or materialization.run_id == record.run_id:
        return True
    target = evaluation.target_materialization_data
    return target is not None and target.storage_id == materialization.storage_id
