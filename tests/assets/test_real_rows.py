"""The same DAG on real rows: Math-Shepherd's first 100, GSM8K and MATH, with the miniature model as labeler."""

import polars as pl
import pytest
import yaml
from small_run import SHARED_DATA, run_all

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"the real data sets are not at {SHARED_DATA}"),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Lake:
    folder = tmp_path_factory.mktemp("real")
    profile = {
        "extends": "files",
        "sources": {
            "math_shepherd": {"path": str(SHARED_DATA / "math_shepherd" / "first100_raw_reconstructed.jsonl")},
            "references": [
                {"source": "gsm8k", "path": str(SHARED_DATA / "gsm8k" / "train.jsonl.gz"), "split": "train"},
                {"source": "math", "path": str(SHARED_DATA / "math" / "train.jsonl.gz"), "split": "train"},
            ],
        },
        "scoring": {"templates": 2},
        "rollouts": {"policy_count": 1, "prover_count": 1, "sampling": {"max_new_tokens": 24}},
    }
    path = folder / "real.yaml"
    path.write_text(yaml.safe_dump(profile), encoding="utf-8")
    settings = load_settings(path, folder / "home")
    outcome = run_all(settings, only=("sources", "alignment", "selection", "labels"))
    assert not outcome.failures, outcome.failures
    return Lake.of(settings)


def test_all_100_rows_align_and_nothing_is_lost(lake):
    assert lake.read("sources/math_shepherd").height == 100
    assert lake.read("alignment/trajectories").height == 100
    assert lake.read("alignment/rejected_rows").is_empty()
    assert lake.read("selection/selected_trajectories").height == 100


def test_both_reference_sets_are_read_whole(lake):
    counts = lake.read("sources/reference_problems").group_by("source").len().sort("source")
    assert counts.rows() == [("gsm8k", 7473), ("math", 7500)]


def test_every_step_of_every_row_has_finite_labels(lake):
    rewards = lake.read("labels/step_rewards")
    steps = lake.read("alignment/trajectories")["steps"].list.len().sum()
    assert lake.read("labels/rejected_trajectories").is_empty()
    assert rewards["reward"].is_finite().all()
    assert set(rewards.group_by("reward_type").len()["len"]) == {steps}


def test_every_trajectory_has_four_negatives_that_are_not_the_gold_answer(lake):
    negatives = lake.read("labels/hard_negatives").join(lake.read("alignment/trajectories"), on="trajectory_id")
    assert set(negatives.group_by("trajectory_id").len()["len"]) == {4}
    assert negatives.filter(pl.col("answer") == pl.col("gold_answer")).is_empty()
