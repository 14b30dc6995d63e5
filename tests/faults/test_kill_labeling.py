"""A run that is killed at work resumes; `kill_labeling.py` does it with any number of kills, at any moment."""

import shutil

import pytest
from kill_labeling import label_and_kill


@pytest.mark.slow
def test_a_killed_run_resumes_and_ends_with_the_tables_of_an_undisturbed_one(own_copy, finished_home, small_profile):
    shutil.rmtree(own_copy.home / "lake" / "labels")
    label_and_kill(small_profile, own_copy.home, finished_home, kills=1, seconds=0, seed=0, shards=1)
