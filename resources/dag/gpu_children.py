"""`cpmi run` on several GPUs: one process for each labels its part of the shards.

orchestration.gpus: 4, shards 000 to 007   ->   000 and 004 on the first GPU, 001 and 005 on the second, …
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence

from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.profiles.settings import Settings

Current = Callable[[Sequence[str], str], bool]
LAST_LINES = 3


def label_on_gpus(settings: Settings, shards: Sequence[str], tables: Sequence[str], is_current: Current) -> list[str]:
    """Label shards in one process a GPU, if the profile has several and more than one shard is to be labelled.

    A process that dies leaves its shards to the caller, which labels what is missing afterwards.

    Returns:
        A sentence for each process that failed.
    """
    if settings.orchestration.gpus == 1 or settings.is_pilot:
        return []
    due = [shard for shard in shards if not is_current(tables, shard)]
    if len(due) < 2:
        return []
    parts = [due[start :: settings.orchestration.gpus] for start in range(min(settings.orchestration.gpus, len(due)))]
    children = [_start(settings, number, part, tables) for number, part in enumerate(parts)]
    try:
        errors = [child.communicate()[1] for child in children]
    finally:
        for child in children:
            child.terminate()
    return [
        "; ".join(error.strip().splitlines()[-LAST_LINES:]) or f"a labeling process ended with {child.returncode}"
        for child, error in zip(children, errors, strict=True)
        if child.returncode
    ]


def _start(settings: Settings, number: int, shards: Sequence[str], tables: Sequence[str]) -> subprocess.Popen[str]:
    options = [*shlex.split(settings.profile_option), "--shards", ",".join(shards), "--quiet"]
    only = [word for table in tables for word in ("--only", table)]
    visible = [name for name in environment_variable("CUDA_VISIBLE_DEVICES").split(",") if name]
    device = visible[number] if number < len(visible) else str(number)
    own = {"CUDA_VISIBLE_DEVICES": device, "CPMI_ORCHESTRATION__GPUS": "1", "CPMI_HOME": str(settings.home.absolute())}
    command = [sys.executable, "-m", "cpmi_dagster", "run", *options, *only]
    return subprocess.Popen(command, env={**os.environ, **own}, stderr=subprocess.PIPE, text=True)
