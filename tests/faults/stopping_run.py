"""`cpmi run` that stops for good at a moment, to be killed there; other arguments are those of `cpmi run`.

    echo | PYTHONPATH=. python tests/faults/stopping_run.py "it holds the lock" -p miniature --only labels

It says "ready" once everything is imported, and begins when it reads a line. It says when it asks for the lock of a
partition, and its moment, at which it waits. At "never" it runs to its end.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from cpmi_dagster import definitions
from cpmi_dagster.cli import app
from cpmi_dagster.resources.lake.calls import Calls
from cpmi_dagster.resources.lake.lake import Lake

READY, ASKING, WITH_LOCK, NEVER = "ready", "it asks for the lock", "it holds the lock", "never"


def say(what: str) -> None:
    """Tell the test, which reads lines."""
    print(what, flush=True)


def stop_after(owner: Any, name: str, moment: str, is_moment: Callable[..., bool] = lambda *_: True) -> None:
    """Stop when a method has been called with arguments that are those of the moment."""
    call = getattr(owner, name)

    def call_and_stop(*arguments: Any, **options: Any) -> Any:
        result = call(*arguments, **options)
        if is_moment(*arguments):
            say(moment)
            signal.pause()
        return result

    setattr(owner, name, call_and_stop)


def is_begin(_: dg.DagsterInstance, entry: dg.EventLogEntry, *__: Any) -> bool:
    """Whether Dagster records that a run has begun."""
    return entry.dagster_event is not None and entry.dagster_event.event_type == dg.DagsterEventType.RUN_START


def watch_lock(moment: str) -> None:
    """Say when the lock of a partition is asked for, and stop when it is held if that is the moment."""
    lock = Lake.making

    @contextmanager
    def hold(*arguments: Any) -> Iterator[None]:
        say(ASKING)
        with lock(*arguments):
            if moment == WITH_LOCK:
                say(moment)
                signal.pause()
            yield

    setattr(Lake, "making", hold)  # noqa: B010


MOMENTS: dict[str, Callable[[str], None]] = {
    "its run is there": lambda moment: stop_after(dg.DagsterInstance, "create_run_for_job", moment),
    "its run has begun": lambda moment: stop_after(dg.DagsterInstance, "handle_new_event", moment, is_begin),
    WITH_LOCK: lambda _: None,
    "an answer is kept": lambda moment: stop_after(Calls, "_keep", moment),
    "its file is written": lambda moment: stop_after(Lake, "write", moment),
    NEVER: lambda _: None,
}

if __name__ == "__main__":
    assert definitions.STAGES
    MOMENTS[sys.argv[1]](sys.argv[1])
    watch_lock(sys.argv[1])
    say(READY)
    sys.stdin.readline()
    app(["run", *sys.argv[2:]])
