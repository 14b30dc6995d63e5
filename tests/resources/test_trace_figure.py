"""From a figure of the report down to its tables, settings, reward models and labels."""

import json
from dataclasses import replace

import polars as pl
import pytest
from rich.console import Console

from cpmi_dagster.contracts.keys import FIGURES, MODELS, SELECTED, STEP_REWARDS
from cpmi_dagster.definitions import run_with_progress
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.init import new_profile
from cpmi_dagster.resources.commands.trace import WHY, trace
from cpmi_dagster.resources.commands.trace_figure import trace_figure
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import query

pytestmark = pytest.mark.slow


def test_a_figure_of_labels_leads_to_the_labels_and_a_label_to_its_answers(finished: Settings):
    traced = trace_figure(finished, "label_quality/CPMI/Label AUC")
    assert traced.figures.select("row", "column").rows() == [("CPMI", "Label AUC")]
    assert traced.labels["reward_type"].to_list() == ["cpmi"] and traced.labels["conditioning"].item() == "marginal"
    labels = Lake.of(finished).read(STEP_REWARDS).filter(reward_type="cpmi")
    assert traced.labels.select("steps", "trajectories").row(0) == (labels.height, labels["trajectory_id"].n_unique())
    assert trace(finished, traced.labels["examples"].item()[0]).tables["CPMI by template"].height
    assert traced.settings[STEP_REWARDS]["rewards.types"] == ["cpmi"]
    assert traced.settings["labels/answer_logprobs"]["scoring.templates"] == finished.scoring.templates
    assert traced.models.is_empty() and not traced.changed


def test_the_labels_of_a_whole_table_are_those_of_its_rows_and_columns(finished: Settings):
    agreement = trace_figure(finished, "label_trust/Agreement: MC (hard)")
    assert agreement.labels["reward_type"].to_list() == ["mc_hard", "mc"]
    whole = trace_figure(finished, "label_trust").labels["reward_type"]
    assert set(whole) == set(finished.rewards.types) - {"truth"} and len(set(whole)) == len(whole)


def test_a_figure_of_reward_models_leads_to_the_recipe_its_weights_and_its_labels(finished: Settings):
    traced = trace_figure(finished, "processbench/CPMI (official)")
    made = Lake.of(finished).read(MODELS, "cpmi_bce")
    assert traced.models["weights_fingerprint"].to_list() == made["weights_fingerprint"].to_list()
    assert [record.partition for record in traced.files["benchmarks/processbench_predictions"]] == ["cpmi_bce"]
    assert traced.settings[f"{MODELS} cpmi_bce"]["recipe.reward_type"] == "cpmi"
    assert traced.labels["reward_type"].to_list() == ["cpmi"]


@pytest.mark.parametrize("name", ["label_quality/CPMI", "label_quality", "differences", "efficiency/CPMI", "logic"])
def test_every_query_of_a_figure_runs_and_reads_the_rows_behind_it(finished: Settings, name):
    traced = trace_figure(finished, name)
    rows = {key: query(finished, sql, most_rows=1000).rows for key, sql in traced.queries.items()}
    assert rows.keys() == traced.files.keys() and rows[FIGURES].height == traced.figures.height
    assert all(frame.height for key, frame in rows.items() if sum(record.rows for record in traced.files[key]))
    if name == "label_quality/CPMI":
        assert set(rows[STEP_REWARDS]["reward_type"]) == {"cpmi"}


def test_the_trace_of_a_solution_without_labels_says_what_is_known_of_it_and_what_to_run(tmp_path):
    rows = [{"id": f"a{n}", "question": f"{n} + 1?", "steps": [f"So {n + 1}."], "gold_answer": n + 1} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    new_profile(tmp_path / "rows.jsonl", "miniature:labeler", tmp_path / "mine.yaml").write()
    settings = load_settings(str(tmp_path / "mine.yaml"), tmp_path / "home")
    pilot = settings.limited(2)
    assert not run_with_progress(pilot, ["000"], [], False, Console(), True, ["selection"]).failures
    selected = Lake(settings.home).read(SELECTED)["trajectory_id"].to_list()
    [left] = {"t000000000", "t000000001", "t000000002"} - {*selected}
    assert f"run -p {tmp_path / 'mine.yaml'}` makes them" in trace(settings, selected[0]).unlabelled
    said = trace(settings, left).unlabelled
    assert "took 2 trajectories at most, without this one; `" in said and said.endswith("` labels all")
    assert "`selection` of the profile leaves it out" in trace(pilot, left).unlabelled


def test_a_trace_says_if_the_labels_have_changed_since_a_figure_was_measured(own_copy: Settings):
    lake = Lake.of(own_copy)
    shard = lake.partitions(STEP_REWARDS)[0]
    record, labels = lake.record(STEP_REWARDS, shard), lake.read(STEP_REWARDS, shard)
    assert record
    lake.write(labels.with_columns(pl.col("reward") + 1), replace(record, key="other"))
    assert trace_figure(own_copy, "label_quality").changed == [STEP_REWARDS]


def test_a_trace_says_what_each_label_adds_to_the_log_odds_of_an_error(finished):
    rewards = Lake.of(finished).read(STEP_REWARDS).filter(reward_type="first_error")
    name = rewards["trajectory_id"][0]
    why = trace(finished, name).tables[WHY]
    groups = why.drop("step_index", "first_error_probability", "log_odds")
    assert {"before_any", "step_length", "place", "step_surprisal"} <= {*groups.columns}
    assert why["log_odds"].to_list() == pytest.approx(groups.sum_horizontal().to_list())
    kept = rewards.filter(trajectory_id=name).sort("step_index")["reward"]
    assert (1 - why["first_error_probability"]).to_list() == pytest.approx(kept.to_list(), abs=1e-9)
    assert trace(finished, name, 0).tables[WHY].height == 1
