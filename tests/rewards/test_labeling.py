"""`label`: the rows of whatever table with the DAG's labels, and one sentence for what cannot be had."""

import datasets
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from cpmi_dagster import explode_steps, label
from cpmi_dagster.contracts.keys import NEGATIVES, SELECTED, SOFT_LABELS, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.errors import ScoringError, SettingsError
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.dataset import negative_lists, step_lists
from cpmi_dagster.rewards.labeling import label_in_full
from cpmi_dagster.rewards.registry import REWARD_TYPES

ROWS = [
    {
        "id": "hats",
        "question": "Ann has 3 hats and buys 2. How many has she?",
        "steps": ["3 + 2 = 5.", "One is lost: 5 - 1 = 4. The answer is: 4"],
        "gold_answer": "5",
        "negative_answers": ["6", "1"],
    },
    {
        "id": "eggs",
        "question": "Bo has 4 eggs and eats 1. How many are left?",
        "steps": ["4 - 1 = 3. The answer is: 3"],
        "gold_answer": "3",
        "negative_answers": ["5", "4"],
    },
]
MODEL = "miniature:labeler"
OF_LABELER = [name for name, entry in REWARD_TYPES.items() if entry.is_of_labeler]
KEY = ["trajectory_id", "step_index", "reward_type"]


@pytest.mark.parametrize("given", [True, False], ids=["the DAG's negatives", "sampled negatives"])
def test_labels_are_those_of_the_dag(finished, given):
    lake = Lake.of(finished)
    frame = lake.read(TRAJECTORIES).join(lake.read(SELECTED), on="trajectory_id", how="semi")
    if given:
        frame = frame.join(negative_lists(lake.read(NEGATIVES)), on="trajectory_id")
        frame = frame.rename({"hard_negatives": "negative_answers"})
    else:
        frame = frame.with_columns(negative_answers=pl.lit(None, pl.List(pl.String)))
    of_dag = lake.read(STEP_REWARDS).join(lake.read(SOFT_LABELS), on=KEY)
    types = sorted({*OF_LABELER} & {*of_dag["reward_type"]})
    assert len(types) > 12
    options = {"seed": finished.seed, "dtype": "float32", "weights": finished.rewards.weights}
    ours = label_in_full(frame, MODEL, types, **options).labels
    theirs = step_lists(of_dag.filter(pl.col("reward_type").is_in(types))).select(ours.columns)
    assert_frame_equal(ours, theirs, rel_tol=0, abs_tol=1e-3)


def in_other_words(row: dict) -> list[dict]:
    """The row with its solution as one text, and as a chat."""
    others, text = {name: row[name] for name in row if name not in ("question", "steps")}, "\n\n".join(row["steps"])
    chat = [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": text}]
    return [{**others, "question": row["question"], "solution": text}, {**others, "messages": chat}]


def test_every_kind_of_table_comes_back_in_its_type_with_the_same_labels():
    expected = label(pl.DataFrame(ROWS), MODEL)
    assert expected.columns == [*ROWS[0], "rewards", "soft_labels", "reason"]
    shuffled = datasets.Dataset.from_list(ROWS[::-1]).select([1, 0])
    texts, chats = map(list, zip(*map(in_other_words, ROWS), strict=True))
    for table in (pd.DataFrame(ROWS), shuffled, texts, chats):
        labelled = label(table, MODEL)
        assert type(labelled) is type(table)
        assert_frame_equal(explode_steps(labelled), explode_steps(expected))


def test_a_pandas_frame_keeps_its_index_and_columns_beside_ours():
    given = pd.DataFrame([{"uid": 7, "reason": "mine", **ROWS[0]}, {"uid": 8, **ROWS[1]}], index=["a", "b"])
    labelled = label(given.drop(columns="id"), MODEL)
    assert list(labelled.index) == ["a", "b"] and labelled["uid"].tolist() == [7, 8]
    assert labelled["input_reason"].iloc[0] == "mine" and labelled["reason"].isna().all()
    assert explode_steps(labelled, "uid")["id"].to_list() == [*6 * ["7"], *3 * ["8"]]


def test_what_cannot_be_read_or_labelled_keeps_its_place_with_a_reason(caplog):
    wrong = {**ROWS[1], "negative_answers": [{}]}
    rows = [{"a": 1}, {**ROWS[1], "steps": []}, wrong, ROWS[0], {**ROWS[1], "id": "gold", "gold_answer": " "}]
    done: list[int] = []
    types = ["cpmi", "position", "step_surprisal"]
    unread, empty, wrong, first, unanswered = label(rows, MODEL, types, progress=done.append)
    assert "`negative_answers.0`" in wrong["reason"]
    assert unread["a"] == 1 and unread["rewards"] is None
    assert first["reason"] is None and list(first["rewards"]) == types
    assert list(unanswered["rewards"]) == ["position", "step_surprisal"]
    for row, words in ((unread, "it needs"), (empty, "`steps`: it is empty"), (unanswered, "no gold answer")):
        assert words in row["reason"]
    assert "4 of 5 rows" in caplog.text and sum(done) == 2 * 2
    assert label([], MODEL) == []


@pytest.mark.parametrize(
    ("rows", "options", "error", "words"),
    [
        (ROWS, {"rewards": ["mc"]}, SettingsError, "`mc` needs more .* give one of cpmi, "),
        (ROWS, {"rewards": ["cpmi_m2"], "negatives": 1}, SettingsError, "2 hard negatives, and `negatives` is 1"),
        (7, {}, ScoringError, "the trajectories are no table .* give a list of dicts"),
    ],
)
def test_what_is_wrong_is_one_sentence(rows, options, error, words):
    with pytest.raises(error, match=words):
        label(rows, MODEL, **options)


def test_a_trajectory_without_a_final_answer_has_no_label_of_it():
    rows = [ROWS[0], {**ROWS[1], "steps": ["Some are left."]}]
    stated, unstated = label(rows, MODEL, ["final_answer", "final_answer_position", "position"])
    assert stated["reason"] is None and list(unstated["rewards"]) == ["position"]
    assert "no final_answer, final_answer_position: it states no final answer" in unstated["reason"]


def test_a_row_whose_wrong_answers_all_equal_its_gold_answer_has_a_reason():
    right, wrong = label([ROWS[0], {**ROWS[1], "negative_answers": ["3.0", "6/2"]}], MODEL)
    assert right["reason"] is None and list(wrong["rewards"]) == ["first_error", "right_so_far"]
    assert wrong["reason"].startswith("has no hard negatives to contrast its gold answer with")


def test_each_missing_label_has_its_own_reason():
    long = {**ROWS[1], "steps": ["4 - 1 = 3."] * 1000 + ["The answer is: 3"]}
    unstated = {**long, "id": "unstated", "steps": [*long["steps"][:-1], "Some are left."]}
    rows = label(
        [long, unstated, {**long, "id": "gold", "question": "How many?", "gold_answer": None}],
        MODEL,
        ["final_answer", "step_surprisal"],
    )
    stated, unstated, unanswered = (row["reason"] for row in rows)
    assert (
        stated.startswith("it has no step_surprisal: question, steps and answer are") and "final answer" not in stated
    )
    assert "it has no final_answer: it states no final answer; it has no step_surprisal: question" in unstated
    assert (
        "no gold answer, which final_answer needs" in unanswered
        and "; it has no step_surprisal: question" in unanswered
    )
