"""Hard negatives of the question alone: beside the others as a reward type, or in their place by a setting."""

import polars as pl
import pytest
from small_run import SMALL, run_all, write_profile

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow

NEGATIVES, OF_QUESTION, CONTROLS = "labels/hard_negatives", "labels/question_negatives", "labels/control_logprobs"
LOGPROBS, REWARDS = "labels/answer_logprobs", "labels/step_rewards"
STEP = ["trajectory_id", "step_index"]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Labels a home of two shards by some reward types; what is read of it."""
    home = tmp_path_factory.mktemp("home")

    def label(types: list[str], **negatives: object) -> Lake:
        values = {"recipes": [], "shards": 2, "selection": {"trajectories": 8}, "negatives": negatives}
        own = SMALL | values | {"rewards": {"types": types}, "scoring": {"chunk_trajectories": 2, "templates": 1}}
        settings = load_settings(write_profile(home / "own.yaml", own), home)
        assert not run_all(settings, only=("sources", "alignment", "selection", "labels")).failures
        return Lake.of(settings)

    return label


def rewards_of(lake: Lake, reward_type: str) -> pl.DataFrame:
    return lake.read(REWARDS).filter(reward_type=reward_type).select(*STEP, "reward").sort(STEP)


def test_other_negatives_are_added_and_nothing_that_was_made_is_made_again(labelled):
    tables = (NEGATIVES, LOGPROBS, CONTROLS)
    before = labelled(["cpmi", "other_gold", "other_step"])
    assert before.read(OF_QUESTION).is_empty()
    made = {table: {record.file_name for record in before.records(table, "000")} for table in tables}
    lake = labelled(["cpmi", "other_gold", "other_step", "cpmi_question_negatives"])
    now = {table: {record.file_name for record in lake.records(table, "000")} for table in tables}
    assert (now[NEGATIVES], now[LOGPROBS]) == (made[NEGATIVES], made[LOGPROBS])
    assert now[CONTROLS] > made[CONTROLS] and len(now[CONTROLS]) == 2
    assert rewards_of(lake, "cpmi_question_negatives").height == rewards_of(lake, "cpmi").height
    assert not rewards_of(lake, "cpmi").equals(rewards_of(lake, "cpmi_question_negatives"))
    assert lake.read("labels/labeling_costs")["method"].unique().to_list() == ["cpmi"]


def test_shown_the_question_cpmi_is_what_the_reward_type_of_the_question_is(labelled):
    default = labelled(["cpmi", "cpmi_question_negatives"])
    solution = default.record(NEGATIVES, "000")
    assert "negatives.other_sight" not in solution.settings
    lake = labelled(["cpmi", "cpmi_question_negatives"], sees="question")
    question = lake.record(NEGATIVES, "000")
    assert question.settings["negatives.other_sight"] == "question"
    assert question.file_name != solution.file_name
    assert lake.read(NEGATIVES).equals(lake.read(OF_QUESTION))
    one, other = (rewards_of(lake, name)["reward"] for name in ("cpmi", "cpmi_question_negatives"))
    assert (one - other).abs().max() < 1e-4
    assert labelled(["cpmi"], sees="solution").record(NEGATIVES, "000").file_name == solution.file_name
