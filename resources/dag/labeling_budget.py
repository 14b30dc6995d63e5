"""What labeling has used of the day's GPU-hours, and how many further shards they allow.

gpu_hours_per_day: 10, spent 6.5, two shards running, 1.2 a shard in the mean     ->   floor((10 - 6.5 - 2.4) / 1.2) = 0

The schedule asks once a tick, before it requests runs. Costs are the seconds of processes, each with one GPU; with
`ray.num_gpus: 4` each has four, and an hour counts as four.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.lake import FileRecord, Lake

SECONDS = 3600
LABEL_TABLES = [key for key, table in TABLES.items() if table.group == "labels"]
LAST_LABELS = STEP_REWARDS
EARLIER_SECONDS = "earlier_wall_seconds"
"""Beside the cost of a file: the seconds of it that were spent before the day on which the file grew."""


@dataclass(frozen=True)
class Budget:
    """The GPU-hours of a day.

    Attributes:
        hours: that may be spent; None is no limit.
        spent: by the label files written this day.
        per_shard: mean of the finished shards; None where none is finished.
        begun: part of what is spent, by shards that are not finished.
    """

    hours: float | None
    spent: float
    per_shard: float | None
    begun: float = 0

    def shards(self, running: int) -> int | None:
        """How many more may be started beside those that are running; None is any number.

        Where nothing has been measured, one at a time.
        """
        if self.hours is None:
            return None
        if not self.per_shard:
            return 0 if running or self.spent >= self.hours else 1
        reserved = max(0, running * self.per_shard - self.begun)
        return max(0, int((self.hours - self.spent - reserved) / self.per_shard))

    def __str__(self) -> str:
        a_shard = f", a shard takes about {self.per_shard:.2g}" if self.per_shard else ""
        return f"{self.spent:.2g} of the day's {self.hours:g} GPU-hours are spent{a_shard}"


def budget_of(lake: Lake, settings: Settings, now: datetime) -> Budget:
    """The budget of the day of `now`, in UTC, by the costs that `labels.labeling_costs` is made from."""
    ray = settings.orchestration.ray
    # GPUs, or the share of one, of a process; without GPUs the hours are those of processes
    hours_per_second = ((ray.num_gpus if ray else 0) or 1) / SECONDS
    day, finished, spent, begun = midnight(now), [], 0.0, 0.0
    for shard in settings.shard_keys:
        found = (lake.intact_record(key, shard) for key in LABEL_TABLES)
        records = [record for record in found if record is not None and record.cost]
        hours = hours_per_second * sum(Cost.from_dict(record.cost).wall_seconds for record in records)
        today = hours - hours_per_second * sum(seconds_before(record, day) for record in records)
        spent += today
        if lake.intact_record(LAST_LABELS, shard):
            finished.append(hours)
        else:
            begun += today
    per_shard = sum(finished) / len(finished) if finished else None
    return Budget(settings.orchestration.gpu_hours_per_day, spent, per_shard, begun)


def midnight(now: datetime) -> datetime:
    """The beginning of the day of `now`, in UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def seconds_before(record: FileRecord, day: datetime) -> float:
    """The seconds of a file's cost that were spent before a day.

    Args:
        day: its midnight.
    """
    if datetime.fromisoformat(record.written_at) < day:
        return Cost.from_dict(record.cost).wall_seconds if record.cost else 0.0
    return float(record.cost.get(EARLIER_SECONDS, 0))


def recorded_cost(cost: Cost, grown_from: FileRecord | None) -> dict[str, float]:
    """The cost of a file as its footer holds it; of a file that grew, with the seconds spent before today.

    Args:
        grown_from: what made the file before it grew.
    """
    before = seconds_before(grown_from, midnight(datetime.now(UTC))) if grown_from else 0.0
    # a file that was made from the start after all has a cost of its own
    seconds = min(before, cost.wall_seconds)
    return {**cost.to_dict(), EARLIER_SECONDS: seconds} if seconds else cost.to_dict()
