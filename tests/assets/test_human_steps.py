"""Solutions whose first error people have marked, through the DAG: two sources, and rollouts of a sample."""

import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from small_run import SHARED_DATA, run_all

from cpmi_dagster.contracts.keys import FIGURES
from cpmi_dagster.definitions import build_definitions, home_of
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.asset_keys import asset_key
from cpmi_dagster.resources.dag.automation import REPORT
from cpmi_dagster.resources.lake.lake import Lake, partitions_of
from cpmi_dagster.resources.sources.data_sources import DataSources

REFERENCES = [{"question": f"{number} + 3?", "answer": number + 3} for number in range(18)]
PROFILE = {
    "extends": "human-steps",
    "profile": "own",
    "sources": {"references": [{"source": "sums", "path": "./references.jsonl"}]},
    "models": {role: {"name": "miniature:labeler", "dtype": "float32"} for role in ("labeler", "policy", "backbone")},
    "rollouts": {"sample": 3, "policy_count": 2, "sampling": {"max_new_tokens": 16}},
    "benchmarks": {"bootstrap_samples": 20},
}


def solution(number: int, label: int) -> dict:
    steps = [f"{number} + 3 = {number + 3}.", "That is all.", f"The answer is: {number + 3}"]
    return {"id": f"sums-{number}", "problem": f"{number} + 3?", "steps": steps, "label": label}


def write(path: Path, rows: list[dict]) -> dict:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {"path": f"./{path.name}"}


@pytest.fixture
def settings(tmp_path) -> Settings:
    write(tmp_path / "references.jsonl", REFERENCES)
    labels = [1, -1, 0, 2, 0, -1] * 3  # 27 judged steps are right and 12 wrong: enough to measure against
    solutions = [solution(number, label) for number, label in enumerate(labels)]
    first, second = write(tmp_path / "first.jsonl", solutions[:3]), write(tmp_path / "second.jsonl", solutions[3:])
    sources = {**PROFILE["sources"], "math_shepherd": [first, second], "step_truth": [first, second]}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({**PROFILE, "sources": sources}), encoding="utf-8")
    return load_settings(tmp_path / "own.yaml", tmp_path / "home")


@pytest.mark.slow
def test_labels_are_measured_up_to_the_first_error_and_rollouts_on_their_sample(settings):
    outcome = run_all(settings, only=("sources", "alignment", "selection", "labels"))
    assert not outcome.failures, outcome.failures
    lake = Lake.of(settings)
    trajectories = lake.read("alignment/trajectories").sort("row_number")
    assert trajectories.select("row_number", "source_id", "task", "gold_answer").rows() == [
        (number, f"sums-{number}", "SUMS", str(number + 3)) for number in range(18)
    ]
    assert lake.read("sources/step_truth").filter(row_number=4)["correct"].to_list() == [[False, None, None]]
    rewards = lake.read("labels/step_rewards")
    labelled = dict(rewards.group_by("reward_type").agg(pl.col("trajectory_id").n_unique()).iter_rows())
    assert labelled == dict.fromkeys(settings.rewards.types, 18) | {
        "mc": lake.read("labels/policy_rollouts")["trajectory_id"].n_unique()
    }
    assert labelled["mc"] <= 3
    costs = lake.read("labels/labeling_costs").group_by("method").agg(pl.col("trajectories").sum())
    assert dict(costs.iter_rows()) == {name: labelled[name] for name in settings.rewards.methods}
    job = build_definitions(home_of(settings)).resolve_job_def(REPORT)
    figures = job.get_subset(asset_selection={asset_key(FIGURES)})
    assert figures.execute_in_process(partition_key="label_quality").success
    quality = lake.read(FIGURES, "label_quality").filter(column="Label AUC").rows_by_key("row", named=True)
    assert quality["CPMI"][0]["n"] == 27 + 12
    assert quality["MC"][0]["n"] < quality["CPMI"][0]["n"]
    assert partitions_of("models/process_reward_models", settings) == []


def test_a_single_source_has_the_name_that_homes_know_it_by(settings):
    from cpmi_dagster.assets.sources import math_shepherd

    single = load_settings("miniature", settings.home)
    assert list(math_shepherd.sources(single)) == ["math_shepherd"]
    named = math_shepherd.sources(settings)
    assert [Path(str(source.path)).name for source in named.values()] == ["first.jsonl", "second.jsonl"]
    assert len({str(DataSources(settings).version(source)) for source in named.values()}) == 2


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository")
def test_real_solutions_find_their_gold_answers(tmp_path):
    files = [{"path": str(SHARED_DATA / "processbench" / f"{name}.even.jsonl.gz")} for name in ("gsm8k", "math")]
    sources = {
        "math_shepherd": files,
        "step_truth": files,
        "references": [
            {"source": "gsm8k", "path": str(SHARED_DATA / "gsm8k" / "test.jsonl"), "split": "test"},
            {
                "source": "math",
                "path": str(SHARED_DATA / "math" / "test_without_math500_odd.jsonl.gz"),
                "split": "test",
            },
        ],
    }
    profile = tmp_path / "real.yaml"
    # no model is read before labeling, and that of the profile comes with a package that may not be installed
    models = {role: {"name": "miniature:labeler"} for role in ("labeler", "backbone")}
    own = {"extends": "human-steps", "profile": "real", "sources": sources, "models": models}
    profile.write_text(yaml.safe_dump(own))
    settings = load_settings(profile, tmp_path / "home")
    assert not run_all(settings, only=("sources", "alignment", "selection")).failures
    lake = Lake.of(settings)
    trajectories, rejected = lake.read("alignment/trajectories"), lake.read("alignment/rejected_rows")
    assert trajectories.height + rejected.height == 700
    assert dict(trajectories["task"].value_counts().iter_rows())["GSM8K"] == 200
    assert rejected["stage"].unique().to_list() == ["align"]
    assert rejected.height < 35
    truth = trajectories.join(lake.read("sources/step_truth"), on="row_number")
    assert truth.height == trajectories.height
    assert (truth["steps"].list.len() == truth["correct"].list.len()).all()
