"""Weeks of labeling in an hour: what the system adds to a shard, and whether its memory grows from shard to shard.

    PYTHONPATH=.:performance python performance/long_labeling.py --references DATA --minutes 60

100,000 trajectories in 99 shards (rows of `ingestion.py`) are labelled by CPMI with the smallest model, by `cpmi run`,
which is interrupted when the time is over. What is not in the costs of the shards that were finished is the system's:
reading, checking, writing, Dagster's events, publishing. It is set beside the time that a real labeler takes for a
shard, as `cpmi plan` estimates it.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil
from downstream import BEFORE, write_profile

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import Lake

LAST, MADE_BY_MODEL = "labels/step_rewards", ("labels/hard_negatives", "labels/answer_logprobs")
LOOK_EVERY_SECONDS = 2.0
ONE_H100_HOURS, TRAJECTORIES_OF_PLAN = 12.2, 445_000
"""`cpmi plan -p paper`: CPMI by Qwen3-8B on one H100, for all of Math-Shepherd."""


def start(profile: Path, home: Path, *only: str) -> subprocess.Popen[bytes]:
    """`cpmi run` of some groups."""
    command = [sys.executable, "-m", "cpmi_dagster", "run", "-p", str(profile), "--quiet"]
    chosen = [argument for name in only for argument in ("--only", name)]
    return subprocess.Popen([*command, *chosen], env={**os.environ, "CPMI_HOME": str(home)})


def watched(process: subprocess.Popen[bytes], lake: Lake, seconds: float) -> list[tuple[float, float]]:
    """Seconds and GiB of the process when each shard was finished, until the time is over."""
    own, began, shards = psutil.Process(process.pid), time.monotonic(), []
    while process.poll() is None and time.monotonic() - began < seconds:
        finished = len(lake.partitions(LAST))
        memory = own.memory_info().rss / 2**30
        shards += [(time.monotonic() - began, memory)] * (finished - len(shards))
        time.sleep(LOOK_EVERY_SECONDS)
    process.send_signal(signal.SIGINT)
    process.wait()
    return shards


def by_model(lake: Lake, shard: str) -> float:
    """Seconds of a shard that its model stages measured where they were spent."""
    records = (lake.record(key, shard) for key in MADE_BY_MODEL)
    return sum(float(record.cost["wall_seconds"]) for record in records if record)


def main() -> None:
    """Label for a while and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rows", type=int, default=104_000)
    parser.add_argument("--shards", type=int, default=99)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile = write_profile(folder, chosen.references.resolve(), chosen.rows, chosen.shards, ["cpmi"])
        settings = load_settings(profile, folder / "home")
        lake = Lake.of(settings)
        assert start(profile, settings.home, *BEFORE).wait() == 0
        ends = watched(start(profile, settings.home, "labels"), lake, 60 * chosen.minutes)
        finished = lake.partitions(LAST)
        assert len(ends) > 2, "too few shards were finished to say anything; give it more minutes"
        each = lake.read("selection/selected_trajectories").height / chosen.shards
        # from the end of the first shard on: the start of the process is not part of a shard
        whole = (ends[-1][0] - ends[0][0]) / (len(ends) - 1)
        model = sum(by_model(lake, shard) for shard in finished[1 : len(ends)]) / (len(ends) - 1)
        real = 3600 * ONE_H100_HOURS * each / TRAJECTORIES_OF_PLAN
        print(f"{len(ends)} shards of {each:,.0f} trajectories: {whole:.1f} s each, {model:.1f} s of them in the model")
        print(f"the system adds {whole - model:.1f} s a shard: {(whole - model) / real:.1%} of an H100's {real:.0f} s")
        tenth = max(1, len(ends) // 10)
        places = (0, (len(ends) - tenth) // 2, len(ends) - tenth)
        memory = [median(gib for _, gib in ends[start : start + tenth]) for start in places]
        print("memory, medians of the first, middle and last tenth of the shards: "
              f"{', '.join(f'{gib:.2f}' for gib in memory)} GiB")  # fmt: skip


if __name__ == "__main__":
    main()
