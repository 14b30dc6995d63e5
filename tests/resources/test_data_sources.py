"""Reading rows from local files: formats, order, versions, and errors that name the line."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from cpmi_dagster.errors import SourceError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.profiles.sources import DataSource, TrajectorySource
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.sources.hub import HubLock
from cpmi_dagster.trajectories.rows import Unreadable

ROWS = [{"question": "1 + 1?", "answer": "#### 2"}, {"question": "Wie heißt sie?", "answer": "#### ñ"}]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
CSV = "\ufeffquestion,answer\r\n" + "".join(f'"{row["question"]}",{row["answer"]}\r\n' for row in ROWS)


@pytest.fixture
def sources(tmp_path) -> DataSources:
    return DataSources(load_settings("miniature", home=tmp_path / "home"))


@pytest.fixture
def read(tmp_path, sources):
    """The rows of a file with this content as a stream, with the reason in the place of an unreadable one."""

    def rows(name: str, content: bytes | str) -> list:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        stream = sources.stream(DataSource(path=str(tmp_path / name)))
        return [row.reason if isinstance(row, Unreadable) else row for row, _ in stream]

    return rows


def as_stream(path: Path, rows: list[dict]) -> None:
    """As `datasets` writes it."""
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def as_saved(path: Path) -> None:
    Dataset.from_list(ROWS).save_to_disk(path, num_shards=2)
    as_stream(path / "cache-1.arrow", [{"a": "what `map` leaves there"}])


WRITERS = {
    "jsonl": lambda path: path.write_text(LINES, encoding="utf-8"),
    "jsonl.gz": lambda path: path.write_bytes(gzip.compress(LINES.encode())),
    "json": lambda path: path.write_text(json.dumps(ROWS), encoding="utf-8"),
    "csv": lambda path: path.write_bytes(CSV.encode()),
    "csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode())),
    "parquet": lambda path: pl.DataFrame(ROWS).write_parquet(path),
    "arrow": lambda path: pl.DataFrame(ROWS).write_ipc(path, compression="zstd"),
    "stream.arrow": lambda path: as_stream(path, ROWS),
    "saved": as_saved,
    "splits": lambda path: DatasetDict({"train": Dataset.from_list(ROWS)}).save_to_disk(path),
}


def write(folder: Path, kind: str) -> DataSource:
    WRITERS[kind](folder / f"rows.{kind}")
    return DataSource(path=str(folder / f"rows.{kind}"))


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_gives_the_same_rows(tmp_path, sources, kind):
    source = write(tmp_path, kind)
    assert sources.rows(source).to_dicts() == ROWS
    assert sources.rows(source.model_copy(update={"limit": 1})).to_dicts() == ROWS[:1]


def test_a_folder_is_its_files_in_the_order_of_their_names(tmp_path, sources):
    for name, row in zip(("b", "a"), ROWS, strict=True):
        (tmp_path / f"{name}.jsonl").write_text("\ufeff" + json.dumps(row) + "\n", encoding="utf-8")
    (tmp_path / "folder.jsonl").mkdir()
    assert sources.rows(DataSource(path=str(tmp_path))).to_dicts() == ROWS[::-1]


def test_cells_of_csv_are_texts_and_broken_rows_are_named_and_passed_over(read):
    lines = [b"a;b", b"007;NA", b'"x', b'y";', b"1;2;3", b"", b'"c"d;e', b"\xff;1", b"2;"]
    assert read("rows.csv", b"\n".join(lines)) == [
        {"a": "007", "b": "NA"}, {"a": "x\ny", "b": None}, "3 cells under 2 columns",
        "not CSV (';' expected after '\"')", "not UTF-8; save the file as UTF-8", {"a": "2", "b": None},
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_row_with_a_field_twice_is_rejected_and_the_next_ones_are_read(read, name):
    rows = ['{"a": 1, "a": 2}', '{"b": [{"c": 1, "d": 2, "c": 1}]}', '{"a": 3}']
    text = "\n".join(rows) if name.endswith("jsonl") else f"[{', '.join(rows)}]"
    assert read(name, text) == ["the field `a` occurs twice", "the field `c` occurs twice", {"a": 3}]


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_a_table_with_a_column_twice_is_refused_by_its_name(tmp_path, sources, kind):
    path, table = (
        tmp_path / f"rows.{kind}",
        pa.Table.from_arrays([["2?"], ["3?"], ["2"]], ["question", "question", "a"]),
    )
    if kind == "csv":
        path.write_text("question,question,a\n2?,3?,2\n")
    elif kind == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(SourceError, match="has the column `question` twice; rename or remove one"):
        sources.rows(DataSource(path=str(path)))


def test_a_stream_goes_on_after_a_broken_line(read):
    rows = read("rows.jsonl", b'{"a": 1}\r\n{broken\n\n[]\n{"a": "\xff"}\n{"a": "\xe2\x80\xa8"}\n')
    assert rows[1].startswith("not JSON (")
    assert [rows[0], *rows[2:]] == [
        {"a": 1}, "not a JSON object; a file that is one JSON list is named .json",
        "not UTF-8; save the file as UTF-8", {"a": "\u2028"},
    ]  # fmt: skip


def test_the_version_changes_with_the_content_and_the_names_of_fields_and_only_then(tmp_path, sources):
    source = write(tmp_path, "jsonl")
    before = sources.version(source)
    Path(source.path).touch()
    same, mapped = (TrajectorySource(path=source.path, fields=fields) for fields in ({}, {"gold_answer": "answer"}))
    assert sources.version(source) == sources.version(same) == before != sources.version(mapped)
    assert next(sources.stream(mapped))[0] == {"question": "1 + 1?", "gold_answer": "#### 2"}
    Path(source.path).write_text(LINES + LINES, encoding="utf-8")
    assert sources.version(source) != before


def test_records_keep_the_values_that_a_column_would_change(read):
    values = [7, 2.5, True, "x"]
    rows = read("rows.jsonl", "\n".join(json.dumps({"answer": value}) for value in values))
    assert [(type(row["answer"]), row["answer"]) for row in rows] == [(type(value), value) for value in values]


BROKEN = {
    "rows.jsonl": (LINES + "{broken\n", r"rows\.jsonl, line 3: not JSON"),
    "rows.parquet": (b"\x1f\x8b no such thing", r"rows\.parquet is not a Parquet file"),
    "rows.jsonl.gz": (gzip.compress(LINES.encode() * 100)[:-20], r"rows\.jsonl\.gz is damaged .*; fetch it again"),
    "nowhere.jsonl": (None, r"there is no data at .*nowhere\.jsonl; give a file or folder"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_named(tmp_path, sources, name):
    content, message = BROKEN[name]
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SourceError, match=message):
        sources.rows(DataSource(path=str(tmp_path / name)))


def test_a_hub_data_set_is_read_with_its_own_library(tmp_path, sources, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    (tmp_path / "data_set").mkdir()
    (tmp_path / "data_set" / "train.jsonl").write_text(LINES, encoding="utf-8")
    source = DataSource(hub=str(tmp_path / "data_set"), revision="main", split="train")
    assert list(sources.stream(source)) == [(ROWS[0], 0.5), (ROWS[1], 1.0)]
    assert sources.rows(source.model_copy(update={"limit": 1})).to_dicts() == ROWS[:1]


@pytest.fixture
def hub(monkeypatch):
    """A hub that gives another commit each time it is asked."""
    commits = (f"commit{number}" for number in range(1, 9))
    api = SimpleNamespace(model_info=lambda name: SimpleNamespace(sha=next(commits)))
    api.dataset_info = api.model_info
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: api)
    return api


def test_a_revision_is_resolved_once_for_each_kind_and_name(tmp_path, hub):
    kinds = ("model", "dataset", "model")
    assert [HubLock(tmp_path).revision(kind, "a/b") for kind in kinds] == ["commit1", "commit2", "commit1"]
    noted = json.loads((tmp_path / "hub.lock.json").read_text())
    assert noted == {"model a/b": "commit1", "dataset a/b": "commit2"}


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_column_of_classes_holds_their_names_in_trajectories_alone(tmp_path, suffix):
    features = Features({"question": Value("string"), "answer": ClassLabel(names=["A", "B", "C", "D"])})
    rows = Dataset.from_dict({"question": ["q"], "answer": [2]}, features=features)
    file = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        rows.to_parquet(file)
    else:
        rows.save_to_disk(tmp_path / "saved")
        (tmp_path / "saved" / "data-00000-of-00001.arrow").rename(file)
    for source, answer in ((TrajectorySource(path=str(file)), "C"), (DataSource(path=str(file)), 2)):
        [(row, _)] = DataSources().stream(source)
        assert row["answer"] == answer
