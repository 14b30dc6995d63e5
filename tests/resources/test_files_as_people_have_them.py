"""Files of real rows, in the forms and formats that people have, through `init` and the reader of a run."""

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

Rows = list[dict[str, Any]]


def real(name: str, **names: str) -> Rows:
    """The first 20 rows of a data set, with all of its fields or some under other names."""
    opened = gzip.open if name.endswith(".gz") else open
    with opened(SHARED_DATA / name, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for _, line in zip(range(20), lines, strict=False)]
    return [{name: row[field] for name, field in names.items()} for row in rows] if names else rows


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


def write(path: Path, rows: Rows) -> None:
    """Write rows as the name of the file says."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    elif path.suffix:
        text = json.dumps(rows) if path.suffix == ".json" else lines
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    else:
        Dataset.from_list(rows).save_to_disk(path)


class Kind(NamedTuple):
    """A file: its form and rows, what `init` is told, how many rows have an answer, whether all are judged."""

    form: str
    rows: Callable[[], Rows]
    told: Mapping[str, Any] = MappingProxyType({})
    answered: int = 0
    judged: bool = False


PAIRS, STEPS, PROCESSBENCH = "question and solution", "question and steps", "processbench/math.even.jsonl.gz"
BY_ANSWER = {"fields": {"gold_answer": "answer"}}
MODIFIED = {"fields": {"question": "modified_question", "steps": "modified_process"}}
KINDS = {
    "chat.jsonl": Kind("chat", chats, answered=20),
    "responses.csv": Kind(PAIRS, responses, BY_ANSWER, 20),
    "saved": Kind(PAIRS, lambda: real("math/train.jsonl.gz"), {**BY_ANSWER, "steps": "line"}, 20),
    "processbench.jsonl.gz": Kind("ProcessBench", lambda: real(PROCESSBENCH), judged=True),
    "prm800k.json": Kind("PRM800K", lambda: real("prm800k/sample_openr.jsonl"), answered=5, judged=True),
    "shepherd.jsonl": Kind("Math-Shepherd", lambda: real("math_shepherd/first100_raw_reconstructed.jsonl")),
    "prmbench.parquet": Kind(STEPS, lambda: real("prmbench/prmtest_classified.even.jsonl.gz"), MODIFIED),
    "steps.csv": Kind(STEPS, lambda: real(PROCESSBENCH, id="id", question="problem", steps="steps")),
}


@pytest.mark.parametrize("name", KINDS)
def test_init_and_a_run_read_every_row_alike(tmp_path, name):
    kind = KINDS[name]
    rows = kind.rows()
    write(tmp_path / name, rows)
    starter = starter_for(tmp_path / name, "miniature:labeler", tmp_path / "mine.yaml", **kind.told)
    look = starter.look
    assert look.forms == {kind.form: len(rows)}
    assert look.trajectories + look.rejected.filter(stage="duplicate").height == len(rows)
    assert (look.answered, look.judged) == (kind.answered, look.trajectories if kind.judged else 0)
    starter.write()
    settings = load_settings(starter.path, tmp_path / "home")
    [source], reader = settings.sources.trajectories, DataSources(settings)
    read = (row for row, _ in reader.stream(source))
    parsed, rejected = separate_defects(number_rows(read, 0, shards=1, reading=source.reading))
    assert rejected.is_empty()
    assert (parsed["question"][0], parsed["steps"][0].to_list()) == (look.first.question, look.first.steps)
    assert parsed["steps"].list.len().max() > 1
    truth, _ = read_step_truth(row for row, _ in reader.stream_all(settings.sources.step_truth))
    judged = truth.join(parsed, on="row_number")
    assert judged.height == (len(rows) if kind.judged else 0)
    assert (judged["correct"].list.len() == judged["steps"].list.len()).all()
