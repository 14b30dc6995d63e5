"""The report of own data: the verdict first, odd wrong answers flagged, nothing of the paper that is not measured."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.reports.html import render_report
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.own_data import oddity, own_data
from cpmi_dagster.reports.reward_models import describe_models, model_figures


@pytest.mark.parametrize(
    ("gold", "wrong", "words"),
    [
        ("17", "18", ""),
        ("17", "1700", ""),
        ("17", "17000", "is far from the gold answer"),
        ("17", r"\frac{16}{3}", "is no whole number, as the gold answer is"),
        ("17", "(1, 2)", "is of another kind than the gold answer"),
        (r"\frac{1}{2}", r"\frac{1}{3}", ""),
        ("yes", "no", ""),
    ],
)
def test_a_wrong_answer_that_gives_itself_away_is_odd(gold, wrong, words):
    assert oddity(gold, wrong) == words


@pytest.fixture(scope="module")
def page(inputs: ReportInputs, comparisons: dict[str, pl.DataFrame]) -> str:
    wrong = {"trajectory_id": "t000000000", "rank": [1, 2], "answer": ["2", "90000"], "source": "model"}
    frames = {key: frame for key, frame in inputs.frames.items() if not key.endswith("_problems")}
    frames = {key: frame for key, frame in frames.items() if not key.startswith("benchmarks/")}
    own = replace(inputs, frames={**frames, "labels/hard_negatives": pl.DataFrame(wrong)})
    measured = ("label_quality", "label_trust", "reward_models")
    tables = {name: comparisons[name] for name in measured}
    opened = own_data(own, tables, "cpmi", 3, " -p mine.yaml")
    return render_report("mine", "2026-01-31", tables, own, profile_option=" -p mine.yaml", own=opened)


def test_the_report_of_own_data_opens_with_the_verdict_and_names_no_table_that_is_not_measured(page: str):
    main = page.partition("<main>")[2]
    assert main.index("Train on the labels of CPMI?") < main.index("What it cost") < main.index("The labels themselves")
    assert "1 of 2 look odd" in page and "90000 is far from the gold answer" in page
    assert "own-" in page and "80 of 80 solutions of 40 questions, 400 steps" in page
    for words in ("not measured", "fig:main", "Merges that start from PAV", "without a figure of ours", "cpmi_80k"):
        assert words not in page, words


def test_a_model_whose_scores_lie_in_a_narrow_band_is_called_that():
    rows = [
        ("cpmi_bce", "AUC against its own labels", 0.61, 0.55, 0.67),
        ("cpmi_bce", "Lowest score", 0.51, None, None),
        ("cpmi_bce", "Highest score", 0.55, None, None),
    ]
    table = pl.DataFrame(rows, ["row", "column", "measured", "low", "high"], orient="row").with_columns(
        n=90, units=20, unit=pl.lit("question")
    )
    said = "AUC 0.610 [0.550, 0.670; n=20] against its own labels (chance 0.5). Its scores lie between 0.51 and 0.55:"
    assert describe_models(table)["cpmi_bce"].startswith(said)
    assert dict(model_figures(table, "cpmi_bce"))["Scores, the middle nine tenths"].startswith(
        "0.510 to 0.550: hardly any"
    )
    wide = table.with_columns(measured=pl.when(pl.col("column") == "Highest score").then(0.9).otherwise("measured"))
    assert "scores lie" not in describe_models(wide)["cpmi_bce"]
