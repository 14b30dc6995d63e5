"""Chunks made by Ray actors: processes that each have models of their own, on this machine or on many.

    chunks of shards 003, 004, …     one queue, those of earlier shards first
    an actor                         takes the next chunk when it is done with one: a slow actor takes fewer
    an actor that is lost            its chunk goes back to the queue; another is started when there is room for it
    an actor with other code         is given none

Actors return rows and write nothing: a node that is lost, or that comes back late, has nothing to publish.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from cpmi_dagster.errors import (
    ActorError,
    ActorsLost,
    ActorsUnavailable,
    CpmiError,
    NoActors,
    described,
    first_line,
    may_pass,
)
from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.chunk_actor import ChunkActor, ChunkError, Introduction, code_hash
from cpmi_dagster.resources.chunks import ChunkJob
from cpmi_dagster.resources.language_models import STOPPED
from cpmi_dagster.resources.ray_cluster import connect, resources_of_actor, room

if TYPE_CHECKING:
    from cpmi_dagster.resources.stage_run import StageOutput

LOG = logging.getLogger(__name__)
LOOK_EVERY_SECONDS = 2.0
WARN_EVERY_SECONDS = 60.0
MOST_LOSSES = 3
"""Actors that may be lost on one chunk until its shard fails, or before any made a chunk until the run does."""
MOST_FAILED_LOOKS = 5
"""Looks at the cluster in a row that may fail until the run does."""
MOST_SECONDS_WITHOUT = 600.0
"""How long actors with other code may be all there are, while others wait for room."""


@dataclass(eq=False)
class _Call:
    """One call of `make`: where its answers go; once it has ended, its chunks are passed over."""

    answers: "SimpleQueue[tuple[ChunkJob, StageOutput] | BaseException]" = field(default_factory=SimpleQueue)
    ended: bool = False


@dataclass
class _Waiting:
    """A chunk that waits for an actor."""

    job: ChunkJob
    call: _Call
    losses: int = 0


class _Lost(Exception):
    """An actor ended while it made a chunk."""


class ActorPool:
    """A number of actors, kept up while others are lost, that make the chunks of any number of threads.

    Args:
        actors: how many, where, and what each takes of its node.
        settings: the profile that they make chunks of.

    Raises:
        ActorError: Ray is not installed, or its cluster does not answer.
    """

    def __init__(self, actors: RayActors, settings: Settings) -> None:
        self._wanted, self._settings, self._code = actors, settings, code_hash()
        self._connected_here = connect(actors)
        self._lock = Lock()
        self._calls: set[_Call] = set()
        self._failure: CpmiError | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._ready = 0
        self._left_out: list[str] = []
        self._failed_starts = 0
        self._failed_looks = 0
        self._numbers = count()
        self._queue: asyncio.PriorityQueue[tuple[str, int, _Waiting]] = asyncio.PriorityQueue()
        self._loop = asyncio.new_event_loop()
        self._main = self._loop.create_task(self._keep_up())
        self._thread = Thread(target=self._run, name="ray-actors", daemon=True)
        self._thread.start()

    def make(self, jobs: "Sequence[ChunkJob]") -> "Iterator[tuple[ChunkJob, StageOutput]]":
        """Chunks as they are finished, in any order; called from any thread.

        Raises:
            CpmiError: a chunk cannot be made, no actor can, or the pool was closed.
        """
        call = self._new_call()
        with suppress(RuntimeError):  # the loop has just ended, and the call has its answer
            self._loop.call_soon_threadsafe(self._enqueue, *(_Waiting(job, call) for job in jobs))
        try:
            for _ in jobs:
                answer = call.answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            call.ended = True

    def close(self) -> None:
        """End the actors; whoever waits for a chunk gets `NoActors`. Ray ends too if it was started here."""
        import ray

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join()
        if self._connected_here:
            ray.shutdown()

    def _new_call(self) -> _Call:
        call = _Call()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._calls = {one for one in self._calls if not one.ended} | {call}
        return call

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            self._fail(NoActors(STOPPED))
        except Exception as error:
            LOG.exception("the actors cannot be kept up")
            self._fail(_unavailable("the actors cannot be kept up", error))
        finally:
            self._loop.close()

    async def _keep_up(self) -> None:
        """Start actors whenever there are fewer than there should be."""
        waited, warned = 0.0, 0.0
        try:
            while True:
                self._serving = {task for task in self._serving if not task.done()}
                for _ in range(self._missing()):
                    self._serving.add(self._loop.create_task(self._serve()))
                self._see_that_some_can_be_used(waited)
                await asyncio.sleep(LOOK_EVERY_SECONDS)
                waited, warned = (0.0, 0.0) if self._ready else (waited + LOOK_EVERY_SECONDS, warned)
                if waited - warned >= WARN_EVERY_SECONDS:
                    LOG.warning("%s; each takes %s", self._why_none(), self._needs())
                    warned = waited
        finally:
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    def _missing(self) -> int:
        """How many actors are to be started; none where the cluster fails to answer, but for the last of a few looks.

        Raises:
            Exception: what came up in the last look, of whatever kind.
        """
        try:
            missing = room(self._wanted) - len(self._serving)
        except Exception as error:
            self._failed_looks += 1
            if self._failed_looks == MOST_FAILED_LOOKS:
                raise
            LOG.warning("the room for actors is not known, asking again in a moment: %s", described(error))
            return 0
        self._failed_looks = 0
        return missing

    def _see_that_some_can_be_used(self, waited: float) -> None:
        """Fail where actors with other code take all places, or others have found no room beside them for long.

        Args:
            waited: seconds for which no actor could be given a chunk.
        """
        all_left_out = len(self._left_out) == sum(not task.done() for task in self._serving)
        if self._left_out and not self._ready and (all_left_out or waited >= MOST_SECONDS_WITHOUT):
            self._fail(NoActors(self._left_out[0]))

    def _why_none(self) -> str:
        if self._left_out:
            return f"no actor can be given a chunk: {len(self._left_out)} run other code, others have found no room yet"
        return "no actor has found room yet"

    def _needs(self) -> object:
        try:
            return resources_of_actor(self._wanted)
        except Exception as error:  # the next look meets it too
            return f"what is not known: {described(error)}"

    async def _serve(self) -> None:
        """Start an actor, and give it one chunk after another until it is lost."""
        import ray
        from ray.exceptions import RayError

        actor: Any = None
        try:
            needs = resources_of_actor(self._wanted)
            remote = ray.remote(ChunkActor).options(max_restarts=0, max_task_retries=0, **needs)
            actor = remote.remote(self._settings)
            introduction = await _result(actor.introduce.remote())
            if introduction.code != self._code:
                await self._leave_out(actor, introduction)
                return
            self._failed_starts = 0
            self._ready += 1
            try:
                while True:
                    await self._next_chunk(actor)
            finally:
                self._ready -= 1
        except _Lost:
            pass
        except RayError as error:
            self._count_failed_start(error)
        except Exception as error:
            if may_pass(error):
                self._count_failed_start(error)
                return
            # whoever waits would wait for ever
            LOG.exception("an actor cannot be started or used")
            self._fail(_unavailable("actors cannot be started", error))
        finally:
            if actor is not None and ray.is_initialized():
                ray.kill(actor)

    async def _next_chunk(self, actor: Any) -> None:
        from ray.exceptions import RayError

        _, _, waiting = await self._queue.get()
        call = waiting.call
        if call.ended:
            return
        try:
            call.answers.put((waiting.job, await _result(actor.make.remote(waiting.job))))
        except RayError as error:
            # of a task that raised, the error; what came up in a library may be the node's fault
            cause = getattr(error, "cause", None) or error
            if isinstance(cause, CpmiError):
                call.answers.put(cause)
                return
            self._put_back(waiting, cause)
            raise _Lost from error
        except Exception as error:
            call.answers.put(_unmakable(waiting, error))

    def _enqueue(self, *chunks: _Waiting) -> None:
        for waiting in chunks:
            self._queue.put_nowait((waiting.job.partition, next(self._numbers), waiting))

    def _put_back(self, waiting: _Waiting, error: Exception) -> None:
        """Let another actor make the chunk of one that was lost, unless it seems to be what ends them."""
        waiting.losses += 1
        if waiting.losses == MOST_LOSSES:
            waiting.call.answers.put(_unmakable(waiting, error))
        else:
            LOG.warning("%s goes to another actor: %s", waiting.job, _described(error))
            self._enqueue(waiting)

    async def _leave_out(self, actor: Any, introduction: Introduction) -> None:
        """Give an actor with other code no chunk, but keep it: else one like it would be started in its place."""
        from ray.exceptions import RayError

        problem = (
            f"the actor on {introduction.place} runs another version of this package than this process, and might make "
            "other rows; install the same on every node"
        )
        LOG.warning("%s; it is left out", problem)
        self._left_out.append(problem)
        try:
            with suppress(RayError):
                while True:
                    await asyncio.sleep(WARN_EVERY_SECONDS)
                    await _result(actor.introduce.remote())
        finally:
            self._left_out.remove(problem)

    def _count_failed_start(self, error: Exception) -> None:
        self._failed_starts += 1
        if self._failed_starts <= MOST_LOSSES:
            LOG.warning("an actor ended before it made a chunk: %s", first_line(error))
        if self._failed_starts >= MOST_LOSSES and not self._ready:
            made = ActorsUnavailable(f"actors end before they make a chunk: {first_line(error)}")
            made.__cause__ = error
            self._fail(made)

    def _fail(self, error: CpmiError) -> None:
        """Answer everybody who waits, and whoever comes later, with an error."""
        with self._lock:
            self._failure = error
            calls = list(self._calls)
        for call in calls:
            call.answers.put(error)


async def _result(reference: Any) -> Any:
    return await asyncio.wrap_future(reference.future())


def _unavailable(what: str, error: Exception) -> NoActors:
    from ray.exceptions import RayError

    kind = ActorsUnavailable if isinstance(error, RayError) or may_pass(error) else NoActors
    made = kind(f"{what}: {first_line(error)}")
    made.__cause__ = error
    return made


def _unmakable(waiting: _Waiting, error: Exception) -> ActorError:
    from ray.exceptions import RayError

    tries = f"by {waiting.losses} actors, at last" if waiting.losses else "by an actor"
    passes = isinstance(error, RayError) or (isinstance(error, ChunkError) and error.passes)
    kind = ActorsLost if passes else ActorError
    made = kind(f"{waiting.job} cannot be made {tries}: {_described(error)}")
    made.__cause__ = error
    return made


def _described(error: Exception) -> str:
    return str(error) if isinstance(error, ChunkError) else described(error)
