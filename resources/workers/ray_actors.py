"""Chunks made by Ray actors: processes that each have models of their own, on this machine or on many.

    chunks of shards 003, 004, …     one queue, those of earlier shards first
    an actor                         makes one chunk at a time: a slow actor makes fewer
    an actor that is lost            its chunk goes back to the queue; another is started when there is room

Actors return rows and write nothing: a node that is lost, or that comes back late, has nothing to publish.
"""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from queue import Empty, PriorityQueue
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, NamedTuple

from cpmi_dagster.errors import (
    ActorError,
    ActorsLost,
    ActorsUnavailable,
    CpmiError,
    NoActors,
    PassingError,
    described,
    first_line,
    may_pass,
    with_notes,
)
from cpmi_dagster.profiles.actors import RayActors
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.workers.chunks import ChunkJob, StageOutput
from cpmi_dagster.resources.workers.language_models import LanguageModels, Role
from cpmi_dagster.resources.workers.ray_cluster import connect, resources_of_actor, room

LOG = logging.getLogger(__name__)
STOPPED = "interrupted; run again to continue where it stopped"
LABELING_ROLES: tuple[Role, ...] = ("labeler", "rollouts", "prover")
POLL_SECONDS = 0.05
LOOK_EVERY_SECONDS = 2.0
"""How often the number of actors is compared with the room of the cluster."""
WARN_EVERY_SECONDS = 60.0
MOST_FAILURES = 3
"""Actors that may fail on one chunk until its shard fails, or before any is ready until the run does."""


class ChunkFailure(NamedTuple):
    """Why an actor did not make a chunk, in words, and whether time may mend it."""

    words: str
    passes: bool


class ChunkActor:
    """What runs in an actor: it makes the chunks it is sent, with models that it loads once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models = LanguageModels(settings)

    def ready(self) -> None:
        """Called first: returns once there was room for the actor."""

    def make(self, job: ChunkJob) -> "StageOutput | CpmiError | ChunkFailure":
        """The rows of a chunk, or why there are none: an error that a user can correct, or other errors in words.

        Errors are returned, not raised: one of a library may not survive pickling, and Ray's client then never
        answers. Causes are not sent: an error that may pass by its cause becomes one that may pass by its type.
        """
        try:
            job.check_models(self._models)
            return job.made(self._settings, self._models, lambda _: None)
        except CpmiError as error:
            error.add_note(f"on {socket.gethostname()} (process {os.getpid()})")
            passes_by_cause = may_pass(error) and not isinstance(error, PassingError)
            return PassingError(with_notes(error)) if passes_by_cause else error
        except Exception as error:
            LOG.exception("%s cannot be made", job)
            return ChunkFailure(described(error), may_pass(error))


@dataclass
class _Chunk:
    """A chunk to be made, its rows when they are, and how many actors have failed on it."""

    job: ChunkJob
    output: "Future[StageOutput]"
    failures: int = 0


class ActorPool:
    """A number of actors, kept up while others are lost, that make the chunks of any number of threads.

    One thread of its own starts actors, hands out chunks and waits for answers.

    Args:
        actors: how many, where, and what each takes of its node.
        settings: the profile that they make chunks of.

    Raises:
        ActorError: Ray is not installed, or its cluster does not answer.
    """

    def __init__(self, actors: RayActors, settings: Settings) -> None:
        self._wanted, self._settings = actors, settings
        self._connected_here = connect(actors)
        self._queue: PriorityQueue[tuple[str, int, _Chunk]] = PriorityQueue()
        self._numbers = count()
        self._idle: list[Any] = []
        # by reference to its answer: an actor that starts, or makes a chunk
        self._asked: dict[Any, tuple[Any, _Chunk | None]] = {}
        self._failed_starts = 0
        self._failure: CpmiError | None = None
        self._closing = Event()
        self._thread = Thread(target=self._run, name="ray-actors", daemon=True)
        self._thread.start()

    def make(self, jobs: Sequence[ChunkJob]) -> "Iterator[tuple[ChunkJob, StageOutput]]":
        """Chunks as they are finished, in any order; called from any thread.

        Raises:
            CpmiError: a chunk cannot be made, no actor can, or the pool was closed.
        """
        chunks = {chunk.output: chunk for chunk in (_Chunk(job, Future()) for job in jobs)}
        for chunk in chunks.values():
            self._enqueue(chunk)
        try:
            if self._failure is not None:
                raise self._failure
            for output in as_completed(chunks):
                yield chunks.pop(output).job, output.result()
        finally:
            for output in chunks:
                output.cancel()

    def close(self) -> None:
        """End the actors; whoever waits for a chunk gets `NoActors`. Ray ends too if it was started here."""
        import ray

        self._closing.set()
        self._thread.join()
        if self._connected_here:
            ray.shutdown()

    def _enqueue(self, chunk: _Chunk) -> None:
        self._queue.put((chunk.job.partition, next(self._numbers), chunk))

    def _next_chunk(self) -> _Chunk | None:
        """The next chunk that somebody waits for."""
        with suppress(Empty):
            while True:
                _, _, chunk = self._queue.get_nowait()
                if chunk.failures or chunk.output.set_running_or_notify_cancel():
                    return chunk
        return None

    def _run(self) -> None:
        try:
            self._keep_up()
            self._failure = NoActors(STOPPED)
        except CpmiError as error:
            self._failure = error
        except Exception as error:
            LOG.exception("the actors cannot be kept up")
            kind = ActorsUnavailable if _passes(error) else NoActors
            self._failure = kind(f"actors cannot be started or reached: {first_line(error)}")
        for actor in [*self._idle, *(actor for actor, _ in self._asked.values())]:
            _kill(actor)
        unmade = [chunk for _, chunk in self._asked.values() if chunk is not None]
        for chunk in [*unmade, *iter(self._next_chunk, None)]:
            chunk.output.set_exception(self._failure)

    def _keep_up(self) -> None:
        """Start actors and give them chunks, until the pool is closed."""
        looked_at, warned_at = -LOOK_EVERY_SECONDS, monotonic()
        while not self._closing.is_set():
            now = monotonic()
            if now >= looked_at + LOOK_EVERY_SECONDS:
                self._start_missing()
                looked_at = now
            if self._some_are_ready:
                warned_at = now
            elif now >= warned_at + WARN_EVERY_SECONDS:
                LOG.warning("no actor has found room yet; each takes %s", resources_of_actor(self._wanted))
                warned_at = now
            while self._idle and (chunk := self._next_chunk()):
                actor = self._idle.pop()
                self._asked[actor.make.remote(chunk.job)] = actor, chunk
            self._take_answer()

    @property
    def _some_are_ready(self) -> bool:
        return bool(self._idle) or any(chunk is not None for _, chunk in self._asked.values())

    def _start_missing(self) -> None:
        import ray

        kind: Any = ray.remote(ChunkActor)
        placed = kind.options(**resources_of_actor(self._wanted))
        for _ in range(room(self._wanted) - len(self._idle) - len(self._asked)):
            actor = placed.remote(self._settings)
            self._asked[actor.ready.remote()] = actor, None

    def _take_answer(self) -> None:
        """Wait a moment for the next answer, and pass it on to who waits for the chunk."""
        import ray

        if not self._asked:
            self._closing.wait(POLL_SECONDS)
            return
        answered, _ = ray.wait(list(self._asked), num_returns=1, timeout=POLL_SECONDS)
        for reference in answered:
            actor, chunk = self._asked.pop(reference)
            try:
                answer = ray.get(reference)
            except Exception as error:  # the actor was lost, or its answer cannot be read
                answer = ChunkFailure(described(error), _passes(error))
            if isinstance(answer, ChunkFailure):
                _kill(actor)
                self._give_to_another(chunk, answer)
                continue
            self._idle.append(actor)
            if chunk is None:
                self._failed_starts = 0
            elif isinstance(answer, CpmiError):
                chunk.output.set_exception(answer)
            else:
                chunk.output.set_result(answer)

    def _give_to_another(self, chunk: _Chunk | None, failure: ChunkFailure) -> None:
        """Let another actor make the chunk of one that failed or was lost, but not for ever.

        Raises:
            ActorsUnavailable: several ended before they made a chunk, and none is ready.
        """
        if chunk is None:
            self._failed_starts += 1
            LOG.warning("an actor ended before it made a chunk: %s", failure.words)
            if self._failed_starts >= MOST_FAILURES and not self._some_are_ready:
                raise ActorsUnavailable(f"actors end before they make a chunk: {failure.words}")
            return
        chunk.failures += 1
        if chunk.failures < MOST_FAILURES:
            LOG.warning("%s goes to another actor: %s", chunk.job, failure.words)
            self._enqueue(chunk)
        else:
            kind = ActorsLost if failure.passes else ActorError
            problem = f"{chunk.job} cannot be made by {chunk.failures} actors, at last: {failure.words}"
            chunk.output.set_exception(kind(problem))


class Actors:
    """The actors of a profile for one run: started when chunks are to be made, ended with the run.

    Args:
        settings: the profile.
        models: of the run; actors take the revisions that its home uses, so that none has to look one up.
    """

    def __init__(self, settings: Settings, models: LanguageModels) -> None:
        self._settings, self._models = settings, models
        self._pool: ActorPool | None = None
        self._lock = Lock()
        self._stopped = False

    def pool(self) -> ActorPool | None:
        """The actors; None where the profile names none. Called first from the main thread, where SIGTERM stays ours.

        Raises:
            ActorError: Ray is not installed, its cluster is not reached, or the actors were stopped.
        """
        ray = self._settings.orchestration.ray
        with self._lock:
            if self._stopped:
                raise NoActors(STOPPED)
            if ray is not None and self._pool is None:
                own = self._settings.models
                named = {role: self._models.spec(role) for role in LABELING_ROLES if getattr(own, role) is not None}
                models = own.model_copy(update=named)
                orchestration = self._settings.orchestration.model_copy(update={"ray": None})
                changed = {"models": models, "orchestration": orchestration}
                self._pool = ActorPool(ray, self._settings.model_copy(update=changed))
            return self._pool

    def stop(self) -> None:
        """End the actors, and what they hold of GPUs: whoever waits for a chunk, or asks for one, gets `NoActors`."""
        with self._lock:
            self._stopped = True
            pool, self._pool = self._pool, None
            if pool is not None:
                pool.close()


def _kill(actor: Any) -> None:
    import ray

    with suppress(Exception):  # those of a cluster that is gone end with it
        ray.kill(actor)


def _passes(error: Exception) -> bool:
    from ray.exceptions import RayError

    return isinstance(error, RayError) or may_pass(error)
