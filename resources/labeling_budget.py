"""What labeling has taken of the day's GPU-hours, and how many further shards they allow.

gpu_hours_per_day: 10, spent 6.5, two shards running, 1.2 a shard in the mean     ->   floor((10 - 6.5 - 2.4) / 1.2) = 0

Costs are the seconds of processes, each with one GPU; with `ray.num_gpus: 4` each has four, and an hour counts as four.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.keys import STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.lake import FileRecord, Lake

SECONDS = 3600
LABEL_TABLES = [key for key, table in TABLES.items() if table.group == "labels"]
LAST_LABELS = STEP_REWARDS
EARLIER_SECONDS = "earlier_wall_seconds"
"""Beside the cost of a file: which of its wall's seconds are of rows kept from before the day on which it grew."""


@dataclass(frozen=True)
class Budget:
    """The GPU-hours of a day.

    Attributes:
        hours: that may be spent; None is no limit.
        spent: by the shards whose labels were written this day.
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
    day = midnight(now)
    records = {shard: _records(lake, shard) for shard in settings.shard_keys}
    finished = {shard: found for shard, found in records.items() if lake.intact_record(LAST_LABELS, shard)}
    gpus = _gpus_of_a_process(settings)
    per_shard = gpus * sum(map(_hours, finished.values())) / len(finished) if finished else None
    earlier = {shard: sum(seconds_before(one, day) for one in found) / SECONDS for shard, found in records.items()}
    spent = {shard: gpus * (_hours(found) - earlier[shard]) for shard, found in records.items()}
    begun = sum(hours for shard, hours in spent.items() if shard not in finished)
    return Budget(settings.orchestration.gpu_hours_per_day, sum(spent.values()), per_shard, begun)


def midnight(now: datetime) -> datetime:
    """The beginning of the day of `now`, in UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def seconds_before(record: FileRecord, day: datetime) -> float:
    """How many of the wall's seconds of a file were spent before a day; one that grew that day has noted them.

    Args:
        day: its midnight.
    """
    if datetime.fromisoformat(record.written_at) < day:
        return Cost.from_dict(record.cost).wall_seconds if record.cost else 0.0
    return float(record.cost.get(EARLIER_SECONDS, 0))


def _gpus_of_a_process(settings: Settings) -> float:
    """GPUs, or the share of one, of whatever makes chunks; without GPUs the hours are those of processes."""
    ray = settings.orchestration.ray
    return (ray.num_gpus if ray else 0) or 1


def _records(lake: Lake, shard: str) -> list[FileRecord]:
    found = (lake.intact_record(key, shard) for key in LABEL_TABLES)
    return [record for record in found if record is not None and record.cost]


def _hours(records: list[FileRecord]) -> float:
    return sum(Cost.from_dict(record.cost).wall_seconds for record in records) / SECONDS
