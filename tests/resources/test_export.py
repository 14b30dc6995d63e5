"""`cpmi export`: what a finished home becomes elsewhere, and what is left alone."""

import json
import os
import re
import subprocess
import sys

import polars as pl
import pytest
from datasets import load_dataset
from sklearn.metrics import balanced_accuracy_score
from small_run import run_all
from typer.testing import CliRunner

from cpmi_dagster.cli.commands import app
from cpmi_dagster.errors import LakeError, StorageError, UsageError
from cpmi_dagster.prm import load_reward_model, score_steps
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.export import export
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow


def test_datasets_opens_the_folder_with_the_labels_of_the_home(finished, tmp_path):
    done = export(finished, str(tmp_path / "mine"))
    rows = load_dataset(done.place, split="train", cache_dir=str(tmp_path / "cache"))
    ours = Lake.of(finished).read("dataset/cpmi_80k").sort("trajectory_id")
    for theirs, own in {"prompt": "question", "completions": "steps", "rewards": "rewards"}.items():
        assert rows[theirs][:] == ours[own].to_list()
    assert rows["hard_negatives"][:] == ours["hard_negatives"].to_list()
    assert rows["labels"][:] == [[reward >= 0 for reward in rewards] for rewards in ours["rewards"].to_list()]
    assert done.what.startswith("Hard labels call ")
    card = (tmp_path / "mine" / "README.md").read_text()
    for fact in (f"| trajectories | {ours.height}, of ", "miniature:labeler@", "miniature:math"):
        assert fact in card


@pytest.mark.parametrize(
    ("reward_type", "rows", "left_out"),
    [
        (
            "cpmi",
            ["labeler | miniature:labeler@", "sampled hard negatives | miniature:labeler@"],
            "completed solutions",
        ),
        ("gold_only", ["labeler | miniature:labeler@", "prompt templates | 4"], "sampled hard negatives"),
        ("mc", ["completed solutions | miniature:labeler@", "rollouts of a prefix | 2"], "labeler |"),
        ("position", ["seed | 0"], "miniature:labeler"),
        ("pav", ["completed solutions as the prover | miniature:prover@"], "labeler |"),
    ],
)
def test_the_card_names_the_models_that_made_these_labels(finished, tmp_path, reward_type, rows, left_out):
    threshold = "0.5" if reward_type == "position" else None
    export(finished, str(tmp_path / "mine"), reward_type=reward_type, threshold=threshold)
    card = (tmp_path / "mine" / "README.md").read_text()
    assert all(f"| {row}" in card for row in rows) and f"| {left_out}" not in card


def test_an_export_is_replaced_by_the_next_one(finished, tmp_path):
    for reward_type in ("cpmi", "mc"):
        export(finished, str(tmp_path / "mine"), "math-shepherd", reward_type, "0.3")
    record = json.loads((tmp_path / "mine" / ".cpmi-export.json").read_text())
    assert (record["reward_type"], record["form"], record["threshold"]) == ("mc", "math-shepherd", "0.3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_a_threshold_is_calibrated_on_the_judged_steps_of_the_home(finished, tmp_path):
    done = export(finished, str(tmp_path / "mine"), threshold="calibrated")
    rows = pl.read_parquet(tmp_path / "mine" / "data")
    truth = (
        Lake.of(finished)
        .read("sources/step_truth")
        .select(trajectory_id=pl.format("t{}", pl.col("row_number").cast(pl.String).str.zfill(9)), correct="correct")
    )
    steps = rows.join(truth, on="trajectory_id").explode("labels", "rewards", "correct").drop_nulls("correct")
    accuracy = balanced_accuracy_score(steps["correct"], steps["labels"])
    assert f"the best balanced accuracy, {accuracy:.1%}, on the {steps.height:,} judged steps of this set" in done.what
    assert accuracy >= balanced_accuracy_score(steps["correct"], steps["rewards"] >= 0)
    assert done.what.splitlines()[0] in (tmp_path / "mine" / "README.md").read_text()


def test_a_home_without_judged_steps_has_no_calibrated_threshold(own_copy, tmp_path):
    lake = Lake.of(own_copy)
    record = lake.record("sources/step_truth")
    assert record
    lake.write(lake.read("sources/step_truth").clear(), record)
    with pytest.raises(UsageError, match=r"there are 0 and 0; name judged steps as `sources\.step_truth` and run"):
        export(own_copy, str(tmp_path / "mine"), threshold="calibrated")
    assert not (tmp_path / "mine").exists()


def test_datasets_gives_the_rows_of_an_export_that_was_written_again(finished, tmp_path):
    found = []
    for reward_type in ("cpmi", "mc"):
        place = export(finished, str(tmp_path / "mine"), reward_type=reward_type).place
        found.append(load_dataset(place, split="train", cache_dir=str(tmp_path / "cache"))["rewards"][:])
    assert found[0] != found[1]


def test_a_reward_type_that_nobody_asked_for_is_named_with_those_there_are(finished, tmp_path):
    with pytest.raises(UsageError, match=r"--reward-type uncommon: no step has such a label; this home has cpmi, "):
        export(finished, str(tmp_path / "mine"), reward_type="uncommon")
    assert not list(tmp_path.iterdir())


def test_a_home_without_labels_says_which_command_makes_them(small_profile, tmp_path):
    settings = load_settings(small_profile, tmp_path / "home")
    with pytest.raises(LakeError, match="run `cpmi run` first"):
        export(settings, str(tmp_path / "mine"))
    assert not (tmp_path / "mine").exists()


def test_rewards_that_were_made_again_after_the_soft_labels_are_refused(own_copy, tmp_path):
    changed = own_copy.scoring.model_copy(update={"templates": own_copy.scoring.templates - 1})
    other = own_copy.model_copy(update={"scoring": changed})
    assert not run_all(other, only=("labels",), shards=["001"]).failures
    with pytest.raises(LakeError, match=r"soft_labels was not made from .* of now; run `cpmi run` first"):
        export(own_copy, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_exporting_writes_nothing_into_the_home(own_copy, tmp_path):
    for empty in (own_copy.home / "lake").rglob("*empty.parquet"):
        empty.unlink()
    before = {path: path.stat().st_mtime_ns for path in own_copy.home.rglob("*")}
    export(own_copy, str(tmp_path / "mine"))
    assert {path: path.stat().st_mtime_ns for path in own_copy.home.rglob("*")} == before


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
        ("x", {"form": "trl", "recipe": "cpmi_bce"}, "--form is for data sets"),
        ("x", {"threshold": "0.2", "recipe": "cpmi_bce"}, "--threshold is for data sets"),
        ("x", {"threshold": "quantile:2"}, "--threshold quantile:2: give a number"),
        ("ftp://x/y", {}, "an export is a folder, or hf://"),
        ("mine.csv", {}, "an export is a folder, or hf://"),
        ("mine.duckdb", {}, "an export is a folder, or hf://"),
        ("hf://me/mine.duckdb/x", {}, "a dataset goes to hf://datasets/OWNER/NAME"),
        ("hf://mine.duckdb", {}, "a dataset goes to hf://datasets/OWNER/NAME"),
        ("hf://mine", {}, "a dataset goes to hf://datasets/OWNER/NAME"),
        ("hf://datasets/me/mine", {"recipe": "cpmi_bce"}, "a model goes to hf://OWNER/NAME"),
        ("hf://me/mine", {}, "needs a token of the hub in the environment variable HF_TOKEN"),
    ],
)
def test_options_that_do_not_go_together_are_refused_first(small_profile, tmp_path, monkeypatch, to, options, message):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(UsageError, match=message):
        export(load_settings(small_profile, tmp_path), to, **options)


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
    for _ in range(2):
        done = export(finished, "hf://datasets/me/mine")
    assert sent["token"] == "hf_of_a_test" and sent["created"] == ("me/mine", "dataset", True)
    assert sent["files"] == [".cpmi-export.json", "README.md", "data/train-00000-of-00001.parquet"]
    assert (done.place, done.opened) == ("hf://datasets/me/mine", "datasets.load_dataset('me/mine')")
    sent["files"] = ["model.safetensors"]
    with pytest.raises(UsageError, match=r"contains `model\.safetensors`, which no export has written"):
        export(finished, "hf://datasets/me/mine")


@pytest.mark.parametrize("recipe", [None, "cpmi_bce"])
def test_an_export_to_a_full_disk_is_one_sentence_and_leaves_nothing(finished, tmp_path, full_disk, recipe):
    target = tmp_path / "out" / "mine"
    target.parent.mkdir()
    with full_disk(2_000), pytest.raises(StorageError, match=f"{target} cannot be written .*; make room on its disk"):
        export(finished, str(target), recipe=recipe)
    assert not list(target.parent.iterdir())


def test_the_command_ends_with_what_was_written_and_how_it_is_opened(finished, small_profile, monkeypatch, tmp_path):
    monkeypatch.setenv("CPMI_HOME", str(finished.home))
    result = CliRunner().invoke(app, ["export", "-p", small_profile, "--to", str(tmp_path / "mine")])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Hard labels call ") and "\n16 trajectories with " in result.stdout
    assert f"datasets.load_dataset('{tmp_path / 'mine'}')" in result.stdout


def test_a_hub_that_cannot_be_reached_is_named(tmp_path):
    command = [sys.executable, "-m", "cpmi_dagster", "export", "--to", "hf://datasets/me/mine"]
    variables = {
        **os.environ,
        "HF_TOKEN": "hf_of_a_test",
        "HF_HUB_OFFLINE": "1",
        "CPMI_HOME": str(tmp_path),
    }
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 1 and "hf_of_a_test" not in done.stderr
    assert "the dataset `me/mine` was not uploaded to the hub" in done.stderr
