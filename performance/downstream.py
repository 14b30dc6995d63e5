"""What follows labeling at full size: rewards, data set and report of 80,000 trajectories, every reward type.

    PYTHONPATH=.:performance python performance/downstream.py --references DATA --rows 83000

Rows are those of `ingestion.py`; log-probabilities and rollouts are made up (`made_up_labels.py`), for no machine here
could make them. Everything after them is `cpmi run` in a process of its own, whose seconds and peak memory are printed,
then the README's queries. No reward model is trained.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml
from ingestion import corpus, read_problems
from made_up_labels import no_models
from rich.console import Console

from cpmi_dagster import definitions
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.database import query
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.registry import reward_type

BEFORE = ("sources", "alignment", "selection")
MADE_UP = (
    "hard_negatives",
    "question_negatives",
    "answer_logprobs",
    "control_logprobs",
    "prover_logprobs",
    "policy_rollouts",
    "prover_rollouts",
)
NOTED_GIB = 0.3
QUERIES = (
    "select reward_type, count(*) from labels.step_rewards group by all",
    "select source_id as id, step_index, reward from labels.step_rewards join alignment.trajectories "
    "using (trajectory_id) where reward_type = 'cpmi' order by all limit 100",
    "select * from reports.paper_comparison",
    "select d.source_id, d.soft_labels from alignment.trajectories t join dataset.cpmi_80k d "
    "on d.source_id = t.source_id limit 100",
    "select method, sum(wall_seconds) from labels.labeling_costs group by all",
)


def write_profile(folder: Path, references: Path, rows: int, shards: int, types: Sequence[str]) -> Path:
    """The corpus and a profile of it, without reward models."""
    source = folder / "math_shepherd.jsonl"
    with source.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{text}\n" for text in corpus(read_problems(references), rows, random.Random(rows)))
    files = [
        {"source": name, "path": str(references / name / "train.jsonl.gz"), "split": "train"}
        for name in ("gsm8k", "math")
    ]
    profile = folder / "downstream.yaml"
    profile.write_text(yaml.safe_dump({
        "extends": "files", "profile": "downstream", "shards": shards,
        "sources": {"math_shepherd": {"path": str(source)}, "references": files},
        "models": {"prover": {"name": "miniature:prover", "dtype": "float32"}},
        "selection": {"trajectories": None, "gsm8k_share": None, "mixed_share": None, "leave_out_too_hard": False},
        "negatives": {"samples": 0},
        "rewards": {"types": list(types)},
        "recipes": [],
    }))  # fmt: skip
    return profile


def run(profile: Path, home: Path) -> tuple[float, float, str]:
    """Seconds, peak GiB and the output of `cpmi run`."""
    began = time.perf_counter()
    environment = {**os.environ, "CPMI_HOME": str(home)}
    command = [sys.executable, "-m", "cpmi_dagster", "run", "-p", str(profile)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert process.stdout is not None
    peak, lines = 0.0, []
    for line in process.stdout:
        lines.append(line)
        if (so_far := peak_gib(process.pid)) > peak + NOTED_GIB:
            print(f"{so_far:.1f} GiB after {line.strip()}", file=sys.stderr)
            peak = so_far
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("".join(lines))
    return time.perf_counter() - began, usage.ru_maxrss / 2**20, "".join(lines)


def peak_gib(process: int) -> float:
    """Most memory that a process has held at once so far; 0 where it has ended."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 2**20 if found else 0.0


def main() -> None:
    """Make the labels up, then measure what follows them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--references", type=Path, required=True, help="holds gsm8k/train.jsonl.gz, math/train.jsonl.gz"
    )
    parser.add_argument("--rows", type=int, default=83_000)
    parser.add_argument("--shards", type=int, default=80)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # all but the ceiling, since nobody has judged these steps
        types = [name for name in load_settings("miniature").rewards.types if not reward_type(name).needs.truth]
        profile = write_profile(folder, chosen.references.resolve(), chosen.rows, chosen.shards, types)
        settings, console = load_settings(profile, folder / "home"), Console(stderr=True)
        only = (*BEFORE, *(f"labels/{table}" for table in MADE_UP))
        with no_models():
            outcome = definitions.run_with_progress(settings, settings.shard_keys, only, False, console, quiet=False)
        assert not outcome.failures, outcome.failures
        seconds, peak, output = run(profile, settings.home)
        print(output, file=sys.stderr)
        rows = Lake.of(settings).read("labels/step_rewards", columns=["trajectory_id"])
        print(f"{rows.n_unique():,} trajectories, {rows.height:,} rewards")
        print(f"step_rewards to report: {seconds / 60:.1f} minutes, {peak:.1f} GiB at most")
        for sql in QUERIES:
            began = time.perf_counter()
            found = query(settings, sql).rows.height
            print(f"{time.perf_counter() - began:.2f} s  {found:>7,} rows  {sql}")


if __name__ == "__main__":
    main()
