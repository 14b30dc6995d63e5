"""A file is there whole or not at all."""

import errno
from pathlib import Path

import pytest

from cpmi_dagster.errors import StorageError
from cpmi_dagster.files.whole_files import remove_unfinished, whole_file, write_whole


def test_a_written_file_is_all_that_is_left(tmp_path):
    write_whole(tmp_path / "new" / "page.html", "text\n")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]
    assert (tmp_path / "new" / "page.html").read_bytes() == b"text\n"


def test_a_failed_write_leaves_the_older_file_as_it_was(tmp_path):
    path = tmp_path / "page.html"
    write_whole(path, "old")
    with pytest.raises(RuntimeError), whole_file(path) as unfinished:
        unfinished.write_text("half of the n")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_is_named_and_the_older_file_stays(tmp_path, full_disk):
    path = tmp_path / "page.html"
    write_whole(path, "old")
    with full_disk(1_000), pytest.raises(StorageError, match=r"page\.html cannot be written .*make room on its disk"):
        write_whole(path, "x" * 5_000)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StorageError, match=r"\(Permission denied\); make its folder writable"):
        write_whole(tmp_path / "new" / "page.html", "text")


def test_writers_that_share_a_process_id_do_not_share_a_file(tmp_path):
    path = tmp_path / "page.html"
    with whole_file(path) as one, whole_file(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"


def test_what_a_killed_writer_left_of_a_file_can_be_removed(tmp_path):
    names = [".page.html.5f0c1f2a.tmp", ".page.html.4711.tmp", ".page.html.5f0c1f2a.tmp.wal", ".other.html.4711.tmp"]
    for name in (*names, "page.html"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path / "page.html")
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", ".other.html.4711.tmp"}
