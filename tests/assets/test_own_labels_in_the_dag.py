"""The user's own labels from their file to the soft labels, in a run of a few trajectories."""

import json
from pathlib import Path

import pytest
import yaml
from small_run import SMALL, run_all, write_profile

from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.checks import own_labels_fit_the_selection
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.trajectories.math_shepherd import MARKER

TINY = {
    **SMALL,
    "shards": 1,
    "selection": {"trajectories": 4},
    "negatives": {"samples": 0},
    "scoring": {"templates": 1, "conditionings": ["marginal"]},
    "rewards": {"types": ["mc", "cpmi", "math_shepherd"]},
    "rollouts": {"policy_count": 2, "prover_count": 1, "sampling": {"max_new_tokens": 64}},
    "recipes": [{"name": "judge_bce", "reward_type": "judge"}],
}
STAGES = (
    "sources/math_shepherd",
    "sources/step_labels",
    "sources/step_truth",
    "sources/reference_problems",
    "alignment",
    "selection",
    "labels",
    "dataset/soft_labels",
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A profile whose judge doubts every step of the source a little more than the one before it."""
    profile = Path(write_profile(tmp_path / "tiny.yaml", TINY))
    values = yaml.safe_load(profile.read_text())
    values["sources"]["step_labels"] = {"judge": {"path": "./labels.jsonl", "probabilities": True}}
    profile.write_text(yaml.safe_dump(values))
    settings = load_settings(profile, tmp_path / "home")
    inputs = DataSources(settings).rows(settings.sources.trajectories[0])["input"]
    rows = [
        {"row_number": number, "rewards": [1 / (2 + step) for step in range(text.count(MARKER))]}
        for number, text in enumerate(inputs)
        if MARKER in text
    ]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return settings


@pytest.mark.slow
def test_own_labels_are_checked_before_models_run_and_become_soft_labels(settings: Settings):
    lake, file = Lake.of(settings), Path(str(settings.sources.step_labels["judge"].path))
    everything = file.read_text(encoding="utf-8")
    file.write_text(everything.splitlines()[0], encoding="utf-8")
    failures = run_all(settings, only=STAGES).failures
    assert any("step labels `judge` lack" in failure for failure in failures), failures
    assert not lake.exists("labels/hard_negatives")
    file.write_text(everything, encoding="utf-8")
    assert not run_all(settings, only=STAGES).failures
    soft = lake.read("dataset/soft_labels").filter(reward_type="judge").sort("trajectory_id", "step_index")
    assert soft["trajectory_id"].n_unique() == 4
    assert soft["soft_label"].to_list() == [1 / (2 + step) for step in soft["step_index"]]
    assert sorted(lake.read("labels/labeling_costs")["method"]) == ["cpmi", "mc"]
    others = lake.read("sources/step_labels")["trajectory_id"].n_unique() - 4
    assert own_labels_fit_the_selection(lake, settings).description == (
        f"`judge` also labels {others} trajectories that are unknown or not selected; they are left out"
    )
