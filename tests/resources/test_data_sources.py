"""Reading rows from local files: formats, order, versions, and errors that name the line."""

import gzip
import json

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files.bounded_reading import LINE_CHARACTERS
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.profiles.sources import DataSource, TrajectorySource
from cpmi_dagster.resources.sources.data_files import read_file
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.trajectories.rows import Unreadable

ROWS = [{"question": "1 + 1?", "answer": "#### 2"}, {"question": "Wie heißt sie?", "answer": "#### ñ"}]
FORMATS = [
    "jsonl", "jsonl.gz", "json", "parquet", "csv", "csv.gz", "arrow", "stream.arrow", "saved", "splits",
]  # fmt: skip
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


@pytest.fixture
def sources(tmp_path) -> DataSources:
    return DataSources(load_settings("miniature", home=tmp_path / "home"))


def as_stream(path, rows) -> None:
    """As `datasets` writes it."""
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def write(path, kind: str):
    if kind == "jsonl":
        path.write_text(LINES, encoding="utf-8")
    elif kind == "jsonl.gz":
        path.write_bytes(gzip.compress(LINES.encode()))
    elif kind == "json":
        path.write_text(json.dumps(ROWS), encoding="utf-8")
    elif kind.startswith("csv"):
        text = "\ufeffquestion,answer\r\n" + "".join(f'"{row["question"]}",{row["answer"]}\r\n' for row in ROWS)
        path.write_bytes(gzip.compress(text.encode()) if kind == "csv.gz" else text.encode())
    elif kind == "arrow":
        pl.DataFrame(ROWS).write_ipc(path, compression="zstd")
    elif kind == "stream.arrow":
        as_stream(path, ROWS)
    elif kind == "saved":
        Dataset.from_list(ROWS).save_to_disk(path, num_shards=2)
        as_stream(path / "cache-1.arrow", [{"a": "what `map` leaves there"}])
    elif kind == "splits":
        DatasetDict({"train": Dataset.from_list(ROWS)}).save_to_disk(path)
    else:
        pl.DataFrame(ROWS).write_parquet(path)
    return DataSource(path=str(path))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_rows(tmp_path, sources, kind):
    assert sources.rows(write(tmp_path / f"rows.{kind}", kind)).to_dicts() == ROWS


def test_a_folder_is_its_files_in_the_order_of_their_names(tmp_path, sources):
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, row in zip(("b", "a"), ROWS, strict=True):
        (folder / f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert sources.rows(DataSource(path=str(folder))).to_dicts() == ROWS[::-1]


def test_a_saved_data_set_of_several_splits_names_their_folders(tmp_path, sources):
    one = Dataset.from_list(ROWS)
    DatasetDict({"train": one, "test": one}).save_to_disk(tmp_path / "saved")
    with pytest.raises(SourceError, match=r"has the splits train, test; give one, such as .*saved/train"):
        sources.files(DataSource(path=str(tmp_path / "saved")))
    assert sources.rows(DataSource(path=str(tmp_path / "saved" / "test"))).to_dicts() == ROWS


def test_a_damaged_saved_data_set_is_named(tmp_path, sources):
    (tmp_path / "state.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SourceError, match="is not a data set that `datasets` saved, or is damaged; save it again"):
        sources.files(DataSource(path=str(tmp_path)))


def test_cells_of_csv_are_texts_and_broken_rows_are_named_by_line_and_passed_over(tmp_path, sources):
    lines = ["a;b", "007;NA", '"x', 'y";', "1;2;3", "", '"c"d;e', b"\xff;1", "2;"]
    text = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    (tmp_path / "rows.csv").write_bytes(text)
    rows = [row for row, _ in sources.stream(DataSource(path=str(tmp_path / "rows.csv")))]
    assert [(row.place[-6:], row.reason) if isinstance(row, Unreadable) else row for row in rows] == [
        {"a": "007", "b": "NA"},
        {"a": "x\ny", "b": None},
        ("line 5", "3 cells under 2 columns"),
        ("line 7", "not CSV (';' expected after '\"')"),
        ("line 8", "not UTF-8; save the file as UTF-8"),
        {"a": "2", "b": None},
    ]


def test_a_line_of_csv_that_is_too_long_is_rejected_and_a_long_cell_is_not(tmp_path):
    (tmp_path / "rows.csv").write_text(f"a,b\n1,{'x' * LINE_CHARACTERS}\n2,y\n3,{'z' * 150}\n", encoding="utf-8")
    rows = [row.row for row in read_file(tmp_path / "rows.csv")]
    assert isinstance(rows[0], Unreadable) and "longer than 10,000,000 characters" in rows[0].reason
    assert rows[1:] == [{"a": "2", "b": "y"}, {"a": "3", "b": "z" * 150}]
    (tmp_path / "long.csv").write_text(f"a\n{'x' * 200_000}\n", encoding="utf-8")
    assert [len(row.row["a"]) for row in read_file(tmp_path / "long.csv")] == [200_000]


def test_a_csv_file_with_a_column_twice_is_refused(tmp_path, sources):
    (tmp_path / "rows.csv").write_text("a,b,a\n1,2,3\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"rows\.csv has the column `a` twice; rename one"):
        sources.rows(DataSource(path=str(tmp_path / "rows.csv")))


def test_trajectories_come_by_the_names_of_the_profile_and_only_then_the_version_has_them(tmp_path, sources):
    plain = write(tmp_path / "rows.jsonl", "jsonl")
    same, mapped = (TrajectorySource(path=plain.path, fields=fields) for fields in ({}, {"gold_answer": "answer"}))
    assert sources.version(same) == sources.version(plain) != sources.version(mapped)
    assert next(sources.stream(mapped))[0] == {"question": "1 + 1?", "gold_answer": "#### 2"}


def test_limit_takes_the_first_rows(tmp_path, sources):
    source = write(tmp_path / "rows.jsonl", "jsonl").model_copy(update={"limit": 1})
    assert sources.rows(source).to_dicts() == ROWS[:1]


def test_several_sources_are_read_one_after_the_other_and_their_shares_add_up(tmp_path, sources):
    several = [write(tmp_path / f"rows.{kind}", kind) for kind in ("jsonl", "json")]
    rows, shares = zip(*sources.stream_all(several), strict=True)
    assert list(rows) == [*ROWS, *ROWS]
    assert list(shares) == sorted(shares) and shares[-1] == 1.0
    assert list(sources.stream_all(several[:1])) == list(sources.stream(several[0]))
    assert list(sources.stream_all([])) == []


def test_the_version_changes_with_the_content_and_only_then(tmp_path, sources):
    source = write(tmp_path / "rows.jsonl", "jsonl")
    before = sources.version(source)
    (tmp_path / "rows.jsonl").touch()
    assert sources.version(source) == before
    (tmp_path / "rows.jsonl").write_text(LINES + LINES, encoding="utf-8")
    assert sources.version(source) != before


def test_records_keep_the_values_that_a_column_would_change(tmp_path, sources):
    rows = [{"answer": 7}, {"answer": 2.5}, {"answer": True}, {"answer": "x"}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    read = [row["answer"] for row in sources.records(DataSource(path=str(tmp_path / "rows.jsonl")))]
    assert [(type(value), value) for value in read] == [(int, 7), (float, 2.5), (bool, True), (str, "x")]


def test_a_broken_line_is_named(tmp_path, sources):
    (tmp_path / "rows.jsonl").write_text(LINES + "{broken\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"rows\.jsonl, line 3: not JSON"):
        sources.rows(DataSource(path=str(tmp_path / "rows.jsonl")))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_row_with_a_field_twice_is_rejected_and_the_next_ones_are_read(tmp_path, sources, name):
    rows = ['{"a": 1, "a": 2}', '{"b": [{"c": 1, "d": 2, "c": 1}]}', '{"a": 3}']
    text = "\n".join(rows) if name.endswith("jsonl") else f"[{', '.join(rows)}]"
    (tmp_path / name).write_text(text, encoding="utf-8")
    first, nested, last = (row for row, _ in sources.stream(DataSource(path=str(tmp_path / name))))
    assert (first.text, first.reason) == (rows[0], "the field `a` occurs twice")
    assert nested.reason == "the field `c` occurs twice"
    assert last == {"a": 3}


def test_a_line_that_is_no_object_is_named(tmp_path, sources):
    (tmp_path / "rows.jsonl").write_text("[1]\n", encoding="utf-8")
    with pytest.raises(SourceError, match="line 1: not a JSON object"):
        sources.rows(DataSource(path=str(tmp_path / "rows.jsonl")))


@pytest.mark.parametrize("name", ["rows.json", "rows.parquet", "rows.jsonl.gz", "rows.arrow"])
def test_a_file_that_is_not_what_its_name_says_is_named(tmp_path, sources, name):
    (tmp_path / name).write_bytes(b"\x1f\x8b no such thing")
    with pytest.raises(SourceError, match=rf"{name} is (not JSON|not a Parquet file|not an Arrow file|damaged)"):
        sources.rows(DataSource(path=str(tmp_path / name)))


@pytest.mark.parametrize("name", ["deep.json", "text.parquet"])
def test_what_no_reader_can_take_is_an_error_of_ours(tmp_path, sources, name):
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    latin = pa.array([b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"a": latin}), tmp_path / "text.parquet")
    with pytest.raises(SourceError, match=name):
        sources.rows(DataSource(path=str(tmp_path / name)))


def test_a_folder_may_hold_other_things_too(tmp_path, sources):
    write(tmp_path / "rows.jsonl", "jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert sources.rows(DataSource(path=str(tmp_path))).to_dicts() == ROWS


def test_files_with_byte_order_marks_may_have_been_joined(tmp_path, sources):
    (tmp_path / "rows.jsonl").write_text("".join("\ufeff" + line for line in LINES.splitlines(True)), encoding="utf-8")
    assert sources.rows(DataSource(path=str(tmp_path / "rows.jsonl"))).to_dicts() == ROWS


def test_a_truncated_gzip_file_is_named(tmp_path, sources):
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(LINES.encode() * 100)[:-20])
    with pytest.raises(SourceError, match=r"rows\.jsonl\.gz is damaged .*; fetch it again"):
        sources.rows(DataSource(path=str(tmp_path / "rows.jsonl.gz")))


def test_a_stream_goes_on_after_a_broken_line_and_says_how_far_it_is(tmp_path, sources):
    (tmp_path / "rows.jsonl").write_bytes(b'{"a": 1}\r\n{broken\n\n[]\n{"a": "\xff"}\n{"a": "\xe2\x80\xa8"}\n')
    rows, shares = zip(*sources.stream(DataSource(path=str(tmp_path / "rows.jsonl"))), strict=True)
    assert [row.reason.partition(" (")[0] if isinstance(row, Unreadable) else row for row in rows] == [
        {"a": 1},
        "not JSON",
        "not a JSON object; a file that is one JSON list is named .json",
        "not UTF-8; save the file as UTF-8",
        {"a": "\u2028"},
    ]
    assert shares[-1] == 1.0


def test_a_hub_data_set_is_read_with_its_own_library(tmp_path, sources, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data_set"
    folder.mkdir()
    (folder / "train.jsonl").write_text(LINES, encoding="utf-8")
    source = DataSource(hub=str(folder), revision="main", split="train")
    assert sources.rows(source).to_dicts() == ROWS
    assert [share for _, share in sources.stream(source)] == [0.5, 1.0]
    assert sources.rows(source.model_copy(update={"limit": 1})).to_dicts() == ROWS[:1]


def test_a_missing_file_says_what_to_give(tmp_path, sources):
    with pytest.raises(SourceError, match=r"there is no data at .*nowhere\.jsonl; give a file or folder"):
        sources.rows(DataSource(path=str(tmp_path / "nowhere.jsonl")))


def test_an_unknown_part_of_the_world_lists_those_there_are(sources):
    with pytest.raises(SourceError, match=r"it has folio_validation, .* math_shepherd"):
        sources.rows(DataSource(path="miniature:nothing"))


def test_a_hub_source_is_versioned_by_its_commit(sources):
    source = DataSource(hub="openai/gsm8k", config="main", revision="abc", split="train")
    assert sources.version(source)["revision"] == "abc"


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "json", "parquet"])
def test_a_source_that_changes_while_it_is_read_is_refused(tmp_path, sources, kind):
    path = tmp_path / f"rows.{kind}"
    source = write(path, kind)
    rows = sources.stream(source)
    next(rows)
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").replace(path)
    with pytest.raises(SourceError, match=rf"rows\.{kind} changed while it was read; run again when nothing writes"):
        list(rows)
