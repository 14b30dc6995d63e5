"""Forward passes side by side on a CPU, each on cores of its own.

A small model's operations are too short to be split among cores, and cores that wait for each other stand still when
another process takes one of them:

    each operation on both cores      pass 1 ....  pass 2 ....
    a pass on each core               pass 1 ......
                                      pass 2 ......
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], passes: int) -> Iterator[Result]:
    """The result of each item, in order; torch's threads are divided among the passes, and restored at the end.

    Args:
        work: a forward pass.
        items: its arguments.
        passes: how many run at once.
    """
    cores = torch.get_num_threads()
    if passes == 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(passes, "pass", torch.set_num_threads, (max(1, cores // passes),))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)
