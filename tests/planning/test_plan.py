"""`cpmi plan` of a labelled home: measured, it is what the run reports; estimated, it counts the same tokens."""

import polars as pl
import pytest

from cpmi_dagster import definitions
from cpmi_dagster.resources.commands.labeling_plan import Plan
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.slow

FIGURES = ["forward_tokens", "generated_tokens"]


def plan_of(settings, hardware: str | None = None) -> Plan:
    return definitions.plan(settings, hardware, lambda *_: None)


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


def test_what_is_scored_is_estimated_exactly_and_what_methods_share_counts_once(finished):
    measured, estimated = (
        dict(plan_of(finished, hardware).frame.select("method", "forward_tokens").iter_rows())
        for hardware in (None, "laptop-cpu")
    )
    assert estimated["cpmi"] == measured["cpmi"]
    for tokens in (measured, estimated):
        together = tokens.pop("together")
        assert max(tokens["mc"], tokens["pav"]) + tokens["cpmi"] <= together < sum(tokens.values())
