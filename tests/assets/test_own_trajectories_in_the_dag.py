"""Trajectories from anywhere, from their file to the data set: own ids and gold answers, no labels, no references."""

import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from small_run import run_all

from cpmi_dagster.alignment import NO_REFERENCES
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.trace import trace
from cpmi_dagster.resources.lake.lake import Lake

SELECTED = ("sources/math_shepherd", "sources/reference_problems", "alignment", "selection")
STAGES = (*SELECTED, "sources/step_labels", "sources/step_truth", "labels", "dataset")
PROFILE = {
    "extends": "files",
    "shards": 1,
    "sources": {"math_shepherd": {"path": "./rows.jsonl"}, "references": [], "benchmarks": {}},
    "negatives": {"samples": 0},
    "scoring": {"templates": 1},
    "selection": {"gsm8k_share": 0.5, "mixed_share": 0.7, "leave_out_too_hard": True},
}


def row(number: int, **more: object) -> dict:
    total = number + 3
    return {
        "id": f"row-{number}",
        "question": f"Ann has {number} hats and buys 3 more. How many hats has she?",
        "steps": [f"She buys 3 hats. {number} + 3 = {total}.", f"The answer is: {total}"],
        "gold_answer": total,
        **more,
    }


def profile(folder: Path, rows: list[dict], **changes: object) -> Settings:
    (folder / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    (folder / "own.yaml").write_text(yaml.safe_dump({**PROFILE, **changes}), encoding="utf-8")
    return load_settings(folder / "own.yaml", folder / "home")


def run(settings: Settings, *only: str) -> Lake:
    outcome = run_all(settings, only=only or STAGES)
    assert not outcome.failures, outcome.failures
    return Lake.of(settings)


def test_question_and_steps_with_gold_answers_become_a_data_set_that_is_joined_by_id(tmp_path):
    rows = [row(number) for number in range(6)]
    twice, without_answer = row(3, question="Who?"), row(7, gold_answer=None)
    settings = profile(tmp_path, [*rows, twice, without_answer], shards=2)
    lake = run(settings)
    assert lake.read("alignment/rejected_rows").sort("row_number").select("row_number", "stage", "reason").rows() == [
        (6, "read", 'row 4 has the id "row-3" already; give every row its own'),
        (7, "align", NO_REFERENCES),
    ]
    chosen = lake.read("selection/selected_trajectories")
    assert set(chosen["composition"]) == {"unlabelled"}
    record = lake.record("selection/selected_trajectories", "000")
    assert record is not None
    assert [note.split(":")[0] for note in record.notes] == [
        "the share of mixed trajectories is not kept",
        "no question of a trajectory without labels is left out as too hard",
        "the share of GSM8K is not kept",
    ]
    data = lake.read("dataset/cpmi_80k").sort("trajectory_id")
    assert data.select("source_id", "task", "gold_answer").rows() == [
        (f"row-{number}", "OWN", str(number + 3)) for number in range(6)
    ]
    assert data["soft_labels"].list.len().to_list() == [2] * 6
    assert data["shepherd_labels"].null_count() == 6
    assert trace(settings, "row-4").facts["trajectory"]["match_source"] == "given/train/row-4"
    with pytest.raises(CpmiError, match=r"row 8 with the id `row-7` was rejected: the row has no"):
        trace(settings, "row-7")


def test_a_source_of_which_no_row_can_be_labelled_says_why(tmp_path):
    settings = profile(tmp_path, [row(number, gold_answer=None) for number in range(3)])
    (failure,) = run_all(settings, only=SELECTED).failures
    assert "3 of 3 are rejected with the reason: the row has no gold answer, and the profile names no" in failure


@pytest.mark.slow
def test_a_source_that_labels_some_rows_has_rewards_of_its_labels_for_these(tmp_path):
    rows = [row(number, **({"labels": ["+", "-"]} if number < 2 else {})) for number in range(4)]
    settings = profile(tmp_path, rows, rewards={"types": ["cpmi", "math_shepherd"]})
    lake = run(settings)
    rewards = lake.read("labels/step_rewards")
    labelled = rewards.filter(reward_type="math_shepherd").sort("trajectory_id", "step_index")
    assert labelled.select("trajectory_id", "reward").rows() == [
        ("t000000000", 1.0), ("t000000000", 0.0), ("t000000001", 1.0), ("t000000001", 0.0),
    ]  # fmt: skip
    assert rewards.filter(reward_type="cpmi").height == 8
    record = lake.record("labels/step_rewards", "000")
    assert record is not None
    assert list(record.notes) == ["`math_shepherd` has no rewards for 2 trajectories that have no labels"]
    statistics = dict(lake.read("dataset/dataset_statistics").select("statistic", "actual").iter_rows())
    assert (statistics["unlabelled_trajectories"], statistics["positive_step_share"]) == (2, 0.5)


@pytest.mark.slow
def test_a_recipe_of_labels_that_the_source_lacks_fails_in_one_sentence(tmp_path):
    recipes = [{"name": "corpus_bce", "reward_type": "math_shepherd"}]
    settings = profile(tmp_path, [row(1), row(2)], rewards={"types": ["math_shepherd"]}, recipes=recipes)
    run(settings)
    failures = run_all(settings, only=("models",)).failures
    assert any("no step has a label of type `math_shepherd` to learn from" in failure for failure in failures)


@pytest.mark.slow
def test_answers_of_the_users_problems_are_compared_by_the_users_function(tmp_path):
    def compared_by(module, body):
        (tmp_path / f"{module}.py").write_text(f"def same(gold, candidate):\n    return {body}\n", encoding="utf-8")
        return profile(tmp_path, [row(10)], answers={"equivalent": f"{module}:same"})

    up_to_negatives = (*SELECTED, "labels/hard_negatives")
    lake = run(compared_by("last_digits", "gold[-1] == candidate[-1]"), *up_to_negatives)
    last_digits = lake.read("labels/hard_negatives")["answer"].str.slice(-1).to_list()
    assert len({"3", *last_digits}) == 1 + len(last_digits) == 5
    lake = run(compared_by("lengths", "len(gold) == len(candidate)"), *up_to_negatives)
    lengths = lake.read("labels/hard_negatives").select(pl.col("answer").str.len_chars()).to_series().to_list()
    assert len({2, *lengths}) == 1 + len(lengths)
    failures = run_all(compared_by("broken", "int('?')"), only=up_to_negatives).failures
    assert any("`broken:same` cannot compare the answers '13' and " in failure for failure in failures), failures
