"""A file is read once a process, unless its state shows that it was changed."""

import os
import time

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
