"""`cpmi export`: what a finished home becomes elsewhere, and what is left alone."""

import json
import re
import subprocess
import sys

import polars as pl
import pytest
from datasets import load_dataset
from sklearn.metrics import balanced_accuracy_score

from cpmi_dagster.errors import LakeError, UsageError
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.artifacts import by_artifact
from cpmi_dagster.reports.verdict import judge_label
from cpmi_dagster.resources.commands.export import export
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow
REWARDS, TRUTH = "labels/step_rewards", "sources/step_truth"


def test_datasets_opens_the_folder_with_the_labels_of_the_home_also_when_it_is_written_again(finished, tmp_path):
    first = export(finished, str(tmp_path / "mine"), reward_type="mc")
    before = load_dataset(first.place, split="train", cache_dir=str(tmp_path / "cache"))["rewards"][:]
    done = export(finished, str(tmp_path / "mine"))
    rows = load_dataset(done.place, split="train", cache_dir=str(tmp_path / "cache"))
    ours = Lake.of(finished).read("dataset/cpmi_80k").sort("trajectory_id")
    same = {"prompt": "question", "completions": "steps", "rewards": "rewards", "hard_negatives": "hard_negatives"}
    for theirs, column in same.items():
        assert rows[theirs][:] == ours[column].to_list()
    assert rows["labels"][:] == [[reward >= 0 for reward in rewards] for rewards in ours["rewards"].to_list()]
    assert rows["rewards"][:] != before
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["mine"]
    card = (tmp_path / "mine" / "README.md").read_text()
    assert f"| trajectories | {ours.height}, of " in card and "miniature:math" in card


@pytest.mark.parametrize(
    ("reward_type", "row", "left_out"),
    [
        ("cpmi", "sampled hard negatives | miniature:labeler@", "completed solutions"),
        ("mc", "rollouts of a prefix | 2", "labeler |"),
    ],
)
def test_the_card_names_the_models_and_settings_that_made_these_labels(finished, tmp_path, reward_type, row, left_out):
    export(finished, str(tmp_path / "mine"), reward_type=reward_type)
    card = (tmp_path / "mine" / "README.md").read_text()
    assert f"| {row}" in card and f"| {left_out}" not in card


def test_the_card_and_the_screen_say_what_judged_steps_say_of_the_labels(finished, tmp_path):
    done = export(finished, str(tmp_path / "mine"))
    card = (tmp_path / "mine" / "README.md").read_text()
    judged = judge_label(by_artifact(Lake.of(finished).read("reports/figures", "labels")), "cpmi").judged
    assert f"| judged solutions | {judged} |" in card and "| train on it? | " in card
    assert "\nTrain on `cpmi`? " in done.what


def test_a_threshold_is_calibrated_on_the_judged_steps_of_the_home(finished, tmp_path):
    done = export(finished, str(tmp_path / "mine"), threshold="calibrated")
    named = pl.format("t{}", pl.col("row_number").cast(pl.String).str.zfill(9))
    truth = Lake.of(finished).read(TRUTH).select("correct", trajectory_id=named)
    rows = pl.read_parquet(tmp_path / "mine" / "data").join(truth, on="trajectory_id")
    steps = rows.explode("labels", "rewards", "correct").drop_nulls("correct")
    accuracy = balanced_accuracy_score(steps["correct"], steps["labels"])
    assert f"the best balanced accuracy, {accuracy:.1%}, on the {steps.height:,} judged steps of this set" in done.what
    assert accuracy >= balanced_accuracy_score(steps["correct"], steps["rewards"] >= 0)
    assert done.what.splitlines()[0] in (tmp_path / "mine" / "README.md").read_text()


def test_exporting_changes_nothing_in_the_home_and_rewards_made_after_the_soft_labels_are_refused(own_copy, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in own_copy.home.rglob("*")}
    export(own_copy, str(tmp_path / "mine"))
    assert {path: path.stat().st_mtime_ns for path in own_copy.home.rglob("*")} == before
    lake = Lake.of(own_copy)
    record = lake.record(REWARDS, "001")
    assert record
    lake.write(lake.read(REWARDS, "001").with_columns(reward=pl.lit(0.5)), record)
    with pytest.raises(
        LakeError, match=r"soft_labels was not made from .* of now; run `cpmi run -p .*small.yaml` first"
    ):
        export(own_copy, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_reward_model_of_the_home_has_its_figures_on_the_card_and_judges_alike_with_transformers(finished, tmp_path):
    done = export(finished, str(tmp_path / "prm"), recipe="cpmi_bce")
    assert done.what == "reward model `cpmi_bce` as Qwen3Model"
    card = (tmp_path / "prm" / "README.md").read_text()
    before = (finished.home / "models" / "cpmi_bce" / "README.md").read_text()
    figures = [line for line in before.splitlines() if "(chance " in line]
    assert figures and all(line in card for line in figures) and "base_model" not in card
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    assert code
    ours = load_reward_model(finished.home / "models" / "cpmi_bce")
    row = {"id": ["a"], "question": ["What is 2 + 3 * 4?"], "steps": [["3 * 4 = 12", "2 + 12 = 14"]]}
    expected = score_steps(ours, pl.DataFrame(row), 1024)["probability"].to_list()
    command = [sys.executable, "-c", f"import sys; sys.modules['cpmi_dagster'] = None\n{code[1]}"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed.splitlines()[-1]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("to", "options", "message"),
    [
        ("x", {"threshold": "quantile:2"}, "--threshold quantile:2: give a number"),
        ("hf://datasets/me/mine", {}, "needs a token of the hub in the environment variable HF_TOKEN"),
        ("x", {}, "run `cpmi run -p .*small.yaml` first"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_writes_nothing(
    small_profile, tmp_path, monkeypatch, to, options, message
):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, LakeError), match=message):
        export(load_settings(small_profile, tmp_path / "home"), to, **options)
    assert not list(tmp_path.iterdir())


def test_the_hub_gets_the_whole_folder_in_a_private_repository(finished, monkeypatch):
    sent = {}

    class Hub:
        def __init__(self, token):
            sent["token"] = token

        def repo_exists(self, repo_id, **options):
            return "created" in sent

        def list_repo_files(self, repo_id, **options):
            return sent["files"]

        def create_repo(self, repo_id, **options):
            sent["created"] = (repo_id, options["repo_type"], options["private"])

        def upload_folder(self, repo_id, folder_path, **options):
            sent["files"] = sorted(path.relative_to(folder_path).as_posix() for path in folder_path.rglob("*.*"))

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    done = export(finished, "hf://datasets/me/mine")
    assert sent["token"] == "hf_of_a_test" and sent["created"] == ("me/mine", "dataset", True)
    assert sent["files"] == [".cpmi-export.json", "README.md", "data/train-00000-of-00001.parquet"]
    assert (done.place, done.opened) == ("hf://datasets/me/mine", "datasets.load_dataset('me/mine')")
    sent["files"] = ["model.safetensors"]
    with pytest.raises(UsageError, match=r"contains `model\.safetensors`, which no export has written"):
        export(finished, "hf://datasets/me/mine")
