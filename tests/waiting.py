"""Waiting for another process, with an end."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float, why_not: str, every: float = 0.1) -> None:
    """Return as soon as a condition holds.

    Raises:
        AssertionError: it does not within these seconds; `why_not` says what that means.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, why_not
        time.sleep(every)
