"""Lines that do not end are passed over, or refused by name, before they fill the memory."""

import gzip
import json
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from cpmi_dagster.benchmarks.judges import JudgedLine
from cpmi_dagster.errors import SourceError, first_complaint
from cpmi_dagster.files.bounded_reading import LINE_CHARACTERS
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.prm.judging import Solution
from cpmi_dagster.resources.sources.data_files import read_file
from cpmi_dagster.resources.web.explorer.own_labels import OwnLabel
from cpmi_dagster.scoring.files import InputLine
from cpmi_dagster.trajectories.own_labels import StepLabelRow
from cpmi_dagster.trajectories.rows import Unreadable
from cpmi_dagster.trajectories.step_truth import JudgedRow, StepTruthRow

MIB = 2**20
LISTS = [
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
    (OwnLabel, {"trajectory_id": "a", "reward_type": "mc", "by": {}, "judged": []}, "rewards", 0.5),
    (OwnLabel, {"trajectory_id": "a", "reward_type": "mc", "by": {}, "rewards": []}, "judged", 1),
]
TOO_LONG = LINE_CHARACTERS + 1


class Form(BaseModel):
    id: str


def rows_of(file: Path) -> list:
    return [row for row, _, _ in read_file(file)]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz"])
def test_a_line_that_is_too_long_is_passed_over_and_the_next_ones_are_read(tmp_path, kind):
    text = "\n".join(['{"a": 1}', json.dumps({"a": "x" * TOO_LONG}), '{"a": 2}']).encode()
    file = tmp_path / f"rows.{kind}"
    file.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    first, long, last = rows_of(file)
    assert (first, last) == ({"a": 1}, {"a": 2})
    assert isinstance(long, Unreadable)
    assert long.reason == "longer than 10,000,000 characters" and long.place.endswith("line 2")
    assert len(long.text) <= 1_000


@contextmanager
def little_memory():
    """What the block allocates stays below 48 MiB."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 48 * MIB
    finally:
        tracemalloc.stop()


def test_a_line_that_is_too_long_or_does_not_end_is_never_in_memory(tmp_path):
    long, endless = tmp_path / "rows.jsonl", tmp_path / "rows.jsonl.gz"
    long.write_bytes(b'{"a": "' + b"x" * (64 * MIB) + b'"}\n')
    endless.write_bytes(gzip.compress(b"[" * (100 * MIB)))
    with little_memory():
        assert isinstance(rows_of(long)[0], Unreadable)
    with little_memory():
        assert isinstance(rows_of(endless)[0], Unreadable)


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz"])
def test_a_judged_or_scored_file_names_its_long_line(tmp_path, kind):
    text = ('{"id": "a"}\n' + json.dumps({"id": "b" * TOO_LONG})).encode()
    file = tmp_path / f"rows.{kind}"
    file.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    lines = read_json_lines(file, Form, "ids")
    assert next(lines)[1].id == "a"
    with pytest.raises(SourceError, match=r"line 2 is longer than 10,000,000 characters"):
        next(lines)


def test_a_row_of_a_json_array_is_made_when_it_is_asked_for(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text('\ufeff [ {"a": 1} ,\n{"a": "],"}, oops]\n', encoding="utf-8")
    rows = read_file(file)
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
