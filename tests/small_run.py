"""A small part of the embedded world as a profile, and a quiet run of it; imported by tests and fixtures."""

from pathlib import Path

import yaml
from rich.console import Console

from cpmi_dagster.profiles.profile_files import PROFILES
from cpmi_dagster.profiles.settings import Settings

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

SMALL = {
    "extends": "miniature",
    "profile": "small",
    "selection": {"trajectories": 16},
    "scoring": {"chunk_trajectories": 2},
    "rollouts": {
        "sample": None,
        "policy_count": 2,
        "prover_count": 1,
        "chunk_trajectories": 2,
        "sampling": {"max_new_tokens": 64},
    },
    "training": {"epochs": 1},
    "recipes": [{"name": "mc_bce", "reward_type": "mc"}, {"name": "cpmi_bce", "reward_type": "cpmi"}],
    "benchmarks": {
        "best_of_n": ["gsm8k"],
        "candidates": 2,
        "bootstrap_samples": 50,
        "sampling": {"temperature": 0.7, "top_p": 0.95, "max_new_tokens": 64},
    },
}


def write_profile(path: Path, values: dict) -> str:
    """A profile file; a question set of ten is enough to look at."""
    world = yaml.safe_load((PROFILES / "miniature.yaml").read_text())["sources"]
    benchmarks = {name: {**source, "limit": 10} for name, source in world["benchmarks"].items() if name == "gsm8k"}
    path.write_text(yaml.safe_dump({**values, "sources": {"benchmarks": benchmarks}}), encoding="utf-8")
    return str(path)


def run_all(
    settings: Settings, only: tuple[str, ...] = (), shards: list[str] | None = None, console: Console | None = None
):
    """`cpmi run` in this process, quietly unless there is a console."""
    from cpmi_dagster import definitions

    quiet, chosen = console is None, shards or settings.shard_keys
    return definitions.run_with_progress(settings, chosen, only, False, console or Console(stderr=True), quiet)
