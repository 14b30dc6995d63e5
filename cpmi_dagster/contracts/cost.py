"""Seconds and tokens of some work, as `labels.labeling_costs` counts them.

Cost(wall_seconds=2.0, forward_tokens=9_000, generated_tokens=600) + Cost(wall_seconds=6.0, forward_tokens=81_000)
-> Cost(wall_seconds=8.0, forward_tokens=90_000, generated_tokens=600)
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from operator import add
from typing import Any


@dataclass(frozen=True)
class Cost:
    """Seconds and tokens of some work; costs add up.

    Attributes:
        wall_seconds: time spent, in seconds.
        forward_tokens: tokens that went through a forward pass, prompts and generated ones alike.
        generated_tokens: tokens sampled.
        processor_seconds: time this process had processors for; far from the wall's where others were busy too.
    """

    wall_seconds: float = 0
    forward_tokens: int = 0
    generated_tokens: int = 0
    processor_seconds: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        """The cost of both."""
        return Cost(*map(add, astuple(self), astuple(other)))

    def times(self, share: float) -> "Cost":
        """A share of it, in whole tokens."""
        return Cost(
            self.wall_seconds * share,
            round(self.forward_tokens * share),
            round(self.generated_tokens * share),
            self.processor_seconds * share,
        )

    @staticmethod
    def zero() -> "Cost":
        """The cost of nothing."""
        return Cost()

    def to_dict(self) -> dict[str, float | int]:
        """Plain values by name, ready for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Cost":
        """The inverse of `to_dict`."""
        return Cost(**values)


class Stopwatch:
    """Measures the wall's and the processors' seconds from its making on."""

    def __init__(self) -> None:
        self._wall, self._processors = time.perf_counter(), time.process_time()

    def cost(self, forward_tokens: int, generated_tokens: int) -> Cost:
        """The cost of work that took from then to now, and these tokens."""
        wall, processors = time.perf_counter() - self._wall, time.process_time() - self._processors
        return Cost(wall, forward_tokens, generated_tokens, processors)
