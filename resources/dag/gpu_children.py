"""`cpmi run` on several GPUs: a child process for each labels its part of the shards, on the GPU that it is dealt.

orchestration.gpus: 4, shards 000 to 007   ->   000 and 004 by the first process, 001 and 005 by the second, …
"""

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from tempfile import TemporaryFile
from typing import IO

from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.models.processors import THREADS, usable_cores
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.resources.dag.stage_run import Home

Current = Callable[[Sequence[str], str], bool]
LOOK_EVERY_SECONDS = 5.0
LAST_LINES = 3
CHILD = "LABELS_FOR_CPMI_RUN"
"""The environment variable that marks a child process."""
LOG = logging.getLogger(__name__)


def label_on_gpus(home: Home, shards: Sequence[str], tables: Sequence[str], is_current: Current) -> set[str]:
    """Label shards in one child process per GPU, if the profile has several GPUs and several shards are due.

    A child that fails is logged. The caller labels what is missing afterwards, and meets the error itself if it was not
    the child's alone.

    Returns:
        The shards that were given to children.
    """
    settings = home.settings
    if settings.orchestration.gpus == 1 or settings.is_pilot or environment_variable(CHILD):
        return set()
    due = [shard for shard in shards if not is_current(tables, shard)]
    if len(due) < 2:
        return set()
    parts = [due[start :: settings.orchestration.gpus] for start in range(min(settings.orchestration.gpus, len(due)))]
    home.models.device("labeler")  # warns here of a labeler on the CPU: what children say is shown only if they fail
    home.models.leave_place()  # children need it, and this process's GPU
    remaining, advance = set(due), home.progress.start(f"shards on {len(parts)} GPUs", len(due), LOG.info)

    def show() -> None:
        labelled = {shard for shard in remaining if is_current(tables, shard)}
        remaining.difference_update(labelled)
        advance(len(labelled))

    with ExitStack() as files:
        # a full pipe would stop a child
        errors = [files.enter_context(TemporaryFile("w+", encoding="utf-8", errors="replace")) for _ in parts]
        children = [_start(settings, part, tables, file) for part, file in zip(parts, errors, strict=True)]
        try:
            for child in children:
                _wait(child, show)
        finally:
            for child in children:
                child.terminate()
        last_lines = []
        for file in errors:
            file.seek(0)
            last_lines.append(file.read().strip().splitlines()[-LAST_LINES:])
    for child, part, lines in zip(children, parts, last_lines, strict=True):
        if child.returncode:
            reason = "; ".join(lines) or f"exit code {child.returncode}"
            place = f"of shards {', '.join(part)} ended early"
            LOG.warning(f"the process {place} ({reason}); what is missing of them is labelled here")
    return set(due)


def _wait(child: subprocess.Popen[str], show: Callable[[], None]) -> None:
    """Wait until a child ends, and show the progress meanwhile."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=LOOK_EVERY_SECONDS)
            return
        show()


def _start(settings: Settings, shards: Sequence[str], tables: Sequence[str], errors: IO[str]) -> subprocess.Popen[str]:
    """Start a child. It sees the GPUs that this process sees, and its own dealer assigns it one."""
    options = [*shlex.split(settings.profile_option), "--shards", ",".join(shards), "--quiet"]
    only = [word for table in tables for word in ("--only", table)]
    threads = environment_variable(THREADS) or str(max(1, usable_cores() // settings.orchestration.gpus))
    variables = {CHILD: "1", "CPMI_HOME": str(settings.home.absolute()), THREADS: threads}
    command = [sys.executable, "-m", "cpmi_dagster", "run", *options, *only]
    return subprocess.Popen(command, env={**os.environ, **variables}, stderr=errors, text=True)
