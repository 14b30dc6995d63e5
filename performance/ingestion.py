"""Full-size ingestion, alignment and selection: a corpus with Math-Shepherd's statistics through the real DAG.

    python performance/ingestion.py --references DATA --rows 45000 150000 444655

DATA holds gsm8k/train.jsonl.gz and math/train.jsonl.gz. About 30 rows are made of every problem: the steps are lines of
its own solution, shortened or repeated to the step counts of the published label set, some numbers changed; the rows
stand as in the original, by task and then by outcome, and a few of every thousand are irregular in one of the ways
known from the corpus. Each size runs `cpmi run` in a process of its own, which is what is timed. With `--fuzz` every
line is damaged at random: nothing may crash, and every row must end among the trajectories or the rejected rows.
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
from dataclasses import dataclass
from pathlib import Path

import yaml

from cpmi_dagster.answers.extraction import hash_answer
from cpmi_dagster.answers.fences import boxed_answer
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.trajectories.step_segments import MARKER

FULL_SIZE = 444_655
ROWS_PER_QUESTION = 30
SHARDS = 80
PROFILE = "full-size"
# trajectories of the published label set that have at least k steps, k = 2..9, of 80,000; the longest has 30
AT_LEAST = (79_878, 70_991, 56_593, 43_900, 33_730, 26_046, 20_204, 15_646)
TRAJECTORIES, LONGEST = 80_000, 30
POSITIVE_SHARE = 0.4863
IRREGULAR_SHARE = 0.012
STAGES = ("sources/reference_problems", "sources/math_shepherd", "alignment", "selection")
FILES = {"GSM8K": ("gsm8k", "question", "answer"), "MATH": ("math", "problem", "solution")}


@dataclass(frozen=True)
class Problem:
    """What rows are made of."""

    task: str
    question: str
    lines: list[str]
    answer: str


def read_problems(references: Path) -> list[Problem]:
    """GSM8K's and MATH's training problems."""
    problems = []
    for task, (folder, question, solution) in FILES.items():
        with gzip.open(references / folder / "train.jsonl.gz", "rt", encoding="utf-8") as stream:
            for row in map(json.loads, stream):
                lines = [line.strip() for line in re.split(r"\n+|(?<=[.!])\s+", row[solution]) if line.strip()]
                answer = (hash_answer if task == "GSM8K" else boxed_answer)(row[solution]) or "0"
                problems.append(Problem(task, row[question], lines, answer))
    return problems


def corpus(problems: list[Problem], rows: int, rng: random.Random) -> Iterator[str]:
    """Lines of the corpus, by task and outcome."""
    for task in FILES:
        mine = [problem for problem in problems if problem.task == task]
        share = (
            rows * len(mine) // len(problems)
            if task == "GSM8K"
            else rows - rows * len([problem for problem in problems if problem.task != task]) // len(problems)
        )
        outcomes = sorted((rng.random() < POSITIVE_SHARE, number) for number in range(share))
        for is_right, number in outcomes:
            yield line(mine[number // ROWS_PER_QUESTION % len(mine)], is_right, rng)


def line(problem: Problem, is_right: bool, rng: random.Random) -> str:
    """One row as a line of JSON."""
    count = step_count(rng)
    texts = [changed(problem.lines[index % len(problem.lines)], rng) for index in range(count)]
    labels = [is_right or rng.random() < POSITIVE_SHARE for _ in texts]
    answer = problem.answer if is_right else str(rng.randrange(1_000))
    texts[-1] += f" The answer is: {answer}"
    steps = [f"Step {number}: {text} " for number, text in enumerate(texts, start=1)]
    marks = ["+" if label else "-" for label in labels]
    row = {
        "input": f"{problem.question} " + "\n".join(step + MARKER for step in steps),
        "label": f"{problem.question} " + "\n".join(step + mark for step, mark in zip(steps, marks, strict=True)),
        "task": problem.task,
    }
    if rng.random() < IRREGULAR_SHARE:
        row = rng.choice(IRREGULARITIES)(row)
    return row if isinstance(row, str) else json.dumps(row, ensure_ascii=rng.random() < 0.5)


def step_count(rng: random.Random) -> int:
    """Drawn from the step counts of the published label set."""
    draw = rng.random() * TRAJECTORIES
    below = sum(draw < count for count in AT_LEAST)
    return below + 1 if below < len(AT_LEAST) else rng.randrange(len(AT_LEAST) + 1, LONGEST + 1)


def changed(text: str, rng: random.Random) -> str:
    """The text, now and then with another number in it."""
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


def fuzzed(text: str, rng: random.Random) -> str:
    """The line with up to eight places cut out, doubled, or overwritten with anything."""
    for _ in range(rng.randrange(9)):
        start = rng.randrange(len(text) + 1)
        end = start + rng.randrange(20)
        put = rng.choice(
            (
                "",
                text[start:end] * 2,
                MARKER,
                "+",
                "-",
                '"',
                "\\ud800",
                "\\n",
                "Step 1:",
                "?",
                chr(rng.randrange(32, 0x3000)),
            )
        )
        text = text[:start] + put + text[end:]
    return text.replace("\n", " ")


def accounted(home: Path) -> tuple[int, int]:
    """Different source rows among the trajectories, and among the rejected rows; none may be in both."""
    lake = Lake(home, PROFILE)
    trajectories = lake.read("alignment/trajectories", columns=["row_number"])["row_number"]
    rejected = lake.read("alignment/rejected_rows", columns=["row_number"])["row_number"]
    if len(set(trajectories) | set(rejected)) != len(trajectories) + len(rejected):
        raise SystemExit("a source row is counted twice")
    return len(trajectories), len(rejected)


def measure(corpus_file: Path, references: Path, home: Path) -> tuple[float, float, str]:
    """Seconds, peak GiB and the output of `cpmi run` over ingestion, alignment and selection."""
    sources = [
        {"source": name, "path": str(references / name / "train.jsonl.gz"), "split": "train"}
        for name in ("gsm8k", "math")
    ]
    profile = home / "profile.yaml"
    profile.write_text(yaml.safe_dump({
        "extends": "files", "profile": PROFILE, "shards": SHARDS, "home": str(home / "home"),
        "sources": {"math_shepherd": {"path": str(corpus_file)}, "references": sources},
        "selection": {"trajectories": 80_000, "gsm8k_share": 0.5, "mixed_share": 0.7, "leave_out_too_hard": True},
    }))  # fmt: skip
    only = [argument for stage in STAGES for argument in ("--only", stage)]
    command = [sys.executable, "-m", "cpmi_dagster", "run", "-p", str(profile), *only]
    began = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    output = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(output)
    return time.perf_counter() - began, usage.ru_maxrss / 2**20, output


def main() -> None:
    """Make a corpus of each size, run it, and print a row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[45_000, 150_000, FULL_SIZE])
    parser.add_argument("--fuzz", action="store_true", help="damage every line at random")
    arguments = parser.parse_args()
    problems = read_problems(arguments.references.resolve())
    print(f"{'rows':>9} {'MiB':>7} {'seconds':>8} {'us a row':>9} {'peak GiB':>9} {'trajectories':>13} {'rejected':>9}")
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            corpus_file = Path(folder) / "math_shepherd.jsonl"
            with corpus_file.open("w", encoding="utf-8") as stream:
                rng = random.Random(rows)
                lines = corpus(problems, rows, rng)
                stream.writelines(f"{fuzzed(text, rng) if arguments.fuzz else text}\n" for text in lines)
            size = corpus_file.stat().st_size / 2**20
            seconds, peak, output = measure(corpus_file, arguments.references.resolve(), Path(folder))
            aligned, rejected = accounted(Path(folder) / "home")
        figures = f"{rows:>9,} {size:>7,.0f} {seconds:>8.1f} {seconds / rows * 1e6:>9.0f} {peak:>9.2f}"
        print(f"{figures} {aligned:>13,} {rejected:>9,}", flush=True)
        print(output, file=sys.stderr)


if __name__ == "__main__":
    main()
