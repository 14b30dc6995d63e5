"""What labeling has used of the day's GPU-hours, and how many further shards they allow.

gpu_hours_per_day: 10, spent 6.5, two shards running, 1.2 a shard in the mean     ->   floor((10 - 6.5 - 2.4) / 1.2) = 0

The schedule asks once a tick, before it requests runs. Costs are the seconds of processes, each with one GPU; with
`ray.num_gpus: 4` each has four, and an hour counts as four.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import FileRecord

SECONDS = 3600
LABEL_TABLES = [key for key, table in TABLES.items() if table.group == "labels"]
LAST_LABELS = STEP_REWARDS


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

    def hours_of(records: Sequence[FileRecord]) -> float:
        costs = (Cost.from_dict(record.cost) for record in records if record.cost)
        return hours_per_second * sum(cost.wall_seconds for cost in costs)

    day, finished, spent, begun = midnight(now), list[float](), 0.0, 0.0
    for shard in settings.shard_keys:
        read = [record for key in LABEL_TABLES if (record := lake.intact_record(key, shard))]
        # what was made and is no longer read was paid for too
        every = [record for key in LABEL_TABLES for record in lake.tables.records(key, shard)]
        today = hours_of([record for record in every if datetime.fromisoformat(record.written_at) >= day])
        spent += today
        if LAST_LABELS in [record.table for record in read]:
            finished.append(hours_of(read))
        else:
            begun += today
    per_shard = sum(finished) / len(finished) if finished else None
    return Budget(settings.orchestration.gpu_hours_per_day, spent, per_shard, begun)


def midnight(now: datetime) -> datetime:
    """The beginning of the day of `now`, in UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
