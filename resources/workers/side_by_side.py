"""Several shards labelled at once, so that the last chunks of one shard leave no actor idle.

shards 000 to 011, four at once    a thread each; what they yield comes to the caller's thread, as it comes
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")


def side_by_side(
    work: Callable[[str], Iterable[Item]], shards: Sequence[str], at_once: int, stop: Callable[[], None]
) -> Generator[Item, None, None]:
    """What the work on each shard yields, of several shards at once.

    Args:
        work: called in threads; its error ends the others, and is raised here.
        at_once: most shards labelled at once.
        stop: called when the caller is interrupted or a shard fails: makes `work` on the others end soon.
    """
    found: SimpleQueue[Item | Future[None]] = SimpleQueue()

    def follow(shard: str) -> None:
        for item in work(shard):
            found.put(item)

    with ThreadPoolExecutor(at_once, "shard") as threads:
        for shard in shards:
            threads.submit(follow, shard).add_done_callback(found.put)
        try:
            left = len(shards)
            while left:
                item = found.get()
                if isinstance(item, Future):
                    item.result()  # raises the error of its shard
                    left -= 1
                else:
                    yield item
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
