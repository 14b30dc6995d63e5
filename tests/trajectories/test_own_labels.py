"""Labels that the user brings: read with care, refused by row, and then a reward type like any other."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cpmi_dagster.contracts.tables import StepLabels, StepRewards
from cpmi_dagster.errors import SettingsError, SourceError
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.headline import headline_table
from cpmi_dagster.reports.inputs import ReportInputs, figure_frame
from cpmi_dagster.reports.labels import measure_label_quality
from cpmi_dagster.reports.reward_rows import MAIN_ROWS, OBJECTIVE_ROWS, main_rows, objective_rows
from cpmi_dagster.rewards.reward_type import Evidence
from cpmi_dagster.rewards.settings import Rewards, SoftLabels
from cpmi_dagster.rewards.soft_labels import soft_labels
from cpmi_dagster.rewards.step_rewards import step_rewards
from cpmi_dagster.trajectories.own_labels import joined, notes_on_others, own_rewards, read_step_labels
from cpmi_dagster.trajectories.rows import Unreadable

TRAJECTORIES = pl.DataFrame(
    {
        "trajectory_id": ["t000000003", "t000000008"],
        "row_number": [3, 8],
        "question_id": ["a", "b"],
        "steps": [["x", "y"], ["z"]],
        "shepherd_labels": [[True, False], [True]],
    }
)
TRUTH = pl.DataFrame({"row_number": [3, 8], "correct": [[True, False], [True]]})
ROWS = [{"trajectory_id": "t000000003", "rewards": [0.5, -2]}, {"row_number": 8, "rewards": [1.5], "comment": "sure"}]
KEY = ["reward_type", "trajectory_id", "step_index"]


def rewards_of(labels: pl.DataFrame) -> list[tuple]:
    return own_rewards(labels, TRAJECTORIES).select(*KEY, "reward").sort(KEY).rows()


def shepherd_rewards() -> pl.DataFrame:
    return step_rewards(Evidence(TRAJECTORIES), ["math_shepherd"])


def test_labels_are_found_by_trajectory_or_by_row_of_the_source():
    labels = read_step_labels("judge", ROWS)
    StepLabels.validate(labels)
    assert rewards_of(labels) == [
        ("judge", "t000000003", 0, 0.5),
        ("judge", "t000000003", 1, -2.0),
        ("judge", "t000000008", 0, 1.5),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"rewards": [1.0]}, r"`judge`, row 3: a row needs `trajectory_id` or `row_number`"),
        ({"row_number": 9}, r"row 3: `rewards`: it is missing; correct or remove"),
        ({"row_number": 9, "rewards": []}, r"row 3: .*`rewards`: it is empty"),
        ({"row_number": 9, "rewards": [1.0, float("nan")]}, r"row 3: .*`rewards\.1`: it must be a finite number"),
        ({"row_number": 9, "rewards": [float("inf")]}, r"row 3: .*`rewards\.0`: it must be a finite number"),
        ({"row_number": 9, "rewards": ["0.5"]}, r"row 3: .*`rewards\.0`: it must be a number"),
        ({"row_number": 9, "rewards": [None]}, r"row 3: .*`rewards\.0`: it must be a number"),
        ({"row_number": -1, "rewards": [1.0]}, r"row 3: .*`row_number`: it must be greater than or equal to 0"),
        ({"row_number": 8, "rewards": [1.0]}, r"row 3: .*`t000000008`: an earlier row labels the same trajectory"),
        ({"trajectory_id": "t000000009", "row_number": 10, "rewards": [1.0]}, r"row 3: .*are not of one row"),
        (Unreadable("{", "not JSON", "labels.jsonl, line 3"), r"labels\.jsonl, line 3: not JSON; correct or remove it"),
    ],
)
def test_a_bad_row_is_named_with_what_is_wrong(row, message):
    with pytest.raises(SourceError, match=message) as caught:
        read_step_labels("judge", [*ROWS, row])
    assert "\n" not in str(caught.value)


def test_what_is_called_a_probability_must_be_one():
    with pytest.raises(SourceError, match=r"row 1: a reward is not in \[0, 1\]"):
        read_step_labels("judge", ROWS, probabilities=True)
    read_step_labels("judge", [{"row_number": 3, "rewards": [0, 1]}], probabilities=True)


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


def test_labels_of_others_are_left_out_and_counted():
    rows = [*ROWS, {"row_number": 77, "rewards": [1.0, 0.0]}, {"trajectory_id": "other", "rewards": [1.0]}]
    labels = read_step_labels("judge", rows)
    assert rewards_of(labels) == rewards_of(read_step_labels("judge", ROWS))
    (note,) = notes_on_others(labels, TRAJECTORIES)
    assert note.startswith("`judge` also labels 2 trajectories")
    assert notes_on_others(read_step_labels("judge", ROWS), TRAJECTORIES) == []


def test_without_labels_of_ones_own_nothing_changes():
    ours = shepherd_rewards()
    assert joined(ours, own_rewards(StepLabels.create_empty(), TRAJECTORIES)).equals(ours)
    assert notes_on_others(StepLabels.create_empty(), TRAJECTORIES) == []


@hypothesis_settings(max_examples=30, deadline=None)
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


def test_math_shepherds_labels_are_one_and_zero_and_stay_so_as_soft_labels():
    rewards = shepherd_rewards()
    assert rewards.sort(KEY)["reward"].to_list() == [1.0, 0.0, 1.0]
    assert soft_labels(rewards, SoftLabels()).sort(KEY)["soft_label"].to_list() == [1.0, 0.0, 1.0]


def test_own_labels_are_normalised_unless_they_are_probabilities():
    rows = [{"row_number": 3, "rewards": [0.2, 0.4]}, {"row_number": 8, "rewards": [0.9]}]
    rewards = own_rewards(read_step_labels("judge", rows), TRAJECTORIES).sort(KEY)
    assert soft_labels(rewards, SoftLabels(), ["judge"])["soft_label"].to_list() == [0.2, 0.4, 0.9]
    z_scores = (np.array([0.2, 0.4, 0.9]) - 0.4) / (0.2 + 1e-8)  # median 0.4; deviations 0.2, 0, 0.5
    assert soft_labels(rewards, SoftLabels())["soft_label"].to_list() == pytest.approx(1 / (1 + np.exp(-z_scores)))


def test_label_quality_shows_math_shepherd_once_and_own_labels_after_ours():
    rewards = joined(shepherd_rewards(), own_rewards(read_step_labels("judge", ROWS), TRAJECTORIES))
    frames = {"labels/step_rewards": rewards, "alignment/trajectories": TRAJECTORIES, "sources/step_truth": TRUTH}
    table = figure_frame(measure_label_quality(ReportInputs(frames, bootstrap_samples=10)))
    of_all_steps = table.filter(column="Label AUC")
    assert of_all_steps["row"].to_list() == ["Math-Shepherd's + and -", "judge"]
    assert of_all_steps["measured"].to_list() == [1.0, 1.0]
    headline = headline_table({"label_quality": table})
    assert list(headline) == ["judge", "Chance", "Ceiling"]
    assert headline["judge"]["… over all steps"].value == 1.0 and "Time (MC = 1)" not in headline["judge"]


def test_tables_list_labels_that_a_model_learns_from_after_ours():
    recipes = [
        Recipe(name="a", reward_type="judge"),
        Recipe(name="b", reward_type="mc"),
        Recipe(name="c", reward_type="math_shepherd", objective="mse"),
        Recipe(name="d", reward_type="judge", objective="pqm"),
    ]
    rows = main_rows(recipes)
    assert rows[: len(MAIN_ROWS)] == MAIN_ROWS
    assert [row.row for row in rows[len(MAIN_ROWS) :]] == ["judge", "c"]
    others = objective_rows(recipes)[len(OBJECTIVE_ROWS) :]
    assert [row.row for row in others] == ["BCE, judge", "PQM, judge", "MSE, Math-Shepherd's + and -"]
    assert main_rows([]) == MAIN_ROWS


@pytest.mark.parametrize("name", ["mc", "cpmi_merge3", "Judge", "1st", "a-b", "", "path"])
def test_a_name_that_is_taken_or_odd_is_refused(tmp_path, name):
    profile = tmp_path / "mine.yaml"
    profile.write_text(f'extends: miniature\nsources: {{step_labels: {{"{name}": {{path: a.jsonl}}}}}}\n')
    with pytest.raises(SettingsError, match="cannot name user-supplied labels"):
        load_settings(profile)


def test_a_recipe_may_learn_from_own_labels_and_from_no_unknown_ones(tmp_path):
    profile = tmp_path / "mine.yaml"
    labels = "sources: {step_labels: {judge: {path: ./a.jsonl}}}"
    text = f"extends: miniature\n{labels}\nrecipes: [{{name: a, reward_type: %s}}]\n"
    profile.write_text(text % "judge")
    settings = load_settings(profile)
    assert settings.sources.step_labels["judge"].path == str(tmp_path / "a.jsonl")
    assert settings.sources.probability_labels == ()
    profile.write_text(text % "juge")
    with pytest.raises(SettingsError, match=r"needs `juge` among sources\.step_labels"):
        load_settings(profile)


def test_math_shepherd_costs_nothing_to_label():
    rewards = Rewards(types=("mc", "math_shepherd", "cpmi"))
    assert rewards.methods == ("mc", "cpmi")
