"""The time left is right from the second part on, though the first one had to load a model."""

import pytest

from cpmi_dagster.files import time_left
from cpmi_dagster.files.time_left import TimeLeft


@pytest.mark.parametrize(
    ("found", "parts", "left", "words"),
    [
        (0, [(60, 10)], 540, "10 of 100"),
        (0, [(60, 10), (70, 10)], 80, "20 of 100, about 80 s left"),
        (50, [(10, 10)], 40, "60 of 100"),
        (50, [(10, 10), (15, 10)], 15, "70 of 100, about 15 s left"),
    ],
    ids=["one part", "two parts", "half of an earlier run", "half of an earlier run, and two parts"],
)
def test_the_first_part_counts_only_until_there_is_a_second(monkeypatch, found, parts, left, words):
    now = [0.0]
    monkeypatch.setattr(time_left.time, "monotonic", lambda: now[0])
    work = TimeLeft(100)
    work.advance(found)
    for second, count in parts:
        now[0] = second
        work.advance(count)
    assert (work.left(), work.words) == (left, words)
