"""The cost of labeling in seconds and tokens, as `labels.labeling_costs` counts it.

Cost(wall_seconds=2.0, forward_tokens=9_000, generated_tokens=600) + Cost(wall_seconds=6.0, forward_tokens=81_000)
-> Cost(wall_seconds=8.0, forward_tokens=90_000, generated_tokens=600)
"""

import time
from dataclasses import astuple, dataclass
from operator import add


@dataclass(frozen=True)
class Cost:
    """Seconds and tokens.

    Attributes:
        forward_tokens: tokens read in forward passes, of prompts and of generated text.
        generated_tokens: tokens sampled.
        processor_seconds: processor time of this process; below `wall_seconds` if other processes were busy.
    """

    wall_seconds: float = 0
    forward_tokens: int = 0
    generated_tokens: int = 0
    processor_seconds: float = 0

    def __add__(self, other: "Cost") -> "Cost":
        """Sum of two costs."""
        return Cost(*map(add, astuple(self), astuple(other)))

    def times(self, share: float) -> "Cost":
        """A share of the cost, in whole tokens."""
        return Cost(
            self.wall_seconds * share,
            round(self.forward_tokens * share),
            round(self.generated_tokens * share),
            self.processor_seconds * share,
        )


class Stopwatch:
    """Measures wall and processor seconds since it was created."""

    def __init__(self) -> None:
        self._wall, self._processors = time.perf_counter(), time.process_time()

    def cost(self, forward_tokens: int, generated_tokens: int) -> Cost:
        """The seconds so far, with these tokens."""
        wall, processors = time.perf_counter() - self._wall, time.process_time() - self._processors
        return Cost(wall, forward_tokens, generated_tokens, processors)
