"""The time left is right from the second part on, though the first one had to load a model."""

import pytest

from cpmi_dagster.files import time_left
from cpmi_dagster.files.time_left import TimeLeft


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time_left.time, "monotonic", lambda: now[0])
    return now


def test_the_first_part_counts_only_until_there_is_a_second(clock):
    work = TimeLeft(100)
    clock[0] = 60  # of which 50 load a model
    work.advance(10)
    assert (work.left(), work.words) == (540, "10 of 100")
    clock[0] = 70
    work.advance(10)
    assert work.left() == 80
    assert work.words == "20 of 100, about 80 s left"


def test_what_an_earlier_run_finished_does_not_count_as_speed(clock):
    work = TimeLeft(100)
    work.advance(50)
    clock[0] = 10
    work.advance(10)
    assert (work.left(), work.words) == (40, "60 of 100")
    clock[0] = 15
    work.advance(10)
    assert work.words == "70 of 100, about 15 s left"


def test_before_anything_is_finished_there_is_a_number_all_the_same(clock):
    work = TimeLeft(4)
    clock[0] = 3
    work.advance(0)
    assert work.left() == 12
