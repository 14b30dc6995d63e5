"""Twelve files of real rows, in the forms and formats that people have, through `init` and the reader of a run."""

import csv
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl
import pytest
from datasets import Dataset
from small_run import SHARED_DATA

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.starter import starter_for
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.trajectories.rows import number_rows, separate_defects
from cpmi_dagster.trajectories.step_truth import read_step_truth

pytestmark = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"the real data sets are not at {SHARED_DATA}")

ROWS = 20
BY_ANSWER = {"gold_answer": "answer"}
Rows = list[dict[str, Any]]


def real(name: str, most: int = ROWS) -> Rows:
    opened = gzip.open if name.endswith(".gz") else open
    with opened(SHARED_DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for _, line in zip(range(most), lines, strict=False)]


def named(rows: Rows, **names: str) -> Rows:
    return [{name: row[field] for name, field in names.items()} for row in rows]


def chats() -> Rows:
    return [
        {
            "messages": [
                {"role": "system", "content": "Think step by step."},
                {"role": "user", "content": row["question"]},
                {"role": "assistant", "content": row["answer"]},
            ],
            "gold_answer": row["answer"].rpartition("#### ")[2],
        }
        for row in real("gsm8k/train.jsonl.gz")
    ]


def responses() -> Rows:
    return [
        {
            "question": row["question"],
            "response": row["175b_verification"]["solution"],
            "answer": row["ground_truth"].rpartition("A: ")[2],
        }
        for row in real("gsm8k/example_model_solutions.jsonl.gz")
    ]


def as_lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def as_list(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps(rows), encoding="utf-8")


def as_csv(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def as_gzip(path: Path, rows: Rows) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


class Kind(NamedTuple):
    """A file: its rows, how it is written, what `init` is told, and what it holds."""

    form: str
    rows: Callable[[], Rows]
    write: Callable[[Path, Rows], object]
    told: Mapping[str, Any] = MappingProxyType({})
    answered: bool = False
    unanswered: int = 0
    judged: bool = False


MATH, PROCESSBENCH = "math/train.jsonl.gz", "processbench/math.even.jsonl.gz"
KINDS = {
    "chat.jsonl": Kind("chat", chats, as_lines, answered=True),
    "math.jsonl": Kind("question and solution", lambda: real(MATH), as_lines, {"fields": BY_ANSWER}, answered=True),
    "responses.csv": Kind("question and solution", responses, as_csv, {"fields": BY_ANSWER}, answered=True),
    "completions.parquet": Kind(
        "question and solution",
        lambda: named(real("math500/test.even.jsonl"), prompt="problem", completion="solution"),
        lambda path, rows: pl.DataFrame(rows).write_parquet(path),
    ),
    "saved": Kind(
        "question and solution",
        lambda: real(MATH),
        lambda path, rows: Dataset.from_list(rows).save_to_disk(path),
        {"fields": BY_ANSWER, "steps": "line"},
        answered=True,
    ),
    "thinking.json": Kind(
        "question and solution",
        lambda: real("omni_math_rule/test.even.jsonl.gz"),
        as_list,
        {"fields": BY_ANSWER, "steps": "paragraph"},
        answered=True,
    ),
    "solutions.arrow": Kind(
        "ProcessBench",
        lambda: real(PROCESSBENCH),
        lambda path, rows: pl.DataFrame(rows).write_ipc(path, compression="lz4"),
        judged=True,
    ),
    "processbench.jsonl.gz": Kind("ProcessBench", lambda: real(PROCESSBENCH), as_gzip, judged=True),
    "prm800k.jsonl": Kind(
        "PRM800K", lambda: real("prm800k/sample_openr.jsonl"), as_lines, answered=True, unanswered=1, judged=True
    ),
    "shepherd.jsonl": Kind("Math-Shepherd", lambda: real("math_shepherd/first100_raw_reconstructed.jsonl"), as_lines),
    "prmbench.jsonl": Kind(
        "question and steps",
        lambda: real("prmbench/prmtest_classified.even.jsonl.gz"),
        as_lines,
        {"fields": {"question": "modified_question", "steps": "modified_process"}},
    ),
    "steps.csv": Kind(
        "question and steps",
        lambda: named(real(PROCESSBENCH), id="id", question="problem", steps="steps"),
        as_csv,  # as Python writes a list
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_init_and_a_run_read_every_row_alike(tmp_path, name):
    kind = KINDS[name]
    rows = kind.rows()
    kind.write(tmp_path / name, rows)
    starter = starter_for(tmp_path / name, "miniature:labeler", tmp_path / "mine.yaml", **kind.told)
    look = starter.look
    assert look.forms == {kind.form: len(rows)}
    assert look.trajectories + look.rejected.filter(stage="duplicate").height == len(rows)
    assert look.answered == (look.trajectories - kind.unanswered if kind.answered else 0)
    assert look.judged == (look.trajectories if kind.judged else 0)
    starter.write()
    sources = load_settings(starter.path, tmp_path / "home").sources
    [source] = sources.trajectories
    reader = DataSources(load_settings(starter.path, tmp_path / "home"))
    parsed, rejected = separate_defects(
        number_rows((row for row, _ in reader.stream(source)), 0, shards=1, reading=source.reading)
    )
    assert rejected.is_empty()
    assert (parsed["question"][0], parsed["steps"][0].to_list()) == (look.first.question, look.first.steps)
    assert parsed["steps"].list.len().max() > 1
    truth, _ = read_step_truth(row for row, _ in reader.stream_all(sources.step_truth))
    judged = truth.join(parsed, on="row_number")
    assert judged.height == (len(rows) if kind.judged else 0)
    assert (judged["correct"].list.len() == judged["steps"].list.len()).all()


@pytest.mark.parametrize("name", [name for name in KINDS if name.endswith((".jsonl", ".csv", ".json"))])
def test_broken_rows_of_every_form_are_rejected_with_their_reason_and_the_others_read(tmp_path, name):
    kind = KINDS[name]
    rows = kind.rows()
    first = next(iter(rows[0]))
    kind.write(tmp_path / name, [*rows, {**dict.fromkeys(rows[0]), first: "?"}])
    look = starter_for(tmp_path / name, "miniature:labeler", tmp_path / "mine.yaml", **kind.told).look
    last = look.rejected.row(-1, named=True)
    assert (last["row_number"], last["stage"], look.rows) == (len(rows), "read", len(rows) + 1)
    assert last["reason"].startswith(("`", "the row has", "its"))
    assert look.trajectories + look.rejected.height == look.rows
