"""Scoring on a CPU with torch's memory in huge pages and without: tokens a second, in turns, and their ratio.

    python performance/huge_pages.py models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf --trajectories 12 --rounds 3

torch asks once, when it first takes memory, so every turn is a process of its own that loads the model, scores two
trajectories that nobody times, and then those that count.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from scoring_sample import load_workload, representative
from scoring_throughput import measure

from cpmi_dagster.models.language_models import load_language_model
from cpmi_dagster.scoring.settings import Scoring

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SWITCH, PAGES = "THP_MEM_ALLOC_ENABLE", {"4 kB": "0", "huge": "1"}
UNTIMED, VOCABULARY = 2, 4096


def tokens_a_second(name: str, trajectories: int, dtype: str) -> float:
    """Of this process, whose environment says which pages torch takes."""
    model = load_language_model(name, dtype=dtype)
    every, tokenizer = load_workload(SHARED_DATA if SHARED_DATA.is_dir() else None, VOCABULARY)
    chosen, scoring = representative(every, tokenizer, trajectories, 0), Scoring(templates=1)
    measure(model, chosen.head(UNTIMED), scoring, 0, tree_way=True)
    measured = measure(model, chosen, scoring, 0, tree_way=True)
    return measured.tokens / measured.seconds


def main() -> None:
    """Print the tokens a second of each turn, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a causal language model: folder, GGUF file or hub id")
    parser.add_argument("--trajectories", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--turn", action="store_true", help="measure in this process, and print one number")
    chosen = parser.parse_args()
    if chosen.turn:
        print(tokens_a_second(chosen.model, chosen.trajectories, chosen.dtype))
        return
    speeds: dict[str, list[float]] = {pages: [] for pages in PAGES}
    for _ in range(chosen.rounds):
        for pages, value in PAGES.items():
            command = [sys.executable, *sys.argv, "--turn"]
            environment = {**os.environ, SWITCH: value}
            turn = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            speeds[pages].append(float(turn.stdout))
            print(f"{pages} pages: {speeds[pages][-1]:.0f} tokens/s", flush=True)
    small, huge = (statistics.median(speeds[pages]) for pages in PAGES)
    print(f"huge / 4 kB: {huge / small:.2f}")


if __name__ == "__main__":
    main()
