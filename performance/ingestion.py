"""Measures ingestion, alignment and selection of a corpus with Math-Shepherd's statistics.

    python performance/ingestion.py --references DATA --rows 45000 150000 444655

DATA contains gsm8k/train.jsonl.gz and math/train.jsonl.gz. Every problem gives about 30 rows: steps are lines of its
solution, shortened or repeated to the step counts of the published label set, with some numbers changed. Rows are
ordered by task and outcome as in the original, and about one in a hundred is irregular in a way known from the corpus.
The timed part of each size is `cpmi run` in a separate process.
"""

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import Lake

FULL_SIZE, ROWS_PER_QUESTION, SHARDS, MARKER = 444_655, 30, 80, "ки"
# trajectories of the published label set that have at least k steps, k = 2..9, of 80,000; the longest has 30
AT_LEAST = (79_878, 70_991, 56_593, 43_900, 33_730, 26_046, 20_204, 15_646)
TRAJECTORIES, LONGEST = 80_000, 30
POSITIVE_SHARE, IRREGULAR_SHARE = 0.4863, 0.012
STAGES = ("sources/reference_problems", "sources/math_shepherd", "alignment", "selection")
SELECTION = {"trajectories": TRAJECTORIES, "gsm8k_share": 0.5, "mixed_share": 0.7, "leave_out_too_hard": True}
FILES = {"GSM8K": ("gsm8k", "question", "answer"), "MATH": ("math", "problem", "solution")}


class Problem(NamedTuple):
    """A problem, the lines of its solution, and its answer."""

    task: str
    question: str
    lines: list[str]
    answer: str


def read_problems(references: Path) -> Iterator[Problem]:
    """GSM8K's and MATH's training problems."""
    for task, (folder, question, solution) in FILES.items():
        with gzip.open(references / folder / "train.jsonl.gz", "rt", encoding="utf-8") as stream:
            for row in map(json.loads, stream):
                lines = [line.strip() for line in re.split(r"\n+|(?<=[.!])\s+", row[solution]) if line.strip()]
                yield Problem(task, row[question], lines, extract_answer(row[solution]) or "0")


def corpus(problems: list[Problem], rows: int, rng: random.Random) -> Iterator[str]:
    """Lines of the corpus, by task and outcome."""
    of_gsm8k = rows * sum(problem.task == "GSM8K" for problem in problems) // len(problems)
    for task, share in (("GSM8K", of_gsm8k), ("MATH", rows - of_gsm8k)):
        mine = [problem for problem in problems if problem.task == task]
        for is_right, number in sorted((rng.random() < POSITIVE_SHARE, number) for number in range(share)):
            yield line(mine[number // ROWS_PER_QUESTION % len(mine)], is_right, rng)


def line(problem: Problem, is_right: bool, rng: random.Random) -> str:
    """One row as a line of JSON."""
    texts = [changed(problem.lines[index % len(problem.lines)], rng) for index in range(step_count(rng))]
    labels = [is_right or rng.random() < POSITIVE_SHARE for _ in texts]
    texts[-1] += f" The answer is: {problem.answer if is_right else rng.randrange(1_000)}"
    steps = [f"Step {number}: {text} " for number, text in enumerate(texts, start=1)]
    marked = "\n".join(step + MARKER for step in steps)
    labelled = "\n".join(step + "-+"[label] for step, label in zip(steps, labels, strict=True))
    row: Any = {
        "input": f"{problem.question} {marked}",
        "label": f"{problem.question} {labelled}",
        "task": problem.task,
    }
    if rng.random() < IRREGULAR_SHARE:
        row = rng.choice(IRREGULARITIES)(row)
    return row if isinstance(row, str) else json.dumps(row, ensure_ascii=rng.random() < 0.5)


def step_count(rng: random.Random) -> int:
    """A step count drawn from the distribution of the published label set."""
    draw = rng.random() * TRAJECTORIES
    below = sum(draw < count for count in AT_LEAST)
    return below + 1 if below < len(AT_LEAST) else rng.randrange(len(AT_LEAST) + 1, LONGEST + 1)


def changed(text: str, rng: random.Random) -> str:
    """The text, sometimes with another number."""
    return re.sub(r"\d+", lambda _: str(rng.randrange(1, 500)), text, count=1) if rng.random() < 0.3 else text


def both(change: Callable[[str], str]) -> Callable[[dict], dict]:
    """The same change of the input and the label."""
    return lambda row: {**row, "input": change(row["input"]), "label": change(row["label"])}


IRREGULARITIES: tuple[Callable[[dict], dict | str], ...] = (
    both(lambda text: text.replace("Step ", "step ")),
    both(lambda text: text.replace("Step 1: ", "")),
    both(lambda text: text.replace("\n", "\r\n")),
    both(lambda text: text.replace(" ", "\u00a0", 5)),
    both(lambda text: "\u200b" + text),
    both(lambda text: text.replace("The answer is: ", "#### ")),
    both(lambda text: "About another problem: " + text),
    lambda row: {**row, "input": row["input"].replace(" Step 1:", f" {MARKER} Step 1:")},
    lambda row: {**row, "label": row["label"][: len(row["label"]) // 2]},
    lambda row: {**row, "input": row["input"].replace(MARKER, "")},
    lambda row: {**row, "label": None},
    lambda row: json.dumps(row)[:200],
)


def write_profile(folder: Path, references: Path, rows: int, **values: Any) -> Path:
    """Write a corpus into a folder, and the profile that reads it."""
    source, rng = folder / "math_shepherd.jsonl", random.Random(rows)
    with source.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{text}\n" for text in corpus(list(read_problems(references)), rows, rng))
    files = [{"source": name, "path": str(references / name / "train.jsonl.gz")} for name in ("gsm8k", "math")]
    sources = {"trajectories": {"path": str(source)}, "references": files}
    profile = folder / "profile.yaml"
    named = {"extends": "files", "profile": "full-size", "home": str(folder / "home"), "sources": sources}
    profile.write_text(yaml.safe_dump({**named, **values}))
    return profile


def run(profile: Path, *arguments: str) -> tuple[float, float]:
    """Seconds and peak GiB of `cpmi run` in a separate process."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "cpmi_dagster", "run", "-p", str(profile), *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"cpmi run ended with {status}")
    return time.perf_counter() - began, usage.ru_maxrss / 2**20


def main() -> None:
    """Make a corpus of each size, run it, and print a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[45_000, 150_000, FULL_SIZE])
    parser.add_argument("--shards", type=int, default=SHARDS)
    chosen = parser.parse_args()
    for rows in chosen.rows:
        with tempfile.TemporaryDirectory() as folder:
            profile = write_profile(
                Path(folder), chosen.references.resolve(), rows, shards=chosen.shards, selection=SELECTION
            )
            size = (Path(folder) / "math_shepherd.jsonl").stat().st_size / 2**20
            seconds, peak = run(profile, *(word for stage in STAGES for word in ("--only", stage)))
            lake = Lake.of(load_settings(profile))
            aligned, rejected = (
                lake.read(f"alignment/{table}", columns=["row_number"])["row_number"].to_list()
                for table in ("trajectories", "rejected_rows")
            )
        assert len({*aligned, *rejected}) == len(aligned) + len(rejected), "a source row is counted twice"
        print(f"{rows:,} rows, {size:,.0f} MiB: {seconds:.1f} s, {peak:.2f} GiB at most, ", end="")
        print(f"{len(aligned):,} trajectories, {len(rejected):,} rejected", flush=True)


if __name__ == "__main__":
    main()
