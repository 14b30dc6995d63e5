"""A file is read once a process, unless its state shows that it was changed."""

import hashlib
import os
import time

import pytest

from cpmi_dagster.errors import SourceError
from cpmi_dagster.files import file_states
from cpmi_dagster.files.file_states import file_digest

CLOCK_SECONDS = 0.05


def test_a_change_is_seen_also_if_size_and_time_are_set_back(tmp_path, monkeypatch):
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
    monkeypatch.setattr(hashlib, "file_digest", lambda *given: (digest(*given), path.write_text("1234"))[0])
    with pytest.raises(SourceError, match=r"rows\.jsonl changed while it was read; run again"):
        file_digest(path)
