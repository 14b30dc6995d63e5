"""Small files that become large, and lines that do not end, are refused by name before they fill the memory."""

import gzip
import json
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel, ValidationError

from cpmi_dagster.benchmarks.judges import JudgedLine
from cpmi_dagster.errors import SourceError, first_complaint
from cpmi_dagster.files import bounded_reading
from cpmi_dagster.files.bounded_reading import ReadingLimits, bounded_lines, open_text
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.prm.judging import Solution
from cpmi_dagster.resources.sources.data_files import read_file
from cpmi_dagster.resources.web.explorer.own_labels import OwnLabel
from cpmi_dagster.scoring.files import InputLine
from cpmi_dagster.trajectories import judged_rows, step_rows
from cpmi_dagster.trajectories.own_labels import StepLabelRow
from cpmi_dagster.trajectories.rows import Unreadable
from cpmi_dagster.trajectories.step_truth import JudgedRow, StepTruthRow

MIB = 2**20
ALWAYS_ALLOWED = bounded_reading.ALWAYS_ALLOWED
LISTS = [
    (step_rows.MathShepherdRow, {"input": "a"}, "value", "+"),
    (step_rows.TrlRow, {"prompt": "a", "labels": []}, "completions", "a"),
    (step_rows.TrlRow, {"prompt": "a", "completions": []}, "labels", True),
    (judged_rows.RatedStep, {}, "completions", {"text": "a"}),
    (judged_rows.Prm800kLabel, {}, "steps", {}),
    (step_rows.QuestionRow, {"question": "a"}, "steps", "a"),
    (step_rows.QuestionRow, {"question": "a", "steps": ["a"]}, "labels", "+"),
    (judged_rows.ProcessBenchRow, {"problem": "a", "label": -1}, "steps", "a"),
    (StepTruthRow, {"row_number": 1}, "correct", True),
    (StepTruthRow, {"row_number": 1, "correct": []}, "kind", "a"),
    (StepTruthRow, {"row_number": 1, "correct": []}, "operations_left", 1),
    (StepLabelRow, {"row_number": 1}, "rewards", 0.5),
    (Solution, {"id": 1, "question": "a"}, "steps", "a"),
    (InputLine, {"id": 1, "question": "a", "gold_answer": "2"}, "steps", "a"),
    (InputLine, {"id": 1, "question": "a", "gold_answer": "2", "steps": ["a"]}, "negative_answers", "a"),
    (JudgedLine, {"id": 1}, "probabilities", 0.5),
    (JudgedRow, {"trajectory_id": "t000000001", "judged": []}, "rewards", 0.5),
    (JudgedRow, {"trajectory_id": "t000000001", "rewards": [1.0]}, "judged", 0),
    (OwnLabel, {"trajectory_id": "a", "reward_type": "mc", "judged": []}, "rewards", 0.5),
    (OwnLabel, {"trajectory_id": "a", "reward_type": "mc", "rewards": []}, "judged", 1),
]
LIMITS = ReadingLimits(line_characters=1_000, json_characters=5_000, expansion=20)


class Form(BaseModel):
    id: str


@pytest.fixture(autouse=True)
def little_is_always_allowed(monkeypatch):
    monkeypatch.setattr(bounded_reading, "ALWAYS_ALLOWED", 100_000)


def rows_of(file: Path, limits: ReadingLimits = LIMITS) -> list:
    return [row for row, _, _ in read_file(file, limits)]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz"])
def test_a_line_that_is_too_long_is_passed_over_and_the_next_ones_are_read(tmp_path, kind):
    text = "\n".join(['{"a": 1}', json.dumps({"a": "x" * 5_000}), '{"a": 2}']).encode()
    file = tmp_path / f"rows.{kind}"
    file.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    first, long, last = rows_of(file)
    assert (first, last) == ({"a": 1}, {"a": 2})
    assert isinstance(long, Unreadable)
    assert long.reason == "longer than 1,000 characters" and long.place.endswith("line 2")
    assert len(long.text) <= 1_000


def test_a_line_of_just_the_longest_length_is_whole(tmp_path):
    file = tmp_path / "rows.txt"
    file.write_text("\n".join(letter * length for letter, length in (("x", 1_000), ("y", 1_000), ("z", 1_001))))
    with open_text(file) as stream:
        lines = [(len(line.strip()), is_whole) for line, is_whole in bounded_lines(stream, LIMITS)]
    assert lines == [(1_000, True), (1_000, True), (1_001, False)]


@contextmanager
def little_memory():
    """What the block allocates stays below 16 MiB."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


def test_a_line_that_is_too_long_or_does_not_end_is_never_in_memory(tmp_path):
    long, endless = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.gz"
    long.write_bytes(b'{"a": "' + b"x" * (64 * MIB) + b'"}\n')
    endless.write_bytes(gzip.compress(b"[" * (100 * MIB)))
    with little_memory():
        assert isinstance(rows_of(long)[0], Unreadable)
    with little_memory(), pytest.raises(SourceError, match="expands to more than"):
        rows_of(endless)


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.json.gz", "rows.jsonl"])
def test_a_gzipped_file_that_holds_far_more_than_its_size_is_refused(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(gzip.compress(b'{"a": 1}\n' * 100_000))
    with pytest.raises(SourceError, match=r"expands to more than 20 times its own size; .*sources\.limits\.expansion"):
        rows_of(file, LIMITS.model_copy(update={"json_characters": 10**9}))


def test_a_json_file_that_would_be_read_whole_has_a_largest_size(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{"a": "x" * 100}] * 100))
    with pytest.raises(SourceError, match=r"larger than 5,000 characters .* one object per line"):
        rows_of(file)


def test_a_row_of_parquet_that_is_too_large_is_named(tmp_path):
    pq.write_table(pa.table({"a": ["x"] * 40 + ["y" * 5_000] + ["z"]}), tmp_path / "rows.parquet")
    with pytest.raises(SourceError, match=r"rows\.parquet, row 41 has more than 1,000 bytes"):
        rows_of(tmp_path / "rows.parquet")


def test_one_value_of_parquet_that_stands_in_many_rows_is_refused(tmp_path):
    pq.write_table(pa.table({"a": ["x" * 900] * 20_000}), tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").stat().st_size < 20_000
    with pytest.raises(SourceError, match="expands to more than 20 times its own size"):
        rows_of(tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    "column",
    [[f"{number:06d}" + "x" * 900 for number in range(5_000)], pa.array([[None] * 200_000], pa.list_(pa.int8()))],
    ids=["a group that would hold too much", "a list of very many nulls"],
)
def test_parquet_that_would_hold_too_much_is_not_read(tmp_path, monkeypatch, column):
    table = pa.table({"a": column})
    pq.write_table(table, tmp_path / "rows.parquet", compression="zstd", use_dictionary=False)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_: pytest.fail("it was read"))
    with pytest.raises(SourceError, match="expands to more than"):
        rows_of(tmp_path / "rows.parquet")


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz"])
def test_a_judged_or_scored_file_names_its_long_line(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("cpmi_dagster.files.json_lines.DEFAULT_LIMITS", LIMITS)
    text = ('{"id": "a"}\n' + json.dumps({"id": "b" * 5_000})).encode()
    file = tmp_path / f"rows.{kind}"
    file.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    lines = read_json_lines(file, Form, "ids")
    assert next(lines)[1].id == "a"
    with pytest.raises(SourceError, match=r"line 2 is longer than 1,000 characters"):
        next(lines)


def test_little_that_becomes_ten_megabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_reading, "ALWAYS_ALLOWED", ALWAYS_ALLOWED)
    file = tmp_path / "rows.json.gz"
    file.write_bytes(gzip.compress(b"[" + b'{"a": 1},' * MIB + b'{"a": 1}]'))
    with pytest.raises(SourceError, match="expands to more than 200 times"):
        rows_of(file, ReadingLimits())


def test_a_row_of_a_json_array_is_made_when_it_is_asked_for(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text('\ufeff [ {"a": 1} ,\n{"a": "],"}, oops]\n', encoding="utf-8")
    rows = read_file(file, LIMITS)
    assert [next(rows).row, next(rows).row] == [{"a": 1}, {"a": "],"}]
    with pytest.raises(SourceError, match="is not JSON"):
        next(rows)


@pytest.mark.parametrize("text", ["[", "[1", "[1,]", "[,]", "[1 2]", "[1] 2]", "[]]", "[{]", '["a]'])
def test_what_is_no_json_array_is_refused(tmp_path, text):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(SourceError, match=r"rows\.json is not JSON"):
        rows_of(tmp_path / "rows.json")


@pytest.mark.parametrize(("form", "others", "name", "item"), LISTS)
def test_of_a_list_of_others_the_first_wrong_item_is_named_and_too_many_are_refused(form, others, name, item):
    with pytest.raises(ValidationError) as caught:
        form.model_validate({**others, name: [[]] * 3})
    assert len(caught.value.errors()) == 1
    with pytest.raises(ValidationError) as caught:
        form.model_validate({**others, name: [item] * 10_001})
    assert str(first_complaint(caught.value)) == f"`{name}`: it must have at most 10000 items"
