"""The time left is that of this process's own work: not of items, of kept answers, or of a model that is loaded."""

from dataclasses import dataclass

import pytest

from cpmi_dagster.files.time_left import TimeLeft
from cpmi_dagster.generation.engine import SamplingWork


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_items_of_equal_size_are_timed_from_the_end_of_the_first_batch(clock):
    work = TimeLeft(24, clock)
    clock.now = 60  # a model was loaded
    work.advance(8)
    assert work.words == "8 of 24"
    clock.now = 68
    work.advance(8)
    assert work.words == "16 of 24, about 8 s left"


def test_items_of_an_earlier_run_do_not_make_this_one_look_fast(clock):
    work = TimeLeft(300, clock)
    work.advance(276, left=2_400)  # characters of the other 24
    clock.now = 30
    work.advance(0, 0, 2_400)  # the model is loaded
    assert work.words == "276 of 300"
    clock.now = 40
    work.advance(0, 100, 2_300)
    assert work.left() == pytest.approx(10 / 100 * 2_300)
    clock.now = 50
    work.advance(8, 300, 2_000)
    assert work.words == "284 of 300, about 100 s left"


def test_long_items_that_are_left_count_by_their_length(clock):
    work = TimeLeft(3, clock)
    work.advance(0, 0, 1_200)
    clock.now = 10
    work.advance(2, 200, 1_000)
    assert work.words == "2 of 3, about 50 s left"


def test_sampling_is_timed_by_what_is_expected_of_each_prompt_and_kept_continuations_are_no_work(clock):
    work = TimeLeft(2, clock)
    sampling = SamplingWork({"short": 10, "long": 90, "kept": 100}, 2, work.advance)
    sampling.ready()
    sampling.finish(["kept"], 1)
    clock.now = 100
    sampling.ready()
    clock.now = 110
    sampling.ended("short")
    sampling.ended("short")
    assert work.words == "1 of 2, about 90 s left"
    sampling.ended("short")  # of another call: known already
    clock.now = 200
    sampling.ended("long")
    sampling.ended("long")
    sampling.finish(["short", "long", "long"], 1)
    assert work.words == "2 of 2, about 0 s left"
