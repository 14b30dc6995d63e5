"""What labeling has taken of the day's GPU-hours, and how many further shards they allow.

gpu_hours_per_day: 10, spent 6.5, two shards running, 1.2 a shard in the mean     ->   floor((10 - 6.5 - 2.4) / 1.2) = 0
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings
from resources.lake import FileRecord, Lake

SECONDS = 3600
LABEL_TABLES = [key for key, table in TABLES.items() if table.group == "labels"]
LAST_LABELS = "labels/step_rewards"


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
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    records = {shard: _records(lake, shard) for shard in settings.shard_keys}
    today = {shard: [one for one in found if _written(one) >= midnight] for shard, found in records.items()}
    finished = {shard: found for shard, found in records.items() if lake.intact_record(LAST_LABELS, shard)}
    per_shard = sum(map(_hours, finished.values())) / len(finished) if finished else None
    begun = sum(_hours(found) for shard, found in today.items() if shard not in finished)
    return Budget(settings.orchestration.gpu_hours_per_day, sum(map(_hours, today.values())), per_shard, begun)


def _records(lake: Lake, shard: str) -> list[FileRecord]:
    found = (lake.intact_record(key, shard) for key in LABEL_TABLES)
    return [record for record in found if record is not None and record.cost]


def _written(record: FileRecord) -> datetime:
    return datetime.fromisoformat(record.written_at)


def _hours(records: list[FileRecord]) -> float:
    return sum(Cost.from_dict(record.cost).wall_seconds for record in records) / SECONDS
