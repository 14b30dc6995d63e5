"""Labelled trajectories are written in forms that their readers, this project among them, take for what they are."""

import json
import os

import polars as pl
import pytest
from datasets import Value, load_dataset

from cpmi_dagster.errors import UsageError
from cpmi_dagster.exports.rows import FORMS, Threshold, exported_rows, write_rows
from cpmi_dagster.resources.commands.export import MARKER, check_replaceable
from cpmi_dagster.resources.sources.data_files import local_files, read_files
from cpmi_dagster.rewards.dataset import labelled_trajectories
from cpmi_dagster.trajectories.math_shepherd import parse_row
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
        "trajectory_id": ["t000000001", "t000000001", "t000000002"],
        "step_index": [1, 0, 0],
        "reward_type": ["cpmi"] * 3,
        "reward": [-1.5, 2.0, 0.25],
    }
)
HARD = Threshold(0.0, "since it is a difference")
SOFT = REWARDS.drop("reward").with_columns(soft_label=pl.Series([0.2, 0.9, 0.5]))


def labelled(trajectories: pl.DataFrame = TRAJECTORIES) -> pl.DataFrame:
    return labelled_trajectories(trajectories, NEGATIVES, REWARDS, SOFT, "cpmi")


def test_rows_of_trl_have_a_hard_label_for_every_step_and_what_it_is_cut_from():
    first, second = exported_rows(labelled(), "trl", HARD).to_dicts()
    assert (first["prompt"], first["completions"], first["labels"]) == ("What is 2 + 3?", STEPS[0], [True, False])
    assert (first["soft_labels"], first["rewards"]) == ([0.9, 0.2], [2.0, -1.5])
    assert (first["gold_answer"], first["hard_negatives"], first["source_id"]) == ("5", ["6", "7"], "a")
    assert (second["labels"], second["hard_negatives"], second["source_labels"]) == ([True], [], None)


def test_marked_text_is_read_as_it_was_written():
    rows = exported_rows(labelled(), "math-shepherd", HARD).to_dicts()
    for row, steps, labels in zip(rows, STEPS, [[1, 0], [1]], strict=True):
        read = parse_row(row["input"], row["label"])
        assert (list(read.steps), list(read.shepherd_labels or ())) == (steps, labels)


@pytest.mark.parametrize(("form", "left_out"), [("trl", 0), ("math-shepherd", 1)])
def test_a_text_that_holds_the_marker_is_left_out_of_marked_text(form, left_out):
    marked = TRAJECTORIES.with_columns(question=pl.Series(["Сколько ки?", "What is 3 * 4?"]))
    assert exported_rows(labelled(marked), form, HARD).height == 2 - left_out


@pytest.mark.parametrize("form", FORMS)
def test_datasets_and_this_project_read_what_was_written(form, tmp_path):
    rows = exported_rows(labelled(), form, HARD)
    write_rows(rows, tmp_path / "mine" / "rows.parquet")
    read = load_dataset(str(tmp_path / "mine"), split="train", cache_dir=str(tmp_path / "cache"))
    assert read.to_list() == rows.to_dicts()
    assert read.features["gold_answer"] == Value("string")
    ours = number_rows((row for row, _, _ in read_files(local_files(tmp_path / "mine"))), first=0, shards=1)
    assert ours["gold_answer"].to_list() == rows["gold_answer"].to_list()
    assert ours["defect"].null_count() == ours.height
    hard = [[reward >= 0 for reward in each] for each in rows["rewards"].to_list()]
    assert ours["labels"].to_list() == hard


@pytest.fixture
def folder(tmp_path):
    """An export that nobody has touched."""
    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "rows.parquet").touch()
    (folder / "README.md").write_text("the card")
    (folder / MARKER).write_text(json.dumps({"files": ["README.md", "data/rows.parquet"]}))
    check_replaceable(folder)
    return folder


def edit(path):
    path.write_text("what I know")
    later = path.stat().st_mtime + 60
    os.utime(path, (later, later))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "data" / "notes.txt").write_text("mine"), r"`data/notes\.txt`, which no export"),
        (
            lambda folder: edit(folder / "README.md"),
            r"`README\.md`, which no export has written, or somebody has changed",
        ),
        (lambda folder: (folder / "data" / "more").symlink_to(folder), "`data/more`, which no export"),
        (lambda folder: (folder / MARKER).unlink(), r"`README\.md`, which no export"),
    ],
)
def test_an_export_is_replaced_until_something_of_ones_own_is_in_it(folder, change, message):
    change(folder)
    with pytest.raises(UsageError, match=message):
        check_replaceable(folder)


def test_a_link_in_place_of_a_file_and_a_file_in_place_of_the_folder_are_not_replaced(folder, tmp_path):
    card = tmp_path / "README.md"
    (folder / "README.md").rename(card)
    (folder / "README.md").symlink_to(card)
    with pytest.raises(UsageError, match=r"`README\.md`, which no export"):
        check_replaceable(folder)
    with pytest.raises(UsageError, match="is a file"):
        check_replaceable(card)
    check_replaceable(tmp_path / "new")
