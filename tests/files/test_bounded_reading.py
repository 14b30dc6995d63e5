"""Lines that do not end are passed over, or refused by name, before they fill the memory."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from pydantic import BaseModel

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.bounded_reading import LINE_CHARACTERS
from cpmi_dagster.files.json_lines import read_json_lines
from cpmi_dagster.resources.sources.data_files import read_file
from cpmi_dagster.trajectories.rows import Unreadable

MIB = 2**20
TOO_LONG = LINE_CHARACTERS + 1


class Form(BaseModel):
    id: str


def write(folder: Path, kind: str, *lines: object) -> Path:
    file, text = folder / f"rows.{kind}", "\n".join(map(json.dumps, lines)).encode()
    file.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    return file


def rows_of(file: Path) -> list:
    return [row for row, _, _ in read_file(file)]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz"])
def test_a_line_that_is_too_long_is_passed_over_in_data_and_named_in_what_is_judged(tmp_path, kind):
    file = write(tmp_path, kind, {"id": "a"}, {"id": "x" * TOO_LONG}, {"id": "b"})
    first, long, last = rows_of(file)
    assert (first, last) == ({"id": "a"}, {"id": "b"})
    assert isinstance(long, Unreadable)
    assert long.reason == "longer than 10,000,000 characters" and long.place.endswith("line 2")
    with pytest.raises(SourceError, match=r"line 2 is longer than 10,000,000 characters"):
        list(read_json_lines(file, Form, "ids"))


def test_a_line_that_does_not_end_is_never_in_memory(tmp_path):
    file = tmp_path / "rows.jsonl.gz"
    file.write_bytes(gzip.compress(b"[" * (64 * MIB)))
    tracemalloc.start()
    try:
        assert isinstance(rows_of(file)[0], Unreadable)
        assert tracemalloc.get_traced_memory()[1] < 48 * MIB
    finally:
        tracemalloc.stop()


def test_a_row_of_a_json_array_is_made_when_it_is_asked_for(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text('\ufeff [ {"a": 1} ,\n{"a": "],"}, oops]\n', encoding="utf-8")
    rows = read_file(file)
    assert [next(rows).row, next(rows).row] == [{"a": 1}, {"a": "],"}]
    with pytest.raises(SourceError, match="is not JSON"):
        next(rows)
