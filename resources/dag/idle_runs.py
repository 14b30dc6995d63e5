"""Runs of `cpmi run` that would do nothing are not started: Dagster's database does not grow with what is unchanged.

A run would do nothing where every file is there and current, Dagster has recorded it so, and no check has failed.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

import dagster as dg

from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.materializations import asset_key, is_recorded
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.dag.spec_version import spec_version
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.records import FileRecord


class IdleRuns:
    """Finds runs that would do nothing, and shows their stages as skipped.

    Args:
        makers: the stage behind each table.
        remake: tables to make again even where nothing changed.
    """

    def __init__(
        self,
        instance: dg.DagsterInstance,
        settings: Settings,
        makers: Mapping[str, Stage],
        progress: Progress,
        remake: Collection[str],
    ) -> None:
        self._instance = instance
        self._settings = settings
        self._makers = makers
        self._progress = progress
        self._remake = remake

    def finder(self, definitions: dg.Definitions, phase: str, tables: Sequence[str]) -> Callable[[str | None], bool]:
        """A function that says of a partition of these tables whether its run can be left out."""
        found = self._evaluations(definitions, phase, tables)
        if set(tables) & set(self._remake) or not all(map(_lets_pass, found)):
            return lambda _: False
        # what earlier runs made counts: files are judged again for each part of a run
        states = States.of(self._settings, self._makers)
        versions = {key: spec_version(self._makers[key], self._settings, self._makers) for key in tables}
        return lambda partition: self._skips(states, versions, partition)

    def warnings(self, definitions: dg.Definitions, phase: str, tables: Sequence[str]) -> list[dg.AssetCheckEvaluation]:
        """What checks of these tables found to warn of when they were last asked."""
        found = self._evaluations(definitions, phase, tables)
        return [evaluation for evaluation in found if evaluation is not None and not evaluation.passed]

    def _evaluations(
        self, definitions: dg.Definitions, phase: str, tables: Sequence[str]
    ) -> list[dg.AssetCheckEvaluation | None]:
        """The latest result of each check of these tables; None of one that was never finished."""
        keys = definitions.resolve_job_def(phase).asset_layer.asset_graph.asset_check_keys
        chosen = [key for key in keys if key.asset_key in set(map(asset_key, tables))]
        found = self._instance.event_log_storage.get_latest_asset_check_execution_by_key(chosen)
        events = (found[key].event if key in found else None for key in chosen)
        return [event.asset_check_evaluation if event else None for event in events]

    def _skips(self, states: States, versions: Mapping[str, str], partition: str | None) -> bool:
        began = time.monotonic()
        records: dict[str, FileRecord] = {}
        for key, version in versions.items():
            record = states.lake.intact_record(key, partition)
            if record is None or states.state(key, partition).kind != "current":
                return False
            if not states.lake.is_whole(key, partition):  # reads every byte
                return False
            inputs = self._makers[key].inputs
            if not is_recorded(self._instance, key, partition, inputs, (record.content, version)):
                return False
            records[key] = record
        for stage in dict.fromkeys(self._makers[key].name for key in versions):
            rows = sum(record.rows for key, record in records.items() if self._makers[key].name == stage)
            self._progress.finish(stage, partition, rows, time.monotonic() - began, skipped=True)
        return True


def _lets_pass(evaluation: dg.AssetCheckEvaluation | None) -> bool:
    """Whether what follows may be made: a check that was never asked, or failed as an error, is asked again."""
    return evaluation is not None and (evaluation.passed or evaluation.severity == dg.AssetCheckSeverity.WARN)
