"""What Dagster records and shows of a stage."""

from dataclasses import replace

import dagster as dg
import httpx2
import polars as pl
import pytest
from stage_examples import SHARD, count_selected, negatives, select, with_stages

from cpmi_dagster.assets.labels import answer_logprobs
from cpmi_dagster.assets.models import process_reward_models
from cpmi_dagster.contracts.keys import LOGPROBS, MODELS, NEGATIVES, REJECTED_TRAJECTORIES, SELECTED
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import ScoringError, TransientError
from cpmi_dagster.profiles.settings import Orchestration
from cpmi_dagster.resources.dag.home_resources import shown_resources
from cpmi_dagster.resources.dag.making import asset_of, step_errors
from cpmi_dagster.resources.dag.presentation import asset_description, preview, run_metadata, table_metadata
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.lake.parquet import Record
from cpmi_dagster.tree_forward.tree_reader import OutOfMemory

UNSCORED = ScoringError("a value is not finite")
UNSCORED.add_note("among 9 trajectories from t1 on")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def materialize(declared: Stage, home: Home, instance: dg.DagsterInstance):
    here = with_stages(home, declared)
    return dg.materialize(
        [asset_of(declared, here)],
        instance=instance,
        partition_key=SHARD,
        resources=shown_resources(here),
        raise_on_error=False,
    )


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


def columns_shown(declared: Stage, key: str, home: Home) -> dict[str, dg.TableColumn]:
    schema = table_metadata(declared, TABLES[key], home.lake.home)["dagster/column_schema"]
    return {column.name: column for column in schema.columns}


def test_a_schema_has_types_keys_values_and_what_a_column_is_made_from(home):
    columns = columns_shown(answer_logprobs, LOGPROBS, home)
    context, trajectory, value = columns["context"], columns["trajectory_id"], columns["logprob_sum"]
    assert context.type == "enum<string>" and "question, prefix, step, all_but" in str(context.description)
    assert trajectory.constraints.other == ["part of the primary key"] and not trajectory.constraints.unique
    assert str(value.description).endswith(
        "from alignment.trajectories (question, steps, gold_answer), labels.hard_negatives.answer"
    )
    assert str(columns["answer_rank"].description).count("labels.hard_negatives.rank") == 1
    models = columns_shown(process_reward_models, MODELS, home)
    assert models["recipe"].constraints == dg.TableColumnConstraints(False, True, ["primary key"])
    assert models["scores"].type == "list<struct>" and "held_out boolean" in str(models["scores"].description)


def test_a_table_has_its_name_and_rules_and_each_table_of_a_stage_its_own_description(home):
    shown = table_metadata(answer_logprobs, TABLES[LOGPROBS], home.lake.home)
    assert shown["dagster/table_name"] == "labels.answer_logprobs" and shown["database"].path.endswith("cpmi.duckdb")
    key, *rules = shown["dagster/column_schema"].constraints.other
    assert key.startswith("primary key: trajectory_id, template, context") and "1 ≤ token_count" in rules
    assert "packed token trees" in asset_description(answer_logprobs, LOGPROBS)
    assert asset_description(answer_logprobs, REJECTED_TRAJECTORIES) == TABLES[REJECTED_TRAJECTORIES].meaning


def test_a_run_shows_what_its_file_is_made_from_and_numbers_that_dagster_plots(home):
    facts = {"seed": 0, "settings": {"negatives": {"count": 4}}, "inputs": {SELECTED: "e3958c50" * 8}}
    cost = {"forward_tokens": 70, "wall_seconds": 1.5, "generated_tokens": 0}
    record = home.lake.write(negatives("t1"), Record(NEGATIVES, SHARD, key="5f0c", run_id="r", facts=facts, cost=cost))
    home.lake.write(negatives("t1", "t2"), replace(record, partition="001"))
    shown = run_metadata(count_selected, [record], negatives("t1"), home.lake)
    assert shown["dagster/partition_row_count"] == 1 and shown["dagster/row_count"] == 3
    assert shown["forward_tokens"] == 70 and shown["wall_seconds"] == 1.5 and "generated_tokens" not in shown
    assert shown["key"] == "5f0c" and shown["path"].path == str(home.lake.path(NEGATIVES, SHARD))
    lines = shown["made from"].md_str.splitlines()
    assert "| setting | negatives.count | 4 |" in lines and lines[-1].endswith(" | e3958c50 |")
    other = replace(record, partition="001", key="b7d1", facts={**facts, "seed": 7})
    together = run_metadata(count_selected, [record, other], negatives("t1"), home.lake)
    assert together["forward_tokens"] == 140 and "| seed |  | 0, 7 |" in together["made from"].md_str


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
