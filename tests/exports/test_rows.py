"""Labelled trajectories are written in forms that their readers, this project among them, take for what they are."""

import json
import os

import polars as pl
import pytest
from datasets import load_dataset
from huggingface_hub import DatasetCard
from hypothesis import assume, given
from hypothesis import strategies as st

from cpmi_dagster.contracts.keys import SHEPHERD
from cpmi_dagster.errors import UsageError
from cpmi_dagster.exports.cards import dataset_card
from cpmi_dagster.exports.rows import (
    FORMS,
    Threshold,
    exported_rows,
    further_columns,
    split_by_question,
    with_further_rewards,
    write_rows,
)
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.destination import MARKER, check_replaceable
from cpmi_dagster.resources.commands.given_rows import given_columns
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record
from cpmi_dagster.resources.sources.data_files import local_files, read_files
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.rewards.dataset import labelled_trajectories
from cpmi_dagster.trajectories.rows import number_rows

STEPS = [["2 + 3 = 5.", "The answer is: 5"], ["3 * 4 = 13."]]
TRAJECTORIES = pl.DataFrame(
    {
        "trajectory_id": ["t000000001", "t000000002"],
        "source_id": ["a", None],
        "question_id": ["q1", "q2"],
        "task": ["GSM8K", "MATH"],
        "question": ["What is 2 + 3?", "What is 3 * 4?"],
        "steps": STEPS,
        "gold_answer": ["5", "12"],
        "shepherd_labels": [[True, True], None],
    },
    schema_overrides={"shepherd_labels": pl.List(pl.Boolean)},
)
NEGATIVES = pl.DataFrame({"trajectory_id": ["t000000001"] * 2, "rank": [2, 1], "answer": ["7", "6"]})
REWARDS = pl.DataFrame(
    {
        "trajectory_id": ["t000000001", "t000000001", "t000000002", "t000000001"],
        "step_index": [1, 0, 0, 1],
        "reward_type": ["cpmi"] * 3 + ["mine"],
        "reward": [-1.5, 2.0, 0.25, 7.0],
    }
)
SOFT = REWARDS.drop("reward").with_columns(soft_label=pl.Series([0.2, 0.9, 0.5, 0.7]))
HARD = Threshold(0.0, "since it is a difference")


def labelled(trajectories: pl.DataFrame = TRAJECTORIES) -> pl.DataFrame:
    return labelled_trajectories(trajectories, NEGATIVES, REWARDS, SOFT, "cpmi")


def test_rows_have_a_hard_label_for_every_step_what_it_is_cut_from_and_further_rewards():
    both = with_further_rewards(labelled(), REWARDS, SOFT, ["mine"])
    first, second = exported_rows(both, "trl", HARD, further_columns(["mine"])).to_dicts()
    assert (first["prompt"], first["completions"], first["labels"]) == ("What is 2 + 3?", STEPS[0], [True, False])
    assert (first["soft_labels"], first["rewards"]) == ([0.9, 0.2], [2.0, -1.5])
    assert (first["gold_answer"], first["hard_negatives"], first["source_id"]) == ("5", ["6", "7"], "a")
    assert (second["labels"], second["hard_negatives"], second["source_labels"]) == ([True], [], None)
    assert (first["rewards_mine"], first["soft_labels_mine"], second["rewards_mine"]) == ([None, 7], [None, 0.7], None)


@pytest.mark.parametrize("form", FORMS)
def test_datasets_and_this_project_read_what_was_written(form, tmp_path):
    rows = exported_rows(labelled(), form, HARD)
    write_rows(rows, tmp_path / "mine" / "rows.parquet")
    read = load_dataset(str(tmp_path / "mine"), split="train", cache_dir=str(tmp_path / "cache"))
    assert read.to_list() == rows.to_dicts()
    ours = number_rows((row for row, _, _ in read_files(local_files(tmp_path / "mine"))), first=0, shards=1)
    assert ours["gold_answer"].to_list() == rows["gold_answer"].to_list()
    assert ours["defect"].null_count() == ours.height
    assert ours["steps"].to_list() == STEPS
    assert ours["labels"].to_list() == [[reward >= 0 for reward in each] for each in rows["rewards"].to_list()]


EVIL = "<b>![x](//evil.example)"


def test_the_card_opens_with_what_the_hard_labels_call_right_and_shows_texts_of_data_as_they_are():
    text = dataset_card(labelled(), 'a: "b"', "trl", "cpmi", False, HARD, {"profile": EVIL, EVIL: "e53f"}, {})
    assert "Hard labels call 66.7% of the steps right: those with a reward of at least 0, since" in text
    assert "](//evil.example)" not in text and "<b>" not in text
    assert "no step has been judged since they were made" in text
    assert DatasetCard(text, ignore_metadata_errors=False).data.to_dict()["pretty_name"] == 'a: "b"'


@pytest.mark.parametrize(("form", "left_out"), [("trl", 0), ("math-shepherd", 1)])
def test_a_text_that_holds_the_marker_is_left_out_of_marked_text(form, left_out):
    marked = TRAJECTORIES.with_columns(question=pl.Series(["Сколько ки?", "What is 3 * 4?"]))
    assert exported_rows(labelled(marked), form, HARD).height == 2 - left_out


@given(st.lists(st.integers(0, 60), min_size=1), st.sampled_from([0.1, 0.5, 0.9]), st.integers(0, 60))
def test_a_question_is_in_one_part_and_stays_there_if_rows_are_added(questions, share, added):
    def parts(ids: list[int]) -> dict[str, set[str]]:
        rows = pl.DataFrame({"question_id": [f"q{each}" for each in ids], "row": range(len(ids))})
        try:
            split = split_by_question(rows, share)
        except UsageError:
            assume(False)
        assert pl.concat(split.values()).sort("row").equals(rows)
        return {name: set(part["question_id"]) for name, part in split.items()}

    before, after = parts(questions), parts([*questions, added])
    assert not before["train"] & before["test"] and not after["train"] & after["test"]
    assert before["train"] <= after["train"] and before["test"] <= after["test"]


def test_parts_have_about_the_share_asked_for_and_none_is_empty():
    rows = pl.DataFrame({"question_id": [f"q{number}" for number in range(1000)]})
    assert split_by_question(rows, 0.2)["test"].height == pytest.approx(200, abs=40)
    assert list(split_by_question(rows, 0)) == ["train"]
    with pytest.raises(UsageError, match=r"--test-share 0\.2 leaves .* empty, of 1 question"):
        split_by_question(rows.head(1), 0.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "data" / "notes.txt").write_text("mine"), r"`data/notes\.txt`, which no export"),
        (lambda folder: os.utime(folder / "README.md", (2e9, 2e9)), r"`README\.md`, which .* somebody has changed"),
        (lambda folder: (folder / MARKER).unlink(), r"`README\.md`, which no export"),
    ],
)
def test_an_export_is_replaced_until_something_of_ones_own_is_in_it(tmp_path, change, message):
    (tmp_path / "data").mkdir()
    for name, text in (("README.md", "card"), ("data/rows.parquet", ""), (MARKER, "")):
        (tmp_path / name).write_text(text or json.dumps({"files": ["README.md", "data/rows.parquet"]}))
    check_replaceable(tmp_path)
    change(tmp_path)
    with pytest.raises(UsageError, match=message):
        check_replaceable(tmp_path)


GIVEN = [
    {"id": "a", "question": "2 + 3?", "response": "So 5.", "answer": 5, "labels": None, "prompt_id": 7, "split": "dev"},
    "{broken",
    {"id": "b", "question": "2 + 4?", "response": "So 6.", "answer": 6, "rewards": "mine", "meta": [1]},
]


def test_columns_come_back_under_their_names_to_rows_that_have_not_changed_wherever_they_stand(tmp_path):
    file = tmp_path / "rows.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in GIVEN]
    file.write_text("\n".join(lines))
    profile = tmp_path / "mine.yaml"
    profile.write_text("extends: files\nshards: 1\nsources: {trajectories: {path: ./rows.jsonl}}\n")
    settings = load_settings(profile, tmp_path / "home")
    [source], lake = settings.sources.trajectories, Lake.of(settings)
    rows = number_rows((row for row, _ in DataSources(settings).stream(source)), 0, 1, row_format=source.row_format)
    lake.write(rows.drop("shard"), Record(SHEPHERD, "000", "key", "run"))
    exported = pl.DataFrame({"trajectory_id": ["t000000000", "t000000002"], "prompt": "", "labels": "", "rewards": ""})
    columns, note = given_columns(settings, lake, exported)
    assert columns.columns == ["trajectory_id", "prompt_id", "split", "input_rewards", "meta"] and not note
    assert columns.rows() == [("t000000000", 7, "dev", None, None), ("t000000002", None, None, "mine", [1])]
    file.write_text("\n".join([lines[2], lines[0].replace("So 5.", "So 6.")]))
    columns, note = given_columns(settings, lake, exported)
    assert columns.rows() == [("t000000002", "mine", [1])] and "missing of 1 row that changed" in note
    file.unlink()
    assert str(file) in given_columns(settings, lake, exported)[1]
