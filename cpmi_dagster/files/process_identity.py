"""Which process wrote a line that outlives it, and whether it still runs.

this_process()                      ->  "node7 4711 3965.66"     host, pid, seconds from boot to its start
has_died("node7 4711 3965.66")      ->  True where pid 4711 is gone or has been given to another process
"""

import os
import socket

import psutil


def this_process() -> str:
    """Names this process by host, pid and start, since pids are used again."""
    return f"{socket.gethostname()} {os.getpid()} {_start(os.getpid())}"


def has_died(process: str) -> bool:
    """Whether a process named by `this_process` ran on this host and is gone; False for other hosts and other text."""
    host, _, rest = process.partition(" ")
    pid, _, start = rest.partition(" ")
    return host == socket.gethostname() and pid.isdigit() and _start(int(pid)) != start


def _start(pid: int) -> str | None:
    """Seconds from boot, since the time of day moves when the clock is set; None where there is no such process."""
    try:
        return f"{psutil.Process(pid).create_time() - psutil.boot_time():.2f}"
    except psutil.NoSuchProcess:
        return None
