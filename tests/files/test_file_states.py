"""A file is read once a process, unless its state shows that it was changed."""

import hashlib
import os
import time

import pytest

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files import file_states
from cpmi_dagster.files.file_states import by_state, file_digest

CLOCK_SECONDS = 0.05


@pytest.mark.parametrize(
    ("settled_after", "clock_set_back", "calls"),
    [(-(10**18), False, 1), (10**18, False, 2), (file_states.SETTLED_NANOSECONDS, True, 1)],
    ids=["changed long ago", "just written", "of before the clock was set back"],
)
def test_a_file_is_read_once_unless_it_was_just_written(tmp_path, monkeypatch, settled_after, clock_set_back, calls):
    path, read = tmp_path / "a", []
    path.write_text("123")
    monkeypatch.setattr(file_states, "SETTLED_NANOSECONDS", settled_after)
    if clock_set_back:
        monkeypatch.setattr(time, "time_ns", lambda: path.stat().st_ctime_ns - 86_400 * 10**9)
    size = by_state(lambda path: read.append(path) or path.stat().st_size)
    assert [size(path), size(path)] == [3, 3]
    assert len(read) == calls


def test_a_change_is_seen_also_where_size_and_time_are_set_back(tmp_path, monkeypatch):
    monkeypatch.setattr(file_states, "SETTLED_NANOSECONDS", -(10**18))
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
