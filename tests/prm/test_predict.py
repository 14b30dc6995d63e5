"""`cpmi judge`: every line of the input is in the output, judged or with its reason."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from cpmi_dagster import judge
from cpmi_dagster.cli.commands import app
from cpmi_dagster.definitions import read_file
from cpmi_dagster.prm.predict import OURS, first_error, predict_file
from cpmi_dagster.trajectories.given_rows import table_rows

pytestmark = pytest.mark.slow

SOLUTIONS: list[dict[str, Any]] = [
    {"id": "a", "question": "How many two ?", "steps": ["we add two", "oops so five"], "benchmark": "prmbench"},
    {"id": "empty", "question": "How many ?", "steps": []},
    {"id": 7, "question": "How many five ?", "steps": ["hence five"], "idx": "p", "first_error": 3, "note": {"é": [1]}},
    {"id": "long", "question": "How many ?", "steps": ["two and three"] * 60},
]
BLANK = ["we add", " \u200b\n", "so five"]
PRMBENCH = {"idx": "p0", "classification": "circular", "modified_question": "How ?", "modified_process": BLANK}
PROCESSBENCH = {"id": "gsm8k-0", "problem": "How ?", "steps": BLANK, "final_answer_correct": True, "label": -1}


class Files(NamedTuple):
    """A model and two files, to be judged with."""

    prm: str
    input: Path
    output: Path

    def judge(self, **options: Any) -> list[dict[str, Any]]:
        """The rows that `predict_file` writes."""
        given = read_file(str(self.input), [self.output], for_judge=True)
        rows = predict_file(self.prm, given, self.output, progress=lambda *_: None, **options)
        assert [json.loads(line) for line in self.output.read_text(encoding="utf-8").splitlines()] == rows
        return rows


@pytest.fixture
def files_of(trained, tmp_path):
    def build(lines: Sequence[dict[str, Any] | str]) -> Files:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / "in.jsonl").write_text("\n".join(texts), encoding="utf-8")
        return Files(str(trained.path), tmp_path / "in.jsonl", tmp_path / "judged.jsonl")

    return build


def test_every_line_comes_out_in_order_with_its_fields_or_a_reason(files_of):
    first, empty, third, long = files_of(SOLUTIONS).judge()
    assert (first["id"], first["benchmark"], len(first["probabilities"])) == ("a", "prmbench", 2)
    assert (third["id"], third["idx"], third["note"], len(third["probabilities"])) == (7, "p", {"é": [1]}, 1)
    assert SOLUTIONS[0].items() <= first.items() and third["input_first_error"] == 3 and third["reason"] is None
    assert empty == {**SOLUTIONS[1], "probabilities": None, "first_error": None, "reason": "`steps`: it is empty"}
    assert long["probabilities"] is None and "128" in long["reason"]


def test_the_first_error_is_the_first_step_below_the_threshold(files_of, trained):
    [alone] = judge(SOLUTIONS[:1], str(trained.path))
    expected = alone["probabilities"]
    for threshold in (0.0, sum(expected) / 2, 1.0):
        [row] = files_of(SOLUTIONS[:1]).judge(threshold=threshold)
        assert row["probabilities"] == pytest.approx(expected, abs=1e-6)
        assert row["first_error"] == first_error(expected, threshold)
    assert (first_error([0.9, 0.4, 0.1], 0.5), first_error([0.5, 0.6], 0.5)) == (1, -1)


def test_files_of_the_benchmarks_are_judged_as_they_are_and_an_empty_step_in_them_alone(files_of):
    plain = {"id": "own", "question": "How ?", "steps": BLANK}
    lines = [plain, PRMBENCH, PRMBENCH, PROCESSBENCH, {**plain, "id": "math-0", "benchmark": "processbench_math"}]
    rows = files_of(lines).judge()
    assert [row["reason"] for row in rows] == ["`steps.1`: it is empty", None, None, None, None]
    assert [row.get("id") for row in rows] == ["own", None, None, "gsm8k-0", "math-0"]
    assert [len(row["probabilities"] or ()) for row in rows] == [0, 3, 3, 3, 3]
    assert rows[3]["label"] == -1 and PRMBENCH.items() <= rows[1].items()


def test_answers_and_labels_that_no_judge_reads_refuse_no_row(files_of):
    solution = {"question": "How many ?", "steps": ["we add", "so five"]}
    unread = {"gold_answer": [5], "labels": "good", "negative_answers": 7}
    trl = {"prompt": "How many ?", "completions": ["we add"], "labels": [True], "gold_answer": False}
    plain, *others = files_of([solution, {**solution, **unread}, trl]).judge()
    assert [row["reason"] for row in others] == [None, None]
    assert others[0]["probabilities"] == plain["probabilities"] and unread.items() <= others[0].items()


def test_a_wrong_line_keeps_its_place_with_a_reason_and_the_others_are_judged(files_of):
    repeated, broken, not_json = {**SOLUTIONS[0]}, {"id": "b", "question": "x", "steps": None}, '{"id": "c'
    note = '{"id": "d", "question": "x", "steps": ["a"], "note": [1e400]}'
    rows = files_of([SOLUTIONS[0], repeated, broken, not_json, note]).judge()
    reasons = [row["reason"] for row in rows]
    assert reasons[0] is None and reasons[4] is None and rows[4]["note"] == [None]
    assert 'row 1 has the id "a" already' in reasons[1]
    assert "`steps`: it must be a list" in reasons[2] and "not JSON" in reasons[3]
    assert rows[3]["text"] == not_json


def test_the_command_says_which_solutions_were_left_out(files_of):
    files = files_of(SOLUTIONS)

    def command(output: Path = files.output) -> Any:
        return CliRunner().invoke(app, ["judge", "--prm", files.prm, "--input", str(files.input), f"--output={output}"])

    result = command()
    assert result.exit_code == 0
    assert "empty was not judged: `steps`: it is empty" in result.stderr and "2 solutions judged in" in result.stdout
    assert "2 of 4 lines were not judged" in result.stderr
    assert "which it would replace" in str(command(output=files.input).exception)
    files_of(SOLUTIONS[1:2])
    assert command().exit_code == 1


@pytest.mark.parametrize("table", [list, pl.DataFrame, pd.DataFrame, datasets.Dataset.from_list], ids=str)
def test_solutions_in_a_session_are_judged_as_in_a_file_and_come_back_in_their_type(files_of, trained, caplog, table):
    solutions = [{name: row[name] for name in ("question", "steps")} | {"uid": 7} for row in SOLUTIONS]
    given = table(solutions)
    judged = judge(given, str(trained.path))
    assert type(judged) is type(given)
    rows = table_rows(judged)
    from_file = files_of(solutions).judge()
    assert [row["probabilities"] for row in rows] == [row["probabilities"] for row in from_file]
    assert {name for row in rows for name in row} == {"question", "uid", "steps", *OURS}
    assert "1 was not judged: `steps`: it is empty" in caplog.text


def test_judgements_are_written_as_parquet_too(files_of):
    files = files_of(SOLUTIONS)
    rows = files.judge()
    files = files._replace(output=files.output.with_suffix(".parquet"))
    predict_file(files.prm, read_file(str(files.input), [], for_judge=True), files.output, lambda *_: None)
    written = pl.read_parquet(files.output)
    assert written["probabilities"].to_list() == [row["probabilities"] for row in rows]
    assert written["reason"].to_list() == [row["reason"] for row in rows]
