"""What Dagster records and shows of a stage."""

from dataclasses import replace

import dagster as dg
import httpx2
import polars as pl
import pytest
from stage_examples import SHARD, count_selected, select, with_stages

from cpmi_dagster.contracts.keys import NEGATIVES
from cpmi_dagster.errors import ScoringError, TransientError
from cpmi_dagster.profiles.orchestration import Orchestration
from cpmi_dagster.reading.tree_reader import OutOfMemory
from cpmi_dagster.resources.dag.presentation import preview
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.dag.step_errors import step_errors

UNSCORED = ScoringError("a value is not finite")
UNSCORED.add_note("among 9 trajectories from t1 on")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def materialize(declared: Stage, home: Home, instance: dg.DagsterInstance):
    bound = declared.bind(with_stages(home, declared))
    return dg.materialize([bound], instance=instance, partition_key=SHARD, raise_on_error=False)


def test_equal_rows_have_the_same_data_version_whether_they_were_made_again_or_not(home, instance):
    select(home, "t1")
    versions, skipped = set(), []
    for declared in (count_selected, count_selected, replace(count_selected, code_version="2")):
        result = materialize(declared, home, instance)
        [event] = result.asset_materializations_for_node("count_selected")
        assert event.partition == SHARD
        versions.add(event.tags["dagster/data_version"])
        skipped.append("skipped" in event.metadata)
    assert versions == {home.lake.content(NEGATIVES, SHARD)} and skipped == [False, True, False]


def test_a_question_in_a_preview_is_no_image_and_no_html():
    text = preview(pl.DataFrame({"question": ["![x](https://evil.example/a.png) <img src=x>"]}))
    assert r"!\[x\]\(" in text and r"\<img" in text


@pytest.mark.parametrize(
    ("error", "attempts", "reason"),
    [
        (TransientError("the server does not answer"), 3, "the server does not answer"),
        (httpx2.ConnectError("no route"), 3, "no route"),
        (OutOfMemory("no memory"), 3, "no memory"),
        (UNSCORED, 1, "a value is not finite (among 9 trajectories from t1 on)"),
        (KeyError("nothing"), 1, "KeyError: 'nothing'"),
    ],
)
def test_a_step_is_begun_again_only_after_an_error_that_may_pass_and_then_says_why(error, attempts, reason):
    begun = []

    @dg.asset
    def fails(context: dg.AssetExecutionContext) -> None:
        begun.append(error)
        with step_errors(context, Orchestration(retries=2, retry_seconds=0)):
            raise error

    data = dg.materialize([fails], raise_on_error=False).get_step_failure_events()[0].step_failure_data
    said = (data.user_failure_data and data.user_failure_data.description) or data.error.to_string()
    assert len(begun) == attempts and reason in said
