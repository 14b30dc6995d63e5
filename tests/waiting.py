"""Another process: a port for it, and waiting for it, with an end."""

import secrets
import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress

# below those that Linux gives out
PORTS = range(10_000, 32_768)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, and that the system gives to nobody who asks for any."""
    while True:
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", secrets.choice(PORTS)))
            return probe.getsockname()[1]


def wait_until(condition: Callable[[], object], seconds: float, why_not: str, every: float = 0.1) -> None:
    """Return as soon as a condition holds.

    Raises:
        AssertionError: it does not within these seconds; `why_not` says what that means.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, why_not
        time.sleep(every)
