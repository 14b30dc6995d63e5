"""Trajectories to score: real questions and steps with their gold answers, hard negatives, several to a question.

ProcessBench  {"id": "gsm8k-0", "problem": "Sue lives in a fun neighborhood. ...", "steps": ["To find out ...", ...]}
GSM8K         {"question": "Sue lives in a fun neighborhood. ...", "answer": "... #### 6"}
-> trajectory gsm8k-0, its question and steps, gold answer "6"; negatives "7", "5", "8", "4"

Real sets hold few attempts at the same problem. `several_a_question` makes more of them out of a real one: an attempt
keeps the first steps, then goes its own way, with another opening word and other numbers in every step, so that not
even a step read alone is shared. A step is kept with a chance of one in four: of 7,914 pairs of solutions that four
models wrote to the same GSM8K problem (`gsm8k/example_model_solutions.jsonl.gz`) 2 % share their first step, samples
of one model share more.
"""

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from cpmi_dagster.alignment.align import align_questions
from cpmi_dagster.alignment.references import read_references
from cpmi_dagster.miniature.names import local_path
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.negatives.settings import Negatives

REFERENCE_FILES: dict[str, tuple[str, ...]] = {
    "gsm8k": ("gsm8k/train.jsonl.gz", "gsm8k/test.jsonl"),
    "math": ("math/train.jsonl.gz", "math/test_without_math500_odd.jsonl.gz"),
}
REFERENCE_FIELDS = {"gsm8k": ("question", "answer"), "math": ("id", "problem", "solution")}
STEP_FILES = {"gsm8k": "processbench/gsm8k.even.jsonl.gz", "math": "processbench/math.even.jsonl.gz"}
KEPT_STEP_CHANCE = 0.25
OPENINGS = ("So", "Next", "Then", "Now", "Here", "First", "Thus", "Also", "Hence")
SENTENCE_END = re.compile(r"\n+|(?<=[.!])\s+")
COLUMNS = {
    "trajectory_id": pl.String,
    "question_id": pl.String,
    "subset": pl.String,
    "question": pl.String,
    "steps": pl.List(pl.String),
}


def missing_files(data: Path) -> list[Path]:
    """Files of the workload that a folder lacks."""
    names = [*STEP_FILES.values(), *(name for names in REFERENCE_FILES.values() for name in names)]
    return [data / name for name in names if not (data / name).is_file()]


def read_trajectories(data: Path | None) -> pl.DataFrame:
    """Every trajectory whose problem has a gold answer.

    Args:
        data: folder with `REFERENCE_FILES` and `STEP_FILES`; None takes problems of the embedded world.

    Returns:
        Columns trajectory_id, question_id, subset (gsm8k, math), question, steps, gold_answer.
    """
    parts = []
    for subset in REFERENCE_FILES:
        references = read_references(_reference_rows(data, subset), subset, "all")
        steps = pl.DataFrame(list(_attempts(data, subset)), schema=COLUMNS, orient="row")
        found = align_questions(steps, references)["reference_row"]
        golds = [None if row is None else references["answer"][row] for row in found]
        parts.append(steps.with_columns(gold_answer=pl.Series(golds, dtype=pl.String)))
    return pl.concat(parts).filter(pl.col("gold_answer") != "")


def reference_texts(data: Path | None) -> Iterator[str]:
    """Problems and solutions of GSM8K and MATH, to train a tokenizer on."""
    for subset in REFERENCE_FILES:
        for row in read_references(_reference_rows(data, subset), subset, "all").iter_rows(named=True):
            yield f"{row['question']}\n{row['solution']}\n"


def _reference_rows(data: Path | None, subset: str) -> list[dict[str, Any]]:
    if data is None:
        return list(_json_lines(local_path(f"miniature:{subset}_train")))
    rows = [row for name in REFERENCE_FILES[subset] for row in _json_lines(data / name)]
    return [{name: row[name] for name in REFERENCE_FIELDS[subset]} for row in rows]


def _attempts(data: Path | None, subset: str) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Rows of `COLUMNS`; in the embedded world a problem's own solution, sentence by sentence, is its attempt."""
    if data is None:
        references = read_references(_reference_rows(None, subset), subset, "all")
        for number, (question, solution) in enumerate(references.select("question", "solution").iter_rows()):
            name = f"{subset}-{number}"
            yield name, name, subset, question, [text for text in SENTENCE_END.split(solution) if text.strip()]
        return
    for row in _json_lines(data / STEP_FILES[subset]):
        yield row["id"], row["id"], subset, row["problem"], row["steps"]


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return map(json.loads, text.splitlines())


def several_a_question(trajectories: pl.DataFrame, attempts: int, seed: int) -> pl.DataFrame:
    """So many attempts at every question: the real trajectory and variations of it (see the module's text).

    Args:
        trajectories: columns of `read_trajectories`.
        attempts: trajectories a question gets.
        seed: decides where and how the others leave the real one.
    """
    rows = []
    for row in trajectories.iter_rows(named=True):
        rng = random.Random(f"{seed}:{row['trajectory_id']}")
        rows.append(row)
        for attempt in range(1, attempts):
            steps = _own_way(row["steps"], rng)
            rows.append({**row, "trajectory_id": f"{row['trajectory_id']}/{attempt}", "steps": steps})
    return pl.DataFrame(rows, schema=trajectories.schema, orient="row")


def _own_way(steps: list[str], rng: random.Random) -> list[str]:
    kept = 0
    while kept < len(steps) - 1 and rng.random() < KEPT_STEP_CHANCE:
        kept += 1
    return steps[:kept] + [_rewritten(step, rng) for step in steps[kept:]]


def _rewritten(step: str, rng: random.Random) -> str:
    changed = re.sub(r"\d+", lambda number: str(int(number[0]) + rng.randrange(1, 10)), step)
    return f"{rng.choice(OPENINGS)}{rng.randrange(10)}, {changed}"


def with_step_count(trajectories: pl.DataFrame, count: int) -> pl.DataFrame:
    """Every trajectory with so many steps: its own over and over, from the second time with a number."""
    steps = [
        [_again(row[index % len(row)], index // len(row)) for index in range(count)] for row in trajectories["steps"]
    ]
    return trajectories.with_columns(steps=pl.Series(steps))


def _again(step: str, turn: int) -> str:
    return f"{turn + 1}. {step.strip()}" if turn else step


def with_step_length(trajectories: pl.DataFrame, factor: float) -> pl.DataFrame:
    """Every step so many times as long: cut off, or repeated."""
    steps = [[_stretched(step.strip(), factor) for step in row] for row in trajectories["steps"]]
    return trajectories.with_columns(steps=pl.Series(steps))


def _stretched(text: str, factor: float) -> str:
    length = max(1, round(len(text) * factor))
    return " ".join([text] * -(-length // max(len(text), 1)))[:length].strip() or text[:1]


def negatives_of(trajectories: pl.DataFrame, count: int, seed: int) -> pl.DataFrame:
    """So many hard negatives of every trajectory: edits of its gold answer, as where a model's samples run out.

    Returns:
        Columns of `labels.hard_negatives`.
    """
    return hard_negatives(trajectories, None, Negatives(count=count), seed).negatives
