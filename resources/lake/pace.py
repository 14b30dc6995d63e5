"""How fast a partition is being made: shown while it is made, and kept beside its finished chunks.

640 of 1,000 trajectories, 12.5 a second, 5,390 tokens a second, 31 % of the card's peak, about 29 s left
"""

import json
from dataclasses import dataclass, field, replace

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


def pace_of(data: bytes) -> Pace | None:
    """The pace that a file holds, or None where it is damaged."""
    try:
        values = json.loads(data)
        return Pace(**{**values, "cost": Cost.from_dict(values["cost"])})
    except (ValueError, KeyError, TypeError):
        return None
