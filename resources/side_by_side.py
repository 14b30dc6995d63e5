"""Several shards labelled at once, so that the last chunks of one shard leave no actor idle.

shards 000 to 011, four at once    a thread each; what they yield comes to the caller's thread, as it comes
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class _Ended:
    """A shard is done, or failed with an error."""

    error: BaseException | None = None


@dataclass(frozen=True)
class _Found(Generic[Item]):
    """What a shard yielded."""

    item: Item


def side_by_side(
    work: Callable[[str], Iterable[Item]], shards: Sequence[str], at_once: int, stop: Callable[[], None]
) -> Generator[Item, None, None]:
    """What the work on each shard yields, of several shards at once.

    Args:
        work: called in threads; its error ends the others, and is raised here.
        at_once: most shards labelled at once.
        stop: called when the caller is interrupted or a shard fails: makes `work` on the others end soon.
    """
    answers: SimpleQueue[_Found[Item] | _Ended] = SimpleQueue()

    def follow(shard: str) -> None:
        try:
            for item in work(shard):
                answers.put(_Found(item))
        except BaseException as error:
            answers.put(_Ended(error))
        else:
            answers.put(_Ended())

    with ThreadPoolExecutor(at_once, "shard") as threads:
        left = len([threads.submit(follow, shard) for shard in shards])
        try:
            while left:
                answer = answers.get()
                if isinstance(answer, _Found):
                    yield answer.item
                    continue
                left -= 1
                if answer.error is not None:
                    raise answer.error
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
