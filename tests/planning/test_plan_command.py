"""`cpmi plan`: what it prints, what it asks for, and that a finished run agrees with it."""

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from cpmi_dagster import definitions
from cpmi_dagster.cli.commands import app
from cpmi_dagster.cli.option_texts import parse_parameters
from cpmi_dagster.errors import CpmiError, LakeError, SettingsError
from cpmi_dagster.resources.lake import Lake
from cpmi_dagster.resources.planned_chunks import choose_chunks


def invoke(*arguments: str):
    """Run a command in this process; errors of ours come out as they are."""
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, CpmiError):
        raise result.exception
    return result


def plan_of(settings, sample: int = 0) -> pl.DataFrame:
    return definitions.plan(settings, None, None, sample, {}, lambda *_: None).frame


def test_the_command_explains_itself_with_an_example():
    output = invoke("plan", "--help").output
    assert "cpmi plan" in output
    assert "Example:" in output


def test_the_table_names_every_method_and_ends_in_words(home):
    result = invoke("plan", "--profile", "miniature", "--hardware", "h100-80gb", "--gpus", "2")
    assert result.exit_code == 0
    for part in ("mc ", "pav ", "cpmi ", "cpmi_merge3 ", "everything", "At the price of mc: mc_hard", "2 x h100-80gb"):
        assert part in result.output
    assert "≈ Rollouts are not made yet" in result.output
    assert "rand_merge" not in result.output


def test_quiet_leaves_the_table_alone(home):
    output = invoke("plan", "--profile", "miniature", "--quiet").output
    assert "laptop-cpu" in output
    assert "not made yet" not in output


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


def test_no_more_cards_work_than_there_are_chunks(home, settings):
    own = settings.model_copy(update={"home": home.home})
    assert definitions.plan(own, None, 8, 0, {}, lambda *_: None).gpus == 2


def test_a_sample_is_made_of_whole_chunks_and_a_seed_repeats_it(home, settings):
    ones = {"chunk_trajectories": 1}
    own = settings.model_copy(
        update={
            "scoring": settings.scoring.model_copy(update=ones),
            "rollouts": settings.rollouts.model_copy(update=ones),
        }
    )
    chosen = choose_chunks(home, own, 3)
    assert (len(chosen.places), chosen.trajectories) == (3, 5)
    assert choose_chunks(home, own, 3) == chosen
    assert sum(chunk.trajectories.height for chunk in chosen.read(home, own)) == 3
    whole = choose_chunks(home, own, 0)
    assert whole.places == choose_chunks(home, own, 5).places == sorted(whole.places)
    assert len(whole.places) == 5


@pytest.mark.slow
def test_a_plan_is_what_a_run_reports(finished):
    lake = Lake(finished.home)
    reported = (
        lake.read("labels/labeling_costs").group_by("method").agg(pl.col("forward_tokens", "generated_tokens").sum())
    )
    plan = plan_of(finished)
    assert set(plan["forward_basis"]) == set(plan["generated_basis"]) == {"exact"}
    planned = plan.select("method", "forward_tokens", "generated_tokens").filter(pl.col("method") != "everything")
    assert planned.height == 14
    assert planned.sort("method").equals(reported.join(planned, on="method", how="semi").sort("method"))


@pytest.mark.slow
def test_the_labelers_forward_tokens_are_counted_without_the_run(own_copy):
    lake = Lake(own_copy.home)
    reported = lake.read("labels/labeling_costs").filter(method="cpmi")["forward_tokens"].sum()
    for shard in own_copy.shard_keys:
        for name in ("answer_logprobs", "policy_rollouts", "prover_rollouts", "labeling_costs"):
            lake.path(f"labels/{name}", shard).unlink()
    plan = plan_of(own_copy)
    cpmi, mc = (plan.row(by_predicate=pl.col("method") == name, named=True) for name in ("cpmi", "mc"))
    assert cpmi["forward_tokens"] == reported
    assert (cpmi["forward_basis"], mc["forward_basis"]) == ("exact", "estimate")


@pytest.mark.slow
def test_negatives_made_by_other_settings_are_not_counted_on(finished):
    other = finished.model_copy(update={"negatives": finished.negatives.model_copy(update={"samples": 3})})
    rows = plan_of(other)
    assert rows.row(by_predicate=pl.col("method") == "cpmi", named=True)["forward_basis"] == "estimate"
    assert rows.row(by_predicate=pl.col("method") == "mc", named=True)["forward_basis"] == "exact"
