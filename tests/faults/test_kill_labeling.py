"""Kills at random moments lose, double and leave nothing; `kill_labeling.py` does it with any number of them."""

import shutil

import pytest
from kill_labeling import answer_files, compare, label_and_kill, leftovers

from cpmi_dagster.files.whole_files import UNFINISHED

KILLS, SECONDS, SHARDS = 2, 8.0, 2


@pytest.mark.slow
def test_killed_runs_end_with_the_labels_of_an_undisturbed_one(own_copy, finished_home, small_profile):
    shutil.rmtree(own_copy.home / "lake" / "labels")
    label_and_kill(small_profile, own_copy.home, finished_home, KILLS, SECONDS, seed=1, shards=SHARDS)


@pytest.mark.slow
def test_the_comparison_sees_other_rows_and_what_is_left_over(own_copy, finished_home):
    compare(own_copy.home, finished_home)
    answers = next(answer_files(own_copy.home / "lake" / "labels"))
    left = answers.with_name(f".{answers.name}.5f0c1f2a{UNFINISHED}")
    left.touch()
    with pytest.raises(AssertionError, match=r"left over: .*5f0c1f2a"):
        compare(own_copy.home, finished_home)
    left.unlink()
    again = answers.with_name("again.parquet")
    shutil.copy(answers, again)
    with pytest.raises(AssertionError, match="a model was asked twice"):
        compare(own_copy.home, finished_home)
    again.unlink()
    rewards = own_copy.home / "lake" / "labels" / "step_rewards"
    shutil.rmtree(rewards)
    with pytest.raises(AssertionError, match="labels/step_rewards has other shards"):
        compare(own_copy.home, finished_home)
    assert not list(leftovers(finished_home))
