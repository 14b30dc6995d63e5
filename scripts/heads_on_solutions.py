"""Question (f) of docs/evidence.md: solutions to be labelled, and a profile that trains reward models on their labels.

    python scripts/heads_on_solutions.py example_model_solutions.jsonl.gz human-steps-1.5b .cpmi/evidence
    -> .cpmi/evidence/heads/solutions.jsonl    400 solutions, each to another question, none of them ProcessBench's
       .cpmi/evidence/heads/heads.yaml         the profile of that rung, with these, a head a label, and ProcessBench
    CPMI_HOME=.cpmi/evidence/heads/home cpmi run -p .cpmi/evidence/heads/heads.yaml
    python scripts/heads_table.py .cpmi/evidence/heads/heads.yaml .cpmi/evidence/heads/home

The solutions come with GSM8K (grade_school_math/data/example_model_solutions.jsonl in openai/grade-school-math): four
to each of its test questions, by models of 6B and 175B parameters. A line is a step, without its <<annotations>>.
"""

import argparse
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from cpmi_dagster.alignment.align import align_questions
from cpmi_dagster.contracts.keys import TRAJECTORIES
from cpmi_dagster.files.bounded_reading import open_text
from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.lake.lake import Lake

AUTHORS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
CALCULATOR, ANSWER = re.compile(r"<<[^>]*>>"), "A: "
LABELS = (
    "cpmi_incremental",
    "cpmi",
    "step_surprisal",
    "final_answer",
    "final_answer_position",
    "step_length",
    "uniform",
)
TRAINING = {
    "backbone": "frozen",
    "head_learning_rate": 3e-3,
    "epochs": 20,
    "batch_size": 32,
    "gradient_accumulation": 1,
}
"""As the demo's heads."""


def parsed(row: dict[str, Any], author: str) -> tuple[list[str], str] | None:
    """Steps and gold answer of a solution; None without a final answer or a step before it."""
    *lines, last = filter(None, map(str.strip, CALCULATOR.sub("", row[author]["solution"]).splitlines()))
    gold = row["ground_truth"].splitlines()[-1]
    if not lines or not last.startswith(ANSWER) or not gold.startswith(ANSWER):
        return None
    lines[-1] += f" The answer is: {last.removeprefix(ANSWER)}"
    return lines, gold.removeprefix(ANSWER)


def solutions(file: Path, judged: pl.DataFrame, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """One solution to each of some questions that are not among the judged ones, its author drawn by the seed."""
    with open_text(file) as lines:
        rows = [json.loads(line) | {"number": number} for number, line in enumerate(lines)]
    asked = align_questions(pl.DataFrame({"question": [row["question"] for row in rows]}), judged.unique("question"))
    others = [row for row, match in zip(rows, asked["reference_row"], strict=True) if match is None]
    drawn = random.Random(seed)
    drawn.shuffle(others)
    for row in others:
        author = drawn.choice(AUTHORS)
        if count and (solution := parsed(row, author)):
            steps, gold = solution
            name = f"{author}/{row['number']}"
            yield {"id": name, "question": row["question"], "steps": steps, "gold_answer": gold}
            count -= 1


def profile_of(settings: Settings, name: str) -> dict[str, Any]:
    """The rung's profile with other trajectories, recipes and ProcessBench as a benchmark."""
    gsm8k, math, *_ = (source.model_dump(exclude_defaults=True) for source in settings.sources.step_truth)
    return {
        "extends": name,
        "profile": "heads",
        "sources": {
            "math_shepherd": {"path": "./solutions.jsonl"},
            "step_truth": None,
            "references": [],
            "benchmarks": {"processbench_gsm8k": gsm8k, "processbench_math": math},
        },
        "rewards": {"types": list(LABELS)},
        "training": TRAINING,
        "recipes": [{"name": f"{label}_bce", "reward_type": label} for label in LABELS],
    }


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("solutions", type=Path, help="example_model_solutions.jsonl, plain or gzipped")
    parser.add_argument("profile", help="the rung whose model labels, or its file")
    parser.add_argument(
        "homes", type=Path, help="folder of the rungs' homes; ProcessBench's questions are taken from it"
    )
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    path = Path(chosen.profile)
    settings = load_settings(chosen.profile, chosen.homes / path.name.removesuffix(".yaml"))
    folder = chosen.homes / "heads"
    folder.mkdir(parents=True, exist_ok=True)
    rows = solutions(chosen.solutions, Lake.of(settings).read(TRAJECTORIES), chosen.count, chosen.seed)
    write_whole(folder / "solutions.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    name = str(path.resolve()) if path.suffix == ".yaml" else chosen.profile
    write_whole(folder / "heads.yaml", yaml.safe_dump(profile_of(settings, name), sort_keys=False))


if __name__ == "__main__":
    main()
