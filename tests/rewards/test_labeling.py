"""`label`: the labels of the DAG in one call, from whatever table, and one sentence for what cannot be had."""

import datasets
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from cpmi_dagster import label
from cpmi_dagster.contracts.keys import NEGATIVES, SELECTED, SOFT_LABELS, STEP_REWARDS, TRAJECTORIES
from cpmi_dagster.errors import ScoringError, SettingsError
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.rewards.dataset import negative_lists
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
    of_dag = lake.read(STEP_REWARDS).join(lake.read(SOFT_LABELS), on=KEY)
    types = sorted({*OF_LABELER} & {*of_dag["reward_type"]})
    assert len(types) > 12
    labels = label(frame.rename({"trajectory_id": "id"}), MODEL, types, seed=finished.seed, dtype="float32")
    ours = labels.rename({"id": "trajectory_id"}).drop("step").sort(KEY)
    theirs = of_dag.filter(pl.col("reward_type").is_in(types)).select(ours.columns).sort(KEY)
    assert_frame_equal(ours, theirs, rel_tol=0, abs_tol=1e-3)


def in_other_words(row: dict) -> list[dict]:
    """The row with its solution as one text, and as a chat."""
    others, text = {name: row[name] for name in row if name not in ("question", "steps")}, "\n\n".join(row["steps"])
    chat = [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": text}]
    return [{**others, "question": row["question"], "solution": text}, {**others, "messages": chat}]


def test_every_kind_of_table_and_solution_gives_the_same_labels():
    expected = label(pl.DataFrame(ROWS), MODEL)
    shuffled = datasets.Dataset.from_list(ROWS[::-1]).select([1, 0])
    texts, chats = zip(*map(in_other_words, ROWS), strict=True)
    for table in (pd.DataFrame(ROWS), shuffled, list(texts), list(chats)):
        assert_frame_equal(label(table, MODEL), expected)


def test_what_cannot_be_labelled_is_named_and_stops_nothing(caplog):
    rows = [ROWS[0], {**ROWS[1], "steps": []}, {**ROWS[1], "id": "gold", "gold_answer": " "}]
    done: list[int] = []
    labels = label(rows, MODEL, ["cpmi", "position", "step_surprisal"], progress=done.append)
    assert set(labels["id"]) == {"hats", "gold"}
    assert set(labels.filter(id="gold")["reward_type"]) == {"position", "step_surprisal"}
    for words in ("`eggs` has no steps", "`gold` has no gold answer"):
        assert words in caplog.text
    assert sum(done) == 2 * len(rows)
    assert label_in_full(rows[1:], MODEL).labels.columns == labels.columns


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
