"""`cpmi run` on several GPUs: a child process for each labels its part of the shards.

orchestration.gpus: 4, shards 000 to 007   ->   000 and 004 on the first GPU, 001 and 005 on the second, …
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
    home.models.leave_place()  # children need it, and this process's GPU
    remaining, advance = set(due), home.progress.start(f"shards on {len(parts)} GPUs", len(due), LOG.info)

    def show() -> None:
        labelled = {shard for shard in remaining if is_current(tables, shard)}
        remaining.difference_update(labelled)
        advance(len(labelled))

    with ExitStack() as files:
        # a full pipe would stop a child
        errors = [files.enter_context(TemporaryFile("w+", encoding="utf-8", errors="replace")) for _ in parts]
        children = [_start(settings, number, part, tables, errors[number]) for number, part in enumerate(parts)]
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


def _start(
    settings: Settings, number: int, shards: Sequence[str], tables: Sequence[str], errors: IO[str]
) -> subprocess.Popen[str]:
    options = [*shlex.split(settings.profile_option), "--shards", ",".join(shards), "--quiet"]
    only = [word for table in tables for word in ("--only", table)]
    visible = [name for name in environment_variable("CUDA_VISIBLE_DEVICES").split(",") if name]
    device = visible[number] if number < len(visible) else str(number)
    variables = {"CUDA_VISIBLE_DEVICES": device, CHILD: "1", "CPMI_HOME": str(settings.home.absolute())}
    command = [sys.executable, "-m", "cpmi_dagster", "run", *options, *only]
    return subprocess.Popen(command, env={**os.environ, **variables}, stderr=errors, text=True)
