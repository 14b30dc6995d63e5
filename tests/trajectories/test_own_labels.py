"""Labels that the user brings: read with care, refused by row, and then a reward type like any other."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import StepLabels, StepRewards
from cpmi_dagster.errors import SettingsError, SourceError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.trajectories.own_labels import notes_on_others, own_rewards, read_step_labels
from cpmi_dagster.trajectories.rows import Unreadable

TRAJECTORIES = pl.DataFrame({"trajectory_id": ["t000000003", "t000000008"], "steps": [["x", "y"], ["z"]]})
ROWS = [{"trajectory_id": "t000000003", "rewards": [0.5, -2]}, {"row_number": 8, "rewards": [1.5], "comment": "sure"}]
KEY = ["reward_type", "trajectory_id", "step_index"]


def rewards_of(labels: pl.DataFrame) -> list[tuple]:
    return own_rewards(labels, TRAJECTORIES).select(*KEY, "reward").sort(KEY).rows()


def test_labels_are_found_by_trajectory_or_by_row_and_those_of_others_are_left_out_and_counted():
    labels = read_step_labels("judge", ROWS)
    StepLabels.validate(labels)
    expected = [("judge", "t000000003", 0, 0.5), ("judge", "t000000003", 1, -2.0), ("judge", "t000000008", 0, 1.5)]
    assert rewards_of(labels) == expected
    assert notes_on_others(labels, TRAJECTORIES) == []
    others = [{"row_number": 77, "rewards": [1.0, 0.0]}, {"trajectory_id": "other", "rewards": [1.0]}]
    labels = read_step_labels("judge", [*ROWS, *others])
    assert rewards_of(labels) == expected
    (note,) = notes_on_others(labels, TRAJECTORIES)
    assert note.startswith("`judge` also labels 2 trajectories")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"rewards": [1.0]}, r"`judge`, row 3: a row needs `trajectory_id` or `row_number`"),
        ({"row_number": 9, "rewards": []}, r"row 3: .*`rewards`: it is empty"),
        ({"row_number": 9, "rewards": [1.0, float("nan")]}, r"row 3: .*`rewards\.1`: it must be a finite number"),
        ({"row_number": 8, "rewards": [1.0]}, r"row 3: .*`t000000008`: an earlier row labels the same trajectory"),
        ({"trajectory_id": "t000000009", "row_number": 10, "rewards": [1.0]}, r"row 3: .*are not of one row"),
        (Unreadable("{", "not JSON", "labels.jsonl, line 3"), r"labels\.jsonl, line 3: not JSON; correct or remove it"),
    ],
)
def test_a_bad_row_is_named_with_what_is_wrong(row, message):
    with pytest.raises(SourceError, match=message) as caught:
        read_step_labels("judge", [*ROWS, row])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "`judge` have no rows"),
        (ROWS[:1], "`judge` lack 1 selected trajectories, `t000000008` first"),
        ([ROWS[0], {"row_number": 8, "rewards": [1.0, 1.0]}], "`t000000008` has 1 steps but 2 rewards"),
    ],
)
def test_labels_that_do_not_cover_the_selection_are_refused(rows, message):
    with pytest.raises(SourceError, match=message):
        own_rewards(read_step_labels("judge", rows), TRAJECTORIES)


@hypothesis_settings(max_examples=30)
@given(st.lists(st.lists(st.floats(-9, 9), min_size=1, max_size=5), min_size=1, max_size=6), st.randoms())
def test_every_label_comes_back_under_its_step_whatever_the_order_of_rows(values, random):
    rows = [{"row_number": number, "rewards": rewards} for number, rewards in enumerate(values)]
    steps = pl.DataFrame(
        {"trajectory_id": [f"t{n:09d}" for n in range(len(values))], "steps": [["s"] * len(v) for v in values]}
    )
    found = own_rewards(read_step_labels("judge", random.sample(rows, len(rows))), steps)
    StepRewards.validate(found)
    lists = found.sort("trajectory_id", "step_index").group_by("trajectory_id", maintain_order=True).agg("reward")
    assert lists["reward"].to_list() == values


@pytest.mark.parametrize("name", ["mc", "cpmi_merge3", "Judge", "1st", "a-b", ""])
def test_a_name_that_is_taken_or_odd_is_refused(tmp_path, name):
    profile = tmp_path / "mine.yaml"
    profile.write_text(f'extends: miniature\nsources: {{step_labels: {{"{name}": {{path: a.jsonl}}}}}}\n')
    with pytest.raises(SettingsError, match="cannot name user-supplied labels"):
        load_settings(profile)
