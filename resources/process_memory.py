"""A bound on the memory of this process, for work that a library cannot bound."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def at_most(more: int) -> Iterator[None]:
    """Let this process take so many more bytes and no more: beyond, an allocation fails instead of the machine.

    Only Linux counts what a process takes of its own; elsewhere nothing is bounded.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    set_already = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    bound = min(psutil.Process().memory_info().data + more, *set_already, sys.maxsize)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
