"""A file is there whole or not at all."""

import pytest

from cpmi_dagster.files.whole_files import whole_file, write_whole


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
