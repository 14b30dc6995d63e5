"""A file is there whole or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from cpmi_dagster.errors import SourceError, StorageError
from cpmi_dagster.files.whole_files import check_writable, remove_unfinished, replace_folder, whole_file, write_whole


def write_folder(folder: Path, text: str) -> None:
    with replace_folder(folder) as unfinished:
        (unfinished / "text").write_text(text)


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_write_that_fails_leaves_what_was_there_and_one_that_ends_replaces_it(tmp_path, is_folder):
    path = tmp_path / "new" / "mine"
    write, writer = (write_folder, replace_folder) if is_folder else (write_whole, whole_file)
    write(path, "old")
    with pytest.raises(RuntimeError), writer(path) as unfinished:
        (unfinished / "text" if is_folder else unfinished).write_text("half of the n")
        (unfinished.with_name(f"{unfinished.name}.wal")).touch()  # as DuckDB does
        assert (path / "text" if is_folder else path).read_text() == "old"
        raise RuntimeError
    assert (path / "text" if is_folder else path).read_text() == "old"
    write(path, "new\n")
    assert (path / "text" if is_folder else path).read_bytes() == b"new\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_disk_that_is_full_is_named_and_the_older_file_stays(tmp_path, full_disk):
    path = tmp_path / "page.html"
    write_whole(path, "old")
    with full_disk(1_000), pytest.raises(StorageError, match=r"page\.html cannot be written .*make room on its disk"):
        write_whole(path, "x" * 5_000)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


WRITER = """
import sys
from pathlib import Path
from cpmi_dagster.files import locks
from cpmi_dagster.files.whole_files import replace_folder
locks.PATIENCE_SECONDS = 600  # until a writer says that it waits
for _ in range(50):
    with replace_folder(Path(sys.argv[1])) as unfinished:
        assert not list(unfinished.iterdir())
        (unfinished / "text").write_text(sys.argv[2])
        (unfinished / "again").write_text(sys.argv[2])
"""


def test_writers_of_one_folder_wait_for_each_other(tmp_path):
    folder = tmp_path / "model"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder), name], stderr=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    assert [writer.communicate()[1] for writer in writers] == ["", ""]
    assert (folder / "text").read_text() == (folder / "again").read_text()
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_a_killed_writer_had_just_renamed_gets_its_name_back(tmp_path):
    folder, killed = tmp_path / "model", tmp_path / ".model.5f0c1f2a.cpmi-tmp"
    write_folder(killed / "old", "old")
    (killed / "new").mkdir()
    with pytest.raises(RuntimeError), replace_folder(folder):
        assert (folder / "text").read_text() == "old"
        raise RuntimeError
    assert list(tmp_path.iterdir()) == [folder]


def test_what_a_killed_writer_left_is_removed_and_nothing_of_the_users(tmp_path):
    kept = {"page.html", ".page.html.lock", ".page.html.old.tmp", ".page.html.partial", ".page.html.5f0c1f2a"}
    kept |= {".other.html.5f0c1f2a.cpmi-tmp", ".page.html.v2.5f0c1f2a.cpmi-tmp"}
    for name in (*kept, ".page.html.5f0c1f2a.cpmi-tmp", ".page.html.5f0c1f2a.cpmi-tmp.wal"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path / "page.html")
    assert {path.name for path in tmp_path.iterdir()} == kept


@pytest.mark.parametrize(
    ("name", "message"),
    [("nosuch/out.jsonl", "there is no folder .*nosuch"), ("out.gz", "not be compressed"), ("", "is a folder")],
)
def test_an_output_that_could_not_be_written_as_named_is_refused_before_the_work(tmp_path, name, message):
    with pytest.raises(SourceError, match=message):
        check_writable(tmp_path / "out.jsonl", tmp_path / name)
    assert not list(tmp_path.iterdir())
