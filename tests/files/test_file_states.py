"""A file is read once a process, unless its state shows that it was changed."""

import hashlib
import os
import time

import pytest

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files import file_states
from cpmi_dagster.files.file_states import by_state, file_digest

CLOCK_SECONDS = 0.05


@pytest.fixture
def settled(monkeypatch):
    """Every file counts as changed long ago."""
    monkeypatch.setattr(file_states, "SETTLED_NANOSECONDS", -(10**18))


@pytest.fixture
def counted():
    """A function of a file, and the calls that reach it."""
    calls = []

    @by_state
    def size(path):
        calls.append(path.name)
        return path.stat().st_size

    return size, calls


def test_a_file_that_is_unchanged_is_read_once(tmp_path, settled, counted):
    (tmp_path / "a").write_text("123")
    size, calls = counted
    assert [size(tmp_path / "a"), size(tmp_path / "a")] == [3, 3]
    assert calls == ["a"]


def test_a_file_that_was_just_written_is_read_again(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(file_states, "SETTLED_NANOSECONDS", 10**18)
    (tmp_path / "a").write_text("123")
    size, calls = counted
    assert [size(tmp_path / "a"), size(tmp_path / "a")] == [3, 3]
    assert calls == ["a", "a"]


def test_a_file_of_before_the_clock_was_set_back_is_read_once(tmp_path, counted, monkeypatch):
    (tmp_path / "a").write_text("123")
    monkeypatch.setattr(time, "time_ns", lambda: (tmp_path / "a").stat().st_ctime_ns - 86_400 * 10**9)
    size, calls = counted
    assert [size(tmp_path / "a"), size(tmp_path / "a")] == [3, 3]
    assert calls == ["a"]


def test_a_change_is_seen_also_where_size_and_time_are_set_back(tmp_path, settled):
    path = tmp_path / "a"
    path.write_text("123")
    before, times = file_digest(path), path.stat()
    time.sleep(CLOCK_SECONDS)
    path.write_text("124")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file_digest(path) != before


def test_a_file_that_grows_while_it_is_hashed_is_refused(tmp_path, monkeypatch):
    path, digest = tmp_path / "rows.jsonl", hashlib.file_digest
    path.write_text("123")

    def digest_and_grow(stream, name):
        found = digest(stream, name)
        path.write_text("1234")
        return found

    monkeypatch.setattr(hashlib, "file_digest", digest_and_grow)
    with pytest.raises(SourceError, match=r"rows\.jsonl changed while it was read; run again"):
        file_digest(path)
