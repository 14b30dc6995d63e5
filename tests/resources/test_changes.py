"""What changed since the previous run: only what both have, and differs."""

import polars as pl

from cpmi_dagster.contracts.keys import FIGURES, STEP_REWARDS
from cpmi_dagster.reports.html import render_report
from cpmi_dagster.resources.commands.summary import changes_since


def answer(cpmi: list[float], aucs: dict[str, float]) -> dict[str, pl.DataFrame]:
    steps = pl.DataFrame({"trajectory_id": "t0", "step_index": [0, 1], "reward_type": "cpmi", "reward": cpmi})
    length = steps.with_columns(reward_type=pl.lit("step_length"), reward=pl.Series([-5.0, -6.0]))
    figures = pl.DataFrame(
        {"artifact": "label_quality", "row": [*aucs], "column": "Label AUC", "measured": [*aucs.values()]}
    )
    return {STEP_REWARDS: pl.concat([steps, length]), FIGURES: figures}


def test_settings_labels_and_figures_that_differ_are_listed_and_nothing_else():
    before, now = answer([0.5, 1.5], {"CPMI": 0.6, "MC": 0.7, "PAV": 0.1}), answer([0.5, 3.5], {"CPMI": 0.8, "MC": 0.7})
    changes = changes_since(before, now, {"scoring.templates": 4, "seed": 0}, {"scoring.templates": 2, "seed": 0})
    assert {title.partition(":")[0]: frame.rows() for title, frame in changes.items()} == {
        "Settings of the labels": [("scoring.templates", "4", "2")],
        "Labels": [("CPMI", 2, 1, 1.0, 2.0)],
        "Figures": [("label_quality", "CPMI", "Label AUC", 0.6, 0.8)],
    }
    assert "What changed since the previous run</h2>" in render_report("p", "2026-01-31", {}, changes=changes)
    assert changes_since(now, now, {}, {}) == {}
    assert "the previous run" not in render_report("p", "2026-01-31", {})
