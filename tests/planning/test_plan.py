"""`cpmi plan`: what each method is billed, how a sample and measured shards are scaled, and what is printed."""

from io import StringIO

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from cpmi_dagster import definitions
from cpmi_dagster.cli.commands import app
from cpmi_dagster.cli.views import show_plan
from cpmi_dagster.errors import LakeError, SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.labeling_plan import Plan, method_groups, scale
from cpmi_dagster.resources.lake.lake import Lake

FIGURES = ["forward_tokens", "generated_tokens"]


def costs(**rows: tuple[int, float, int, int]) -> pl.DataFrame:
    """Rows of `labels.labeling_costs` by method: trajectories, seconds, forward and generated tokens."""
    names = ["method", "trajectories", "wall_seconds", *FIGURES]
    schema = dict(zip(names, [pl.String, pl.Int64, pl.Float64, pl.Int64, pl.Int64], strict=True))
    return pl.DataFrame([(name, *row) for name, row in rows.items()], schema, orient="row")


def by_method(frame: pl.DataFrame) -> dict[str, tuple[int, int, float]]:
    return {method: (*tokens, hours * 3600) for method, *tokens, hours in frame.iter_rows()}


def test_methods_of_one_price_share_a_row_and_controls_have_none():
    types = ("mc", "mc_hard", "pav", "cpmi", "gold_only", "cpmi_merge1", "rand_merge")
    assert method_groups(types) == {"mc": ["mc_hard"], "pav": [], "cpmi": [], "gold_only": [], "cpmi_merge1": []}
    assert method_groups(("neg_only", "cpmi")) == {"mc": [], "neg_only": ["cpmi"]}


def test_a_sample_is_scaled_by_its_trajectories():
    frame, labelled = scale(costs(mc=(2, 10.0, 1000, 800), cpmi=(2, 1.0, 600, 5)), costs(), 40)
    assert by_method(frame) == {"mc": (20_000, 16_000, 200.0), "cpmi": (12_000, 100, 20.0)}
    assert labelled == 0


def test_what_a_home_took_counts_in_the_place_of_the_estimate_and_what_was_not_labelled_is_as_fast():
    # MC took 10 s a trajectory where 20 s are estimated; of PAV no shard has rollouts
    counted = costs(mc=(2, 40.0, 1000, 800), cpmi=(2, 8.0, 600, 5), pav=(2, 60.0, 1500, 1200))
    frame, labelled = scale(counted, costs(mc=(4, 40.0, 2400, 2000), pav=(0, 0.0, 0, 0)), 8)
    assert by_method(frame) == {"mc": (4800, 4000, 80.0), "cpmi": (2400, 20, 16.0), "pav": (6000, 4800, 120.0)}
    assert labelled == 4


def invoke(*arguments: str) -> str:
    """What a command prints; errors of ours come out as they are."""
    result = CliRunner().invoke(app, arguments)
    if result.exception:
        raise result.exception
    return result.output


def test_the_table_names_every_method_and_ends_in_words(home):
    output = invoke("plan", "--profile", "miniature", "--hardware", "h100-80gb")
    for part in ("mc ", "pav ", "cpmi ", "cpmi_merge3 ", "everything", "mc stands for mc_hard too", "one h100-80gb"):
        assert part in output
    assert "Counted on 5 trajectories. Text that is not sampled yet is assumed" in output
    assert "rand_merge" not in output and "Not counted: step_surprisal, " in output


def test_quiet_leaves_the_table_alone(home):
    output = invoke("plan", "--profile", "miniature", "--quiet")
    assert "laptop-cpu" in output and "Counted on" not in output


def test_a_set_that_is_not_there_yet_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CPMI_HOME", str(tmp_path))
    with pytest.raises(LakeError, match="run `cpmi run --only sources --only alignment --only selection`"):
        invoke("plan", "--profile", "miniature")
    with pytest.raises(SettingsError, match="there is no hardware `h900`"):
        invoke("plan", "--profile", "miniature", "--hardware", "h900")


def test_a_plan_of_a_large_set_fits_a_usual_terminal():
    console = Console(width=100, record=True, file=StringIO())
    rows = [("mc", ["mc_hard"], 3_012_000_000, 2_870_000_000, 910.25), ("cpmi_leave_one_out", [], 5, 0, 0.002)]
    columns = ["method", "also", "forward_tokens", "generated_tokens", "gpu_hours"]
    plan = Plan(pl.DataFrame(rows, columns, orient="row"), "rtx4090-24gb", 80_000, 2000, 0)
    show_plan(console, plan, load_settings("paper"), quiet=True)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100 and "…" not in text
    assert "3,012,000,000" in text and "910.2 h" in text and "7.2 s" in text


def row_of(plan: Plan, method: str) -> dict:
    return plan.frame.row(by_predicate=pl.col("method") == method, named=True)


def plan_of(settings, hardware: str | None = None) -> Plan:
    return definitions.plan(settings, hardware, lambda *_: None)


@pytest.mark.slow
def test_a_plan_of_a_finished_home_is_what_the_run_reports(finished):
    reported = (
        Lake.of(finished).read("labels/labeling_costs").group_by("method").agg(pl.col(*FIGURES, "wall_seconds").sum())
    )
    plan = plan_of(finished)
    assert plan.labelled == plan.trajectories == plan.counted
    both = plan.frame.join(reported, on="method", suffix="_reported")
    assert both.height == 14
    for name in FIGURES:
        assert both[name].equals(both[f"{name}_reported"].alias(name))
    assert (both["gpu_hours"] * 3600).to_list() == pytest.approx(both["wall_seconds"].to_list())
    assert row_of(plan, "everything")["generated_tokens"] >= row_of(plan, "pav")["generated_tokens"]


@pytest.mark.slow
def test_the_labelers_tokens_are_counted_as_the_run_reports_them(finished):
    reported = Lake.of(finished).read("labels/labeling_costs").filter(method="cpmi")
    plan = plan_of(finished, "laptop-cpu")
    assert (plan.labelled, plan.hardware) == (0, "laptop-cpu")
    assert [row_of(plan, "cpmi")[name] for name in FIGURES] == [reported[name].sum() for name in FIGURES]


@pytest.mark.slow
def test_negatives_made_by_other_settings_are_not_counted_on(finished):
    other = finished.model_copy(update={"negatives": finished.negatives.model_copy(update={"samples": 0})})
    assert (
        row_of(plan_of(other), "cpmi")["generated_tokens"] == 0 < row_of(plan_of(finished), "cpmi")["generated_tokens"]
    )
