"""Labelled trajectories are written in forms that their readers, this project among them, take for what they are."""

import polars as pl
import pyarrow.parquet as pq
import pytest
from datasets import Value, load_dataset

from cpmi_dagster.errors import CpmiError, UsageError
from cpmi_dagster.exports.folders import CARD, DATA, RECORD, check_replaceable, write_record, write_rows
from cpmi_dagster.exports.hard_labels import Cut, HardLabels
from cpmi_dagster.exports.rows import FORMS, exported_rows, labelled_trajectories
from cpmi_dagster.resources.sources.data_files import local_files, read_files
from cpmi_dagster.trajectories.math_shepherd import parse_row
from cpmi_dagster.trajectories.rows import read_row

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
HARD = HardLabels("cpmi", is_probability=False, cuts=(Cut(0, 0.0, "since it is a difference"),))
SOFT = REWARDS.drop("reward").with_columns(soft_label=pl.Series([0.2, 0.9, 0.5]))


def labelled(trajectories: pl.DataFrame = TRAJECTORIES, rewards: pl.DataFrame = REWARDS) -> pl.DataFrame:
    return labelled_trajectories(trajectories, NEGATIVES, rewards, SOFT, "cpmi")


def test_rows_of_trl_have_a_hard_label_for_every_step_and_what_it_is_cut_from():
    first, second = exported_rows(labelled(), "trl", HARD).rows.to_dicts()
    assert (first["prompt"], first["completions"], first["labels"]) == ("What is 2 + 3?", STEPS[0], [True, False])
    assert (first["soft_labels"], first["rewards"]) == ([0.9, 0.2], [2.0, -1.5])
    assert (first["gold_answer"], first["hard_negatives"], first["source_id"]) == ("5", ["6", "7"], "a")
    assert (second["labels"], second["hard_negatives"], second["source_labels"]) == ([True], [], None)


def test_rows_of_marked_forms_are_read_as_they_were_written():
    shepherd, openrlhf = (exported_rows(labelled(), form, HARD).rows for form in ("math-shepherd", "openrlhf"))
    for row, other, steps, labels in zip(shepherd.to_dicts(), openrlhf.to_dicts(), STEPS, [[1, 0], [1]], strict=True):
        read = parse_row(row["input"], row["label"])
        assert (list(read.steps), list(read.shepherd_labels)) == (steps, labels)
        assert other["input"].count("ки") == len(other["value"]) == len(other["soft_labels"])
        assert parse_row(other["input"], "", other["value"]).shepherd_labels == read.shepherd_labels


@pytest.mark.parametrize(("form", "left_out"), [("trl", 0), ("openrlhf", 1), ("math-shepherd", 1)])
def test_a_text_that_holds_the_marker_is_left_out_of_forms_that_use_it(form, left_out):
    marked = TRAJECTORIES.with_columns(question=pl.Series(["Сколько ки?", "What is 3 * 4?"]))
    exported = exported_rows(labelled(marked), form, HARD)
    assert (exported.left_out, exported.rows.height) == (left_out, 2 - left_out)


def test_rewards_of_other_steps_than_the_soft_labels_are_refused():
    with pytest.raises(CpmiError, match=r"1 trajectories .* t000000001"):
        labelled(rewards=REWARDS.filter(pl.col("step_index") == 0))
    with pytest.raises(CpmiError, match="1 trajectories"):
        labelled(trajectories=TRAJECTORIES.head(1))


@pytest.mark.parametrize("form", FORMS)
def test_datasets_reads_plain_texts_and_lists(form, tmp_path):
    rows = exported_rows(labelled(), form, HARD).rows
    counted = []
    write_rows(rows, tmp_path / "mine", lambda count, total: counted.append((count, total)))
    assert counted == [(2, 2)]
    assert "large" not in str(pq.read_schema(tmp_path / "mine" / DATA).types)
    read = load_dataset(str(tmp_path / "mine"), split="train", cache_dir=str(tmp_path / "cache"))
    assert read.to_list() == rows.to_dicts()
    assert read.features["gold_answer"] == Value("string")
    assert set(read.column_names) == set(FORMS[form].schema)


@pytest.mark.parametrize("form", FORMS)
def test_exported_rows_are_a_source_of_this_project_and_keep_hard_labels_and_gold_answers(form, tmp_path):
    exported = exported_rows(labelled(), form, HARD).rows
    write_rows(exported, tmp_path / "mine", lambda count, total: None)
    write_record(tmp_path / "mine", "dataset", {})
    rows = [read_row(row) for row, _, _ in read_files(local_files(tmp_path / "mine"))]
    assert [row.gold_answer for row in rows] == exported["gold_answer"].to_list()
    assert [row.defect for row in rows] == [None] * len(rows)
    read = [parse_row(row.input, row.label, row.value) for row in rows]
    hard = [[reward >= 0 for reward in each] for each in exported["rewards"]]
    assert [list(row.shepherd_labels) for row in read] == hard


@pytest.fixture
def folder(tmp_path):
    """An export that nobody has touched."""
    folder = tmp_path / "mine"
    write_rows(exported_rows(labelled(), "trl", HARD).rows, folder, lambda count, total: None)
    (folder / CARD).write_text("the card")
    write_record(folder, "dataset", {})
    check_replaceable(folder)
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "data" / "notes.txt").write_text("mine"), r"`data/notes\.txt`, which no export"),
        (lambda folder: (folder / CARD).write_text("what I know"), r"`README\.md`, which has changed"),
        (lambda folder: (folder / "data" / "more").symlink_to(folder), "`data/more`, which no export"),
        (lambda folder: (folder / RECORD).unlink(), r"`README\.md`, which no export"),
    ],
)
def test_an_export_is_replaced_until_something_of_ones_own_is_in_it(folder, change, message):
    change(folder)
    with pytest.raises(UsageError, match=message):
        check_replaceable(folder)


def test_a_link_in_place_of_a_file_and_a_file_in_place_of_the_folder_are_not_replaced(folder, tmp_path):
    (folder / CARD).rename(tmp_path / CARD)
    (folder / CARD).symlink_to(tmp_path / CARD)
    with pytest.raises(UsageError, match=r"`README\.md`, which no export"):
        check_replaceable(folder)
    with pytest.raises(UsageError, match="is a file"):
        check_replaceable(tmp_path / CARD)
    check_replaceable(tmp_path / "new")
