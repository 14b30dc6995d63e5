"""What `cpmi run` ends with where nothing could be measured."""

import pytest

from cpmi_dagster.assets import reports
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.prm.examples import validation_questions
from cpmi_dagster.resources.lake.lake import Lake


def test_labels_are_counted_by_reward_type_with_the_place_of_the_lowest(finished):
    rewards = Lake.of(finished).read("labels/step_rewards").filter(reward_type="mc")
    (row,) = reports.labels_made(finished).filter(reward="mc").iter_rows(named=True)
    assert (row["steps"], row["trajectories"]) == (rewards.height, rewards["trajectory_id"].n_unique())
    assert row["mean"] == pytest.approx(rewards["reward"].mean())
    name, step = row["lowest at"].split()
    lowest = rewards.filter(trajectory_id=name, step_index=int(step))
    assert lowest["reward"].item() == rewards["reward"].min()


def test_a_summary_that_fails_fails_no_run(finished, monkeypatch, caplog):
    def fails(*_: object) -> None:
        raise CpmiError("the query was stopped")

    monkeypatch.setattr(reports, "ask", fails)
    assert reports.labels_made(finished).is_empty()
    assert "the query was stopped" in caplog.text


def test_what_has_no_labels_is_counted_by_reason(finished):
    rejected = Lake.of(finished).read("alignment/rejected_rows")
    found = reports.left_out(finished)
    assert rejected.height
    assert found["count"].sum() == rejected.height + Lake.of(finished).read("labels/rejected_trajectories").height
    assert found["count"].is_sorted(descending=True)
    rows = rejected.filter(reason=found["reason"][0])["row_number"]
    assert (found["first"][0], found["count"][0]) == (f"row {rows[0] + 1}", len(rows))


def test_a_home_without_labels_has_none(finished, tmp_path):
    empty = finished.model_copy(update={"home": tmp_path})
    assert reports.labels_made(empty).is_empty()
    assert reports.left_out(empty).is_empty()


def test_a_run_ends_with_how_good_each_model_is_by_its_scores_of_its_own_solutions(finished):
    lake, recipe = Lake.of(finished), finished.recipes[0]
    model = lake.read("models/process_reward_models", recipe.name)
    scores = model.select("scores").explode("scores").unnest("scores")
    assert scores["probability"].is_between(0, 1).all() and scores["label"].null_count() == 0
    questions = dict(lake.read("alignment/trajectories").select("trajectory_id", "question_id").iter_rows())
    share = recipe.trained_with(finished.training).validation_share
    labelled = lake.read("dataset/soft_labels").filter(reward_type=recipe.reward_type)["trajectory_id"].unique()
    asked = labelled.replace_strict(questions)
    held_out = validation_questions(asked, share, finished.seed + recipe.seed)
    assert {questions[name] for name in scores.filter("held_out")["trajectory_id"]} == held_out
    said = reports.verdicts(finished)
    assert list(said) == [each.name for each in finished.recipes]  # the embedded world is nobody's own data
    assert "against its own labels" in said[recipe.name] or "no labels held out" in said[recipe.name]
    card = (finished.home / model["path"][0] / "README.md").read_text()
    assert "Scores, the middle nine tenths" in card
