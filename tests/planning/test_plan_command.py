"""`cpmi plan`: what it prints, what it asks for, and that a finished run agrees with it."""

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from cpmi_dagster import definitions
from cpmi_dagster.cli.commands import app
from cpmi_dagster.cli.option_texts import parse_parameters
from cpmi_dagster.errors import CpmiError, LakeError, SettingsError
from cpmi_dagster.planning.plan import Plan
from cpmi_dagster.resources.lake.lake import Lake


def invoke(*arguments: str):
    """Run a command in this process; errors of ours come out as they are."""
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, CpmiError):
        raise result.exception
    return result


def plan_of(settings, hardware: str | None = None) -> Plan:
    return definitions.plan(settings, hardware, None, 0, {}, lambda *_: None)


def test_the_table_names_every_method_and_ends_in_words(home):
    result = invoke("plan", "--profile", "miniature", "--hardware", "h100-80gb", "--gpus", "2")
    assert result.exit_code == 0
    for part in ("mc ", "pav ", "cpmi ", "cpmi_merge3 ", "everything", "At the price of mc: mc_hard", "2 x h100-80gb"):
        assert part in result.output
    assert "≈ Not made yet: hard_negatives, policy_rollouts, prover_rollouts" in result.output
    assert "rand_merge" not in result.output
    assert "Not counted: step_surprisal, " in result.output


def test_quiet_leaves_the_table_alone(home):
    output = invoke("plan", "--profile", "miniature", "--quiet").output
    assert "laptop-cpu" in output
    assert "Not made yet" not in output


def test_programs_get_whole_numbers(home):
    rows = json.loads(invoke("plan", "--profile", "miniature", "--format", "json").output)
    mc = next(row for row in rows if row["method"] == "mc")
    assert (mc["trajectories"], mc["also"], mc["generated_share_of_mc"]) == (5, ["mc_hard"], 1.0)
    assert mc["forward_tokens"] > mc["generated_tokens"] > 0
    assert invoke("plan", "--profile", "miniature", "--format", "csv").output.startswith("method,also,model,")


def test_a_set_that_is_not_there_yet_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CPMI_HOME", str(tmp_path))
    with pytest.raises(LakeError, match="run `cpmi run --only sources --only alignment --only selection`"):
        invoke("plan", "--profile", "miniature")


@pytest.mark.parametrize("text", ["labeler", "labeler=big", "writer=3", "labeler=-1", "labeler=nan", "labeler=1e999"])
def test_parameters_are_a_role_and_a_number(text):
    assert parse_parameters(["labeler=8.2e9", "prover=15"]) == {"labeler": 8_200_000_000, "prover": 15}
    with pytest.raises(SettingsError, match="--parameters"):
        parse_parameters([text])


def row_of(plan: Plan, method: str) -> dict:
    return plan.frame.row(by_predicate=pl.col("method") == method, named=True)


@pytest.mark.slow
def test_a_plan_is_what_a_run_reports(finished):
    figures = ("forward_tokens", "generated_tokens", "wall_seconds")
    reported = Lake.of(finished).read("labels/labeling_costs").group_by("method").agg(pl.col(figures).sum())
    plan = plan_of(finished)
    assert set(plan.frame["forward_basis"]) == set(plan.frame["generated_basis"]) == {"exact"}
    assert plan.labelled == plan.trajectories
    both = plan.frame.join(reported, on="method", suffix="_reported")
    assert both.height == 14
    for name in figures[:2]:
        assert both[name].equals(both[f"{name}_reported"].alias(name))
    assert (both["gpu_hours"] * 3600).to_list() == pytest.approx(both["wall_seconds"].to_list())
    # on named hardware the tokens stay, and the hours are the card's
    named = plan_of(finished, "laptop-cpu")
    assert (named.labelled, row_of(named, "mc")["generated_basis"]) == (0, "exact")
    assert row_of(named, "mc")["generated_tokens"] == row_of(plan, "mc")["generated_tokens"]


@pytest.mark.slow
def test_the_labelers_forward_tokens_are_counted_without_the_run(own_copy):
    lake = Lake.of(own_copy)
    reported = lake.read("labels/labeling_costs").filter(method="cpmi")["forward_tokens"].sum()
    for shard in own_copy.shard_keys:
        for name in ("answer_logprobs", "policy_rollouts", "prover_rollouts", "labeling_costs"):
            lake.paths(f"labels/{name}", shard)[0].unlink()
    plan = plan_of(own_copy)
    assert row_of(plan, "cpmi")["forward_tokens"] == reported
    assert (row_of(plan, "cpmi")["forward_basis"], row_of(plan, "mc")["forward_basis"]) == ("exact", "estimate")
    assert plan.labelled == 0


@pytest.mark.slow
def test_negatives_made_by_other_settings_are_not_counted_on(finished):
    other = finished.model_copy(update={"negatives": finished.negatives.model_copy(update={"samples": 3})})
    plan = plan_of(other)
    assert (row_of(plan, "cpmi")["forward_basis"], row_of(plan, "mc")["forward_basis"]) == ("estimate", "exact")
