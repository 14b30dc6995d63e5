"""Settings and environment variables that were removed, each with its replacement.

orchestration: {gpu_hours_per_day: 96}    ->    profile `mine.yaml`: `orchestration.gpu_hours_per_day` was removed; …
"""

GONE = {
    "orchestration.ray": "several machines are Dagster's run launchers, a shard a run (docs/operating.md)",
    "orchestration.postgres": "name the server as `storage` in a `dagster.yaml` of your own (docs/operating.md)",
    "orchestration.gpu_hours_per_day": "`orchestration.shards_per_tick` bounds what a tick requests",
    "orchestration.shards_per_run": "a run labels one shard, and `cpmi run` keeps its models loaded",
    "orchestration.attempts": "the schedule requests a failed shard again after the others",
    "sources.limits": "the one limit is ten million characters a line",
    "CPMI_CACHE": "a home is a folder, and has no copies elsewhere",
    "CPMI_LOG_FORMAT": "Dagster's processes log JSON if started with `--log-format json`",
}
"""By dotted path of a setting or name of a variable: what to use instead, as the end of a sentence."""

STORE = "the home is an address, and homes on object stores were removed; give a folder, which machines may share"
"""The whole sentence; an address may hold a key, and is not shown."""


def was_removed(name: str) -> str:
    """What replaces a removed setting or variable, as a part of a sentence; empty for any other name."""
    return f"`{name}` was removed; {GONE[name]}" if name in GONE else ""
