"""A query in a process of its own, which can be ended whatever DuckDB is in the middle of.

    → {"sql": "…", "database": "…/cpmi.duckdb", …}       one line; the process ends when this stream does
    ← an empty line                                      from here on the query's time counts
    ← {"has_more": false}                                then the rows, as an Arrow stream
    ← {"error": "SourceError", "message": "…"}           in place of both

The process is started afresh rather than forked: polars is loaded here.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import polars as pl
import psutil

from cpmi_dagster import errors
from cpmi_dagster.errors import CpmiError, first_line
from cpmi_dagster.resources.lake import queries
from cpmi_dagster.resources.lake.queries import STOPPED, TOO_LARGE, Answer, answer, locked_connection

WAIT_SECONDS = 0.1


def answer_apart(
    database: Path,
    home: Path,
    home_variable: str,
    sql: str,
    most_rows: int | None,
    seconds: float,
    files: Sequence[Path],
) -> Answer:
    """What `answer` gives on a `locked_connection`, from a process that is killed when the time is over.

    Args:
        home: the folder that holds the lake.
        seconds: until the process is killed.

    Raises:
        CpmiError: see `answer`; or the process was ended, as by a system without memory.
    """
    asked = {
        "sql": sql,
        "most_rows": most_rows,
        "database": str(database),
        "home": str(home),
        "home_variable": home_variable,
        "files": list(map(str, files)),
        "memory": queries.MOST_MEMORY,
        "most_memory": queries.MOST_OF_PROCESS,
    }
    is_late = False
    reply = rows = b""
    with TemporaryFile() as problems:
        with (
            suppress(BrokenPipeError),
            subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                bufsize=0,  # `select` does not see bytes in Python's buffer
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=problems,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # the same code, wherever it lies
                process_group=0,  # Ctrl-C reaches this process alone, which ends the other
            ) as process,
        ):
            assert process.stdin and process.stdout
            try:
                process.stdin.write(json.dumps(asked).encode() + b"\n")
                process.stdout.readline()
                began = time.monotonic()
                # short waits: Python handles a signal that reached another thread only between them
                while not is_late and not select.select([process.stdout], [], [], WAIT_SECONDS)[0]:
                    is_late = time.monotonic() - began > seconds
                if not is_late:
                    reply, rows = process.stdout.readline(), process.stdout.read()
                    process.wait()
            finally:
                process.kill()
        problems.seek(0)
        *_, problem = ["no message", *problems.read().decode(errors="replace").strip().splitlines()]
    if is_late:
        raise CpmiError(STOPPED.format(seconds))
    if process.returncode > 0:
        raise CpmiError(f"the process of the query ended with exit code {process.returncode} ({problem})")
    if process.returncode < 0:
        how = signal.Signals(-process.returncode).name
        raise CpmiError(f"the query ended its process ({how}), as too much memory or nesting does; ask for less")
    found = json.loads(reply)
    if "error" in found:
        raise getattr(errors, found["error"], CpmiError)(found["message"])
    return Answer(pl.read_ipc_stream(rows), **found)


def _serve() -> None:
    """Answer one query, and end."""
    asked = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_caller, daemon=True).start()
    _bound_memory(asked["most_memory"])
    replies = sys.stdout.buffer
    replies.write(b"\n")
    replies.flush()
    found = None
    try:
        database, home, *files = map(Path, (asked["database"], asked["home"], *asked["files"]))
        connection = locked_connection(database, home, asked["home_variable"], files, asked["memory"])
        found = answer(connection, asked["sql"], asked["most_rows"], threading.TIMEOUT_MAX)
        if found.rows.estimated_size() > asked["memory"]:
            raise CpmiError(TOO_LARGE)
        reply = {"has_more": found.has_more}
    except CpmiError as error:
        found = None
        reply = {"error": type(error).__name__, "message": str(error)}
    except BaseException as error:  # a panic of polars is no Exception
        reply = {"error": "CpmiError", "message": f"the query failed: {first_line(error)}"}
    replies.write(json.dumps(reply).encode() + b"\n")
    replies.flush()
    if found:
        found.rows.write_ipc_stream(replies)
        replies.flush()
    os._exit(0)


def _end_with_caller() -> None:
    """End when the caller's end of the pipe closes, however it was ended."""
    sys.stdin.buffer.read()
    os._exit(1)


def _bound_memory(more: int) -> None:
    """Let this process take so many more bytes: further allocations fail, before the machine runs out of memory.

    Only Linux counts what a process takes of its own; elsewhere nothing is bounded.
    """
    if sys.platform != "linux":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    set_already = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    bound = min(psutil.Process().memory_info().data + more, *set_already, sys.maxsize)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))


if __name__ == "__main__":
    _serve()
