"""`cpmi run`: the jobs of the DAG one after another in this process, so that models are loaded once."""

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby

import dagster as dg

from cpmi_dagster.contracts.keys import STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import ShardsFailed, UsageError
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.automation import (
    DATASET,
    INGEST,
    LABEL,
    PHASES,
    SHARDS_TAG,
    TRAIN,
)
from cpmi_dagster.resources.dag.dagster_home import dagster_folder
from cpmi_dagster.resources.dag.declaration import Declaration
from cpmi_dagster.resources.dag.idle_runs import IdleRuns
from cpmi_dagster.resources.dag.materializations import asset_key
from cpmi_dagster.resources.dag.run_life import hold_run
from cpmi_dagster.resources.dag.step_errors import reason_of
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parts import partitions_of

CHECK_FAILED = "DagsterAssetCheckFailedError"
# by which the pages of a job find its runs; those of this process come from no code server
OF_THIS_LOCATION = {".dagster/repository": "__repository__@cpmi"}
# people see progress in the log's place
WITHOUT_LOG = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class Outcome:
    """How a run of the phases went.

    `failures` has a sentence per failed step; `failed_checks` has a sentence per failed check, by its name; `waiting`
    says why a phase was not started.
    """

    failures: list[str] = field(default_factory=list)
    failed_checks: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        """Add what another part of the run reports; several processes may report the same error."""
        self.failures.extend(failure for failure in other.failures if failure not in self.failures)
        # of a check that every shard's run makes again, the last has seen the most
        self.failed_checks.update(other.failed_checks)
        self.waiting.extend(other.waiting)


def run_phases(
    definitions: dg.Definitions,
    settings: Settings,
    lake: Lake,
    instance: dg.DagsterInstance,
    shards: Sequence[str],
    wanted: Set[str],
    idle: IdleRuns | None = None,
    labelled: Callable[[], None] = lambda: None,
) -> Outcome:
    """Materialize what is missing or stale, phase by phase; a failed phase ends the run.

    Args:
        lake: the files; their shards are the ones labelled.
        shards: which shards to label; everything before labeling is done for all shards.
        idle: finds runs that would do nothing, which are not started.
        labelled: called when the labels are made, before reward models are trained.
    """
    outcome = Outcome()
    for phase, tables in PHASES.items():
        selection = [key for key in tables if key in wanted]
        if not selection:
            continue
        missing = set(settings.shard_keys) - set(shards) - set(lake.partitions(STEP_REWARDS))
        if missing and phase not in (INGEST, LABEL):
            outcome.waiting.append(
                f"`{phase}` and everything after it wait for shards {', '.join(sorted(missing))}: soft labels are "
                "over the whole set; run without --shards to label them"
            )
            break
        outcome.add(run_phase(definitions, settings, instance, phase, shards, selection, idle))
        if outcome.failures:
            break
        if phase == DATASET and settings.recipes and wanted & set(PHASES[TRAIN]):
            labelled()
    return outcome


def run_phase(
    definitions: dg.Definitions,
    settings: Settings,
    instance: dg.DagsterInstance,
    phase: str,
    shards: Sequence[str],
    selection: Sequence[str],
    idle: IdleRuns | None = None,
) -> Outcome:
    """Materialize some tables of one phase in this process, one run after another; see `run_phases`.

    A run makes one partition.
    Shards that fail keep no other from being labelled, unless the others would fail as well.
    """
    outcome = Outcome()
    for tables in _alike(definitions, selection):
        keys = shards if phase == LABEL else partitions_of(tables[0], settings)
        skips = idle.finder(definitions, phase, tables) if idle else None
        partitions = [None] if keys is None else keys
        to_run = [partition for partition in partitions if not (skips and skips(partition))]
        if idle and not to_run:
            outcome.failed_checks.update(_by_name(idle.warnings(definitions, phase, tables)))
        for partition in to_run:
            if not _run_job(definitions, settings, instance, phase, tables, partition, outcome):
                return outcome
    return outcome


def chosen_tables(only: Sequence[str], until: Sequence[str] = (), stages: Sequence[Declaration] = ()) -> set[str]:
    """The tables that `--only` or `--until` names, keys or whole groups, with those that the same stage makes.

    Args:
        only: `group/asset` keys or group names; all tables by default.
        until: likewise, with all that these are made from.

    Raises:
        UsageError: a name is neither, or both options are given.
    """
    if only and until:
        raise UsageError("--only and --until exclude each other; --until takes what its assets are made from as well")
    if not only and not until:
        return set(TABLES)
    groups = {table.group for table in TABLES.values()}
    for name in (*only, *until):
        if name not in TABLES and name not in groups:
            near = get_close_matches(name, [*TABLES, *groups], n=1)
            advice = f"did you mean {near[0]}?" if near else f"groups are {', '.join(sorted(groups))}"
            raise UsageError(f"{'--only' if only else '--until'} {name}: there is no such asset or group; {advice}")
    chosen = {key for key, table in TABLES.items() if {key, table.group} & {*only, *until}}
    for stage in reversed(stages):  # each comes after what it is made from
        if chosen & set(stage.tables):
            chosen |= {*stage.tables, *(stage.inputs if until else ())}
    return chosen


def _alike(definitions: dg.Definitions, selection: Sequence[str]) -> Iterator[list[str]]:
    """Tables in parts that are partitioned alike, each after those it reads; a Dagster run has one partition."""
    graph = definitions.resolve_asset_graph()
    depth: dict[str, int] = {}
    for asset in graph.toposorted_asset_keys:
        table = TABLES["/".join(asset.path)]
        parents = [TABLES["/".join(parent.path)] for parent in graph.get(asset).parent_keys]
        depth[table.key] = max(
            (depth[parent.key] + (parent.partitioning != table.partitioning) for parent in parents), default=0
        )
    ordered = sorted(selection, key=lambda key: (depth[key], TABLES[key].partitioning or ""))
    for _, part in groupby(ordered, key=lambda key: TABLES[key].partitioning):
        yield list(part)


def _run_job(
    definitions: dg.Definitions,
    settings: Settings,
    instance: dg.DagsterInstance,
    phase: str,
    selection: Sequence[str],
    partition: str | None,
    outcome: Outcome,
) -> bool:
    """Run a job for a partition.

    Returns:
        Whether others can be made: nothing failed but this shard.
    """
    job = definitions.resolve_job_def(phase)
    assets, run_id = frozenset(map(asset_key, selection)), str(uuid.uuid4())
    tags = dict(OF_THIS_LOCATION)
    if partition and phase == LABEL:
        tags[SHARDS_TAG] = partition
    with closing(hold_run(dagster_folder(settings), run_id)):
        result = job.get_subset(asset_selection=assets).execute_in_process(
            instance=instance,
            run_id=run_id,
            partition_key=partition,
            tags=tags,
            run_config=WITHOUT_LOG,
            raise_on_error=False,
        )
    failures = result.get_step_failure_events()
    failed = [evaluation for evaluation in result.get_asset_check_evaluations() if not evaluation.passed]
    stopping = [each for each in failed if each.blocking and each.severity == dg.AssetCheckSeverity.ERROR]
    errors = [event.step_failure_data.error for event in failures]
    found = [f"{event.step_key}: {reason_of(event)}" for event in failures]
    if stopping and all(getattr(error, "cls_name", "") == CHECK_FAILED for error in errors):
        # Dagster's own error says only that there was one
        found, failed = [*_by_name(stopping).values()], [each for each in failed if each not in stopping]
    outcome.add(Outcome(found, _by_name(failed)))
    causes = [getattr(error, "cause", None) for error in errors]
    return all(getattr(cause, "cls_name", "") == ShardsFailed.__name__ for cause in causes)


def _by_name(evaluations: Collection[dg.AssetCheckEvaluation]) -> dict[str, str]:
    """By the name of each check that did not pass, the name with what it found."""
    names = [f"{each.asset_key.to_user_string()}: {each.check_name}" for each in evaluations]
    return {
        name: f"{name}: {each.description}" if each.description else name
        for name, each in zip(names, evaluations, strict=True)
    }
