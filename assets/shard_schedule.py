"""The schedule that requests shards which are missing, stale or failed, within the budget of the day.

tick at 10:20, 3 GPUs      000-003 missing, 007 stale, 009 failed once, 012 failed three times
run requests               000-001, 002-003, 007 in runs of two shards, 009 in a run of its own
warning                    012 is given up after 3 failed runs
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from cpmi_dagster.assets.automation import INGEST, LABEL, SHARDS_TAG, Job
from cpmi_dagster.contracts.keys import SELECTED
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dagster_home import dagster_folder
from cpmi_dagster.resources.dagster_server import check_schedule
from cpmi_dagster.resources.failed_runs import KILLS_A_FAILURE, failures_of, range_tags
from cpmi_dagster.resources.history_owner import claim_history
from cpmi_dagster.resources.labeling_budget import LABEL_TABLES, budget_of
from cpmi_dagster.resources.lake import Lake
from cpmi_dagster.resources.staleness import Maker, Staleness, staleness_of
from cpmi_dagster.resources.status import partition_states

NOTHING_TO_DO = "every shard is labelled, or being labelled"


@dataclass(frozen=True)
class ShardDemand:
    """What is to be labelled now.

    Attributes:
        fresh: shards that are missing or stale.
        failed: shards whose last run failed, to be tried again.
        given_up: shards that failed too often.
        held_back: shards that wait for the next day's budget.
        why: they are held back.
    """

    fresh: Sequence[str] = ()
    failed: Sequence[str] = ()
    given_up: Sequence[str] = ()
    held_back: Sequence[str] = ()
    why: str = ""

    def runs(self, length: int) -> list[list[str]]:
        """The runs to request: stretches of neighbours, and each failed shard alone, so that it stops no other."""
        return [*stretches(self.fresh, length), *([shard] for shard in self.failed)]

    def notes(self, attempts: int) -> list[str]:
        """What somebody should know: shards given up, and shards that wait."""
        notes = []
        if self.given_up:
            notes.append(
                f"given up after {attempts} failed runs, or {attempts * KILLS_A_FAILURE} killed ones: "
                f"{', '.join(self.given_up)}; see the error of their last run, correct it, then launch them by hand"
            )
        if self.held_back:
            notes.append(f"{len(self.held_back)} shards are postponed until tomorrow: {self.why}")
        return notes


def shard_schedule(settings: Settings, makers: Mapping[str, Maker], job: Job) -> dg.ScheduleDefinition:
    """Requests shards whose labels are missing, stale or failed: a few per tick, within the day's GPU-hours.

    Args:
        makers: the stage behind each table.
        job: the one that labels shards.

    Raises:
        SettingsError: the profile's schedule is not a cron expression.
    """
    orchestration = settings.orchestration

    def missing_or_failed_shards(
        context: dg.ScheduleEvaluationContext, lake: dg.ResourceParam[Lake]
    ) -> list[dg.RunRequest] | dg.SkipReason:
        claim_history(context.instance, settings, dagster_folder(settings))
        if not lake.exists(SELECTED):
            return dg.SkipReason(f"{SELECTED} has not been made yet; run the job `{INGEST}` first")
        # what is stale before labeling is not made current by labeling again
        staleness = staleness_of(settings, {key: makers[key] for key in LABEL_TABLES})
        tick = context.scheduled_execution_time
        demand = shard_demand(context.instance, lake, settings, staleness, tick)
        notes = demand.notes(orchestration.attempts)
        for note in notes:
            context.log.warning(note)
        runs = demand.runs(orchestration.run_length(len(demand.fresh)))
        return [_request(shards, tick) for shards in runs] or dg.SkipReason("; ".join(notes) or NOTHING_TO_DO)

    check_schedule(settings)
    decorate = dg.schedule(
        job=job,
        cron_schedule=orchestration.schedule,
        description=(shard_schedule.__doc__ or "").partition("\n")[0],
    )
    return decorate(missing_or_failed_shards)


def shard_demand(
    instance: dg.DagsterInstance, lake: Lake, settings: Settings, staleness: Staleness, now: datetime
) -> ShardDemand:
    """The shards to label now: no more than a tick and the day's budget allow, failed ones last.

    Args:
        now: the time of the tick; its day's budget counts.
    """
    by_table = [partition_states(instance, lake, settings, table, staleness) for table in LABEL_TABLES]
    states = {shard: {table[shard] for table in by_table} for shard in settings.shard_keys}
    idle = {shard: found for shard, found in states.items() if "running" not in found}
    wanted = [shard for shard, found in idle.items() if found & {"missing", "stale", "failed"}]
    failures = failures_of(instance, settings, wanted, LABEL)
    fresh = [shard for shard in wanted if not failures[shard] and "failed" not in idle[shard]]
    given_up = [shard for shard in wanted if failures[shard] >= settings.orchestration.attempts]
    failed = [shard for shard in wanted if shard not in fresh and shard not in given_up]
    chosen = [*fresh, *failed][: settings.orchestration.shards_per_tick]
    budget = budget_of(lake, settings, now)
    allowed = budget.shards(len(states) - len(idle))
    held_back = [] if allowed is None else chosen[allowed:]
    taken = chosen if allowed is None else chosen[:allowed]
    return ShardDemand(
        fresh=[shard for shard in taken if shard in fresh],
        failed=[shard for shard in taken if shard in failed],
        given_up=given_up,
        held_back=held_back,
        why=str(budget) if held_back else "",
    )


def stretches(shards: Sequence[str], length: int) -> Iterator[list[str]]:
    """Shards in stretches of neighbours, which one Dagster run can take, none longer than `length`."""
    stretch: list[str] = []
    for shard in shards:
        if stretch and (len(stretch) == length or int(shard) != int(stretch[-1]) + 1):
            yield stretch
            stretch = []
        stretch.append(shard)
    if stretch:
        yield stretch


def _request(shards: Sequence[str], tick: datetime) -> dg.RunRequest:
    # the tick is in the run key, so that a shard that fails again is requested again
    key, named = f"{tick.isoformat()} {shards[0]}", {SHARDS_TAG: "-".join(dict.fromkeys([shards[0], shards[-1]]))}
    if len(shards) == 1:
        return dg.RunRequest(run_key=key, partition_key=shards[0], tags=named)
    return dg.RunRequest(run_key=key, tags={**named, **range_tags(shards)})
