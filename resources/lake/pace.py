"""How fast a partition is being made: shown while it is made, and kept beside its finished chunks.

640 of 1,000 trajectories, 12.5 a second, 5,390 tokens a second, 31 % of the card's peak, about 29 s left
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from cpmi_dagster.contracts.cost import Cost

FILE_NAME = "pace.json"


@dataclass(frozen=True)
class Pace:
    """How far a partition is, and at what rates.

    Attributes:
        total: trajectories of the partition.
        done: of which are finished, those that an earlier run finished included.
        made: finished by this run.
        cost: of what this run made.
        seconds: since this run began to make it: several chunks may be made at once.
        peak_share: share of the card's matrix rate that its tokens took; None where it is not known.
    """

    total: int
    done: int = 0
    made: int = 0
    cost: Cost = field(default_factory=Cost.zero)
    seconds: float = 0
    peak_share: float | None = None

    def after(self, trajectories: int, cost: Cost, seconds: float = 0) -> "Pace":
        """After a chunk that was made now, so many seconds after the first was begun."""
        more = {"done": self.done + trajectories, "made": self.made + trajectories, "cost": self.cost + cost}
        return replace(self, **more, seconds=seconds)

    @property
    def trajectories_per_second(self) -> float:
        """Of what this run made."""
        return self.made / self._time if self._time else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Read and generated ones."""
        return self.cost.forward_tokens / self._time if self._time else 0.0

    @property
    def _time(self) -> float:
        """Wall time of this run; the summed cost of the chunks where they were made one at a time."""
        return min(self.seconds, self.cost.wall_seconds) if self.seconds else self.cost.wall_seconds

    @property
    def seconds_left(self) -> float | None:
        """Seconds left of the partition at the current rate; None before the first chunk."""
        rate = self.trajectories_per_second
        return (self.total - self.done) / rate if rate else None

    def __str__(self) -> str:
        parts = [f"{self.done:,} of {self.total:,} trajectories"]
        if self.made:
            parts += [f"{self.trajectories_per_second:.3g} a second", f"{self.tokens_per_second:,.0f} tokens a second"]
        if self.peak_share is not None:
            parts.append(f"{self.peak_share:.0%} of the card's peak")
        if self.seconds_left:
            parts.append(f"about {self.seconds_left:,.0f} s left")
        return ", ".join(parts)

    def metadata(self) -> dict[str, float]:
        """What Dagster shows of a finished partition."""
        if not self.made:
            return {}
        shown = {
            "trajectories_per_second": round(self.trajectories_per_second, 3),
            "tokens_per_second": round(self.tokens_per_second, 1),
        }
        return shown if self.peak_share is None else {**shown, "share_of_peak": round(self.peak_share, 4)}


def read_pace(folder: Path) -> Pace | None:
    """The pace kept in a folder of chunks, or None."""
    try:
        values = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        return Pace(**{**values, "cost": Cost.from_dict(values["cost"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def unfinished(work: Path) -> Iterator[tuple[str, Pace]]:
    """Partitions of a table that are begun and not finished, the latest begun of each last.

    Args:
        work: the table's folder of unfinished work.
    """
    begun = []
    for file in work.glob(f"*/{FILE_NAME}"):
        # a run that finishes the partition removes the file
        with suppress(FileNotFoundError):
            begun.append((file.stat().st_mtime_ns, file.parent))
    for _, folder in sorted(begun):
        if pace := read_pace(folder):
            yield folder.name.rpartition("-")[0], pace
