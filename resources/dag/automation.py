"""The jobs, in the order of `cpmi run`, and the sensors that start them when something is missing or stale.

watch_home                  on     marks runs whose process died; has `is_current` evaluated if it would say otherwise
follow_sources              off    ingest, if a source, a setting or a file has changed
missing_or_failed_shards    off    label_shards, a few shards a tick (see `shard_schedule`)
follow_labels               off    build_dataset, if the labels of all shards are current
follow_dataset              off    sample_candidates, train_and_evaluate, build_reports: hours on GPUs

With all of them on, an empty home ends in a report. They ask `States`, as `cpmi run` does: Dagster's own conditions
compare events, and would begin the data set of old labels while other shards are labelled again.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import dagster as dg

from cpmi_dagster.contracts.tables import TABLES, Partitioning
from cpmi_dagster.profiles.asked import asked_assets
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.asset_keys import asset_key
from cpmi_dagster.resources.dag.dagster_home import dagster_folder
from cpmi_dagster.resources.dag.general_checks import IS_CURRENT, unreported
from cpmi_dagster.resources.dag.run_life import end_orphaned_runs
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.lake.lake import partitions_of, words
from cpmi_dagster.resources.lake.records import hash_of

INGEST, LABEL, DATASET, CANDIDATES, TRAIN, REPORT = (
    "ingest", "label_shards", "build_dataset", "sample_candidates", "train_and_evaluate", "build_reports",
)  # fmt: skip
JUDGE_FILES = "check_currency"
PROFILE_TAG = "cpmi/profile"
PARTITION_TAG = "dagster/partition"
WITHOUT_GPU = {"container_config": {"resources": {"limits": {"nvidia.com/gpu": "0"}}}}
"""On Kubernetes, against the limit that the launcher gives to every run."""
REQUEST_TAG = "cpmi/request"
"""The hash of what a sensor found missing or stale; what failed is not requested again for the same reason."""
SECONDS_BETWEEN_TICKS = 30
PURPOSES = {
    INGEST: "Read the sources, match trajectories with gold answers, choose those to label, read the benchmarks.",
    LABEL: "Label shards: hard negatives and log-probabilities (CPMI) first, then rollouts, rewards and costs.",
    DATASET: "Compute soft labels over all shards and assemble the data set; refuses while rewards are stale.",
    CANDIDATES: "Sample the policy's solutions of the question sets, for best-of-N, and judge by files and models of "
    "others.",
    TRAIN: "Train the reward model of a recipe and score the benchmarks with it.",
    REPORT: "Measure every figure, and write the HTML report.",
}
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING,
]  # fmt: skip
Judge = Callable[[], States]


def _tables(*groups: str, partitioning: Literal["any"] | Partitioning | None = "any") -> list[str]:
    return [
        key for key, table in TABLES.items() if table.group in groups and partitioning in ("any", table.partitioning)
    ]


PHASES: dict[str, list[str]] = {
    INGEST: _tables("sources", "alignment", "selection"),
    LABEL: _tables("labels"),
    DATASET: _tables("dataset"),
    CANDIDATES: [*_tables("benchmarks", partitioning="benchmark"), *_tables("benchmarks", partitioning=None)],
    TRAIN: _tables("models", "benchmarks", partitioning="recipe"),
    REPORT: _tables("reports"),
}


def phases(settings: Settings) -> dict[str, list[str]]:
    """The assets of each phase that a profile asks for; a phase of none is left out."""
    asked = asked_assets(settings)
    chosen = {phase: [key for key in tables if key in asked] for phase, tables in PHASES.items()}
    return {phase: tables for phase, tables in chosen.items() if tables}


def label_tables(settings: Settings) -> list[str]:
    """The tables of labels that a profile asks for."""
    return phases(settings)[LABEL]


def jobs(settings: Settings) -> dict[str, Any]:
    """The jobs by name; their runs have the profile's name as a tag."""
    tags = {PROFILE_TAG: settings.profile}
    made = {
        name: dg.define_asset_job(name, _assets(tables), description=PURPOSES[name], tags=tags)
        for name, tables in phases(settings).items()
    }
    checks = [dg.AssetCheckKey(asset_key(key), IS_CURRENT) for key in asked_assets(settings)]
    purpose = "Evaluate `is_current` of every asset: is what is there what the profile would make now?"
    tags |= {"dagster/priority": "1", "dagster-k8s/config": WITHOUT_GPU}
    chosen = dg.AssetSelection.checks(*checks)
    return made | {JUDGE_FILES: dg.define_asset_job(JUDGE_FILES, chosen, description=purpose, tags=tags)}


def _assets(tables: Sequence[str]) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*map(asset_key, tables))


class Due(NamedTuple):
    """A run that would make something: its job, its partition, and the reason."""

    job: str
    partition: str | None
    reason: str


def due_runs(states: States, names: Sequence[str]) -> Iterator[Due | dg.SkipReason]:
    """The runs of some jobs that would make what is missing or stale, or why they wait.

    They end with the first phase of which something is due: all later ones are made of its rows.
    """
    for name, tables in phases(states.settings).items():
        partitions = states.settings.recipe_names if name == TRAIN else [None]
        reasons = {partition: [*reasons_to_make(states, tables, partition)] for partition in partitions}
        due = [Due(name, partition, "; ".join(each)) for partition, each in reasons.items() if each]
        if due and name not in names:
            yield dg.SkipReason(f"waits for `{name}`: {next(each[0] for each in reasons.values() if each)}")
            return
        yield from due
        if due:
            return


def reasons_to_make(states: States, tables: Sequence[str], recipe: str | None = None) -> Iterator[str]:
    """What is missing or stale of some tables; of those by recipe only one, if it is given."""
    for key in tables:
        for partition in [recipe] if recipe else partitions_of(key, states.settings) or [None]:
            state = states.state(key, partition)
            if state.kind != "current":
                yield state.reason or f"{words(key, partition)} is not made yet"


def requests_of(
    instance: dg.DagsterInstance, due: Iterator[Due | dg.SkipReason]
) -> list[dg.RunRequest] | dg.SkipReason:
    """Requests for the runs that are due, but for those that are at work, or failed for the same reason."""
    requests, waiting = [], "everything is made, and current"
    for each in due:
        if isinstance(each, dg.SkipReason):
            waiting = each.skip_message or ""
            continue
        asked = hash_of(each)
        last = instance.get_runs(dg.RunsFilter(tags={REQUEST_TAG: asked}), limit=1)
        at_work = instance.get_runs(dg.RunsFilter(job_name=each.job, statuses=UNFINISHED), limit=100)
        where = f"{each.job}{f' {each.partition}' if each.partition else ''}"
        if any(run.tags.get(PARTITION_TAG) == each.partition for run in at_work):
            waiting = f"`{where}` is at work"
        elif last and last[0].is_failure_or_canceled:
            waiting = f"`{where}` failed in run {last[0].run_id[:8]}; correct its reason, and launch it again"
        else:
            requests.append(dg.RunRequest(job_name=each.job, partition_key=each.partition, tags={REQUEST_TAG: asked}))
    return requests or dg.SkipReason(waiting)


def followers(judge: Judge, made: dict[str, Any]) -> list[dg.SensorDefinition]:
    """The sensors that start jobs, off by default.

    Args:
        judge: the states of all partitions, judged anew.
        made: the jobs by name.
    """
    chosen = {
        "follow_sources": ([INGEST], "Reads, aligns and selects again when a source or a setting has changed."),
        "follow_labels": ([DATASET], "Builds the data set when labels have changed, of all shards. Trains nothing."),
        "follow_dataset": (
            [CANDIDATES, TRAIN, REPORT],
            "Trains every recipe, scores the benchmarks, and builds the report, when the data set has changed: hours "
            "on GPUs.",
        ),
    }
    sensors = []
    for name, (names, description) in chosen.items():
        there = [each for each in names if each in made]
        if there:

            def evaluate(context: dg.SensorEvaluationContext, names: Sequence[str]) -> Any:
                return requests_of(context.instance, due_runs(judge(), names))

            sensors.append(
                dg.SensorDefinition(
                    name=name,
                    evaluation_fn=partial(evaluate, names=there),
                    jobs=[made[each] for each in there],
                    minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
                    description=description,
                )
            )
    return sensors


def watch_home(settings: Settings, judge: Judge, job: Any) -> dg.SensorDefinition:
    """The sensor that keeps Dagster's pages true, on by default.

    Args:
        judge: the states of all partitions, judged anew.
        job: evaluates `is_current`.
    """

    @dg.sensor(
        job=job,
        name="watch_home",
        description="Marks runs as failed whose process has died, and has `is_current` evaluated when a setting, a "
        "source or a file has changed.",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        end_orphaned_runs(context.instance, dagster_folder(settings))
        states = judge()
        changed = unreported(context.instance, asked_assets(states.settings), states)
        if not changed:
            return dg.SkipReason("`is_current` of every asset says what is so")
        asked = hash_of(changed)
        last = context.instance.get_runs(dg.RunsFilter(job_name=JUDGE_FILES), limit=1)
        if last and not last[0].is_finished:
            return dg.SkipReason(f"`{JUDGE_FILES}` is at work")
        if last and last[0].tags.get(REQUEST_TAG) == asked:  # it failed, or its machine sees other files
            return dg.SkipReason(f"run {last[0].run_id[:8]} of `{JUDGE_FILES}` failed, or said otherwise; look at it")
        return dg.RunRequest(tags={REQUEST_TAG: asked})

    return evaluate
