"""`cpmi plan`: how a sample and labelled shards are scaled, and what is printed."""

import polars as pl
import pytest
from typer.testing import CliRunner

from cpmi_dagster import definitions
from cpmi_dagster.cli.commands import app
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.labeling_plan import Plan
from cpmi_dagster.resources.lake.lake import Lake

FIGURES = ["forward_tokens", "generated_tokens"]


def invoke(*arguments: str) -> str:
    """What a command prints; errors of ours come out as they are."""
    result = CliRunner().invoke(app, arguments)
    if result.exception:
        raise result.exception
    return result.output


def test_the_table_names_every_method_and_ends_in_words(home):
    output = invoke("plan", "--profile", "miniature", "--hardware", "h100-80gb")
    for part in ("mc ", "pav ", "cpmi ", "cpmi_merge3 ", "mc_hard ", "together ", "one h100-80gb"):
        assert part in output
    assert "Counted on 5 trajectories. Text that is not sampled yet is assumed" in output
    assert "Not counted: step_surprisal, " in output


def row_of(plan: Plan, method: str) -> dict:
    return plan.frame.row(by_predicate=pl.col("method") == method, named=True)


def plan_of(settings, hardware: str | None = None) -> Plan:
    return definitions.plan(settings, hardware, lambda *_: None)


def test_methods_are_compared_with_mc_and_what_they_share_counts_once(home):
    settings = load_settings("miniature")
    rewards = settings.rewards.model_copy(update={"types": ("cpmi", "cpmi_prefix")})
    plan = plan_of(settings.model_copy(update={"rewards": rewards}))
    mc, cpmi, prefix, together = plan.frame["forward_tokens"]
    assert plan.frame["method"].to_list() == ["mc", "cpmi", "cpmi_prefix", "together"]
    assert mc + max(cpmi, prefix) < together < mc + cpmi + prefix


@pytest.mark.slow
def test_a_plan_of_a_finished_home_is_what_the_run_reports(finished):
    reported = (
        Lake.of(finished).read("labels/labeling_costs").group_by("method").agg(pl.col(*FIGURES, "wall_seconds").sum())
    )
    plan = plan_of(finished)
    assert plan.is_measured and plan.trajectories == plan.counted
    both = plan.frame.join(reported, on="method", suffix="_reported")
    assert both.height == plan.frame.height - 1 == 19
    for name in FIGURES:
        assert both[name].equals(both[f"{name}_reported"].alias(name))
    assert (both["gpu_hours"] * 3600).to_list() == pytest.approx(both["wall_seconds"].to_list())
    assert row_of(plan, "together")["generated_tokens"] >= row_of(plan, "pav")["generated_tokens"]
