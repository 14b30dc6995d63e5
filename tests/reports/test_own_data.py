"""The report of own data: the verdict first, odd wrong answers flagged, nothing of the paper that is not measured."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.html import render_report
from cpmi_dagster.reports.own_data import oddity, own_data


@pytest.mark.parametrize(
    ("gold", "wrong", "words"),
    [
        ("17", "18", ""),
        ("17", "1700", ""),
        ("17", "17000", "far from the gold answer"),
        ("25000", "33", "far from the gold answer"),
        ("17", r"\frac{16}{3}", "not whole, as the gold answer is"),
        ("2.5", "3", "whole, unlike the gold answer"),
        ("A", "50", "no letter of an option, as the gold answer"),
        ("50", "B", "a letter of an option, unlike the gold answer"),
        ("A", "B", ""),
        ("17", "(1, 2)", "of another kind than the gold answer"),
        (r"8\text{ meals}", "9", "without the unit of the gold answer"),
        ("8", "9 meals", "with a unit, unlike the gold answer"),
        ("50%", "40%", ""),
        ("50", "40%", "with a unit, unlike the gold answer"),
        ("8 meals", "9 meals", ""),
    ],
)
def test_a_wrong_answer_that_gives_itself_away_is_odd(gold, wrong, words):
    assert oddity(gold, wrong) == words


@pytest.fixture(scope="module")
def page(inputs: ReportInputs, comparisons: dict[str, pl.DataFrame]) -> str:
    wrong = {"trajectory_id": "t000000000", "rank": [1, 2], "answer": ["$(1, 2)$", "90,000"], "source": "model"}
    frames = {key: frame for key, frame in inputs.frames.items() if not key.endswith("_problems")}
    frames = {key: frame for key, frame in frames.items() if not key.startswith("benchmarks/")}
    own = replace(inputs, frames={**frames, "labels/hard_negatives": pl.DataFrame(wrong)})
    measured = ("label_quality", "label_trust", "reward_models")
    of_labels = {name: build_artifact(ARTIFACTS[name], inputs, "mine", is_own=True) for name in measured[:2]}
    tables = comparisons | of_labels
    tables = {name: tables[name] for name in measured}
    opened = own_data(own, tables, ["cpmi", "right_so_far"], 3, " -p mine.yaml")
    return render_report("mine", "2026-01-31", tables, own, profile_option=" -p mine.yaml", own=opened)


def test_the_report_of_own_data_opens_with_the_verdict_and_names_no_table_that_is_not_measured(page: str):
    main = page.partition("<main>")[2]
    assert main.index("Train on the labels of CPMI?") < main.index("What it cost") < main.index("The labels themselves")
    assert "Train on Right so far?" in main
    assert "2 of 2 look odd" in page and "“$(1, 2)$”, “90,000”" in page and "“90,000”: far from the gold answer" in page
    assert "own-" in page and "80 of 80 solutions of 40 questions, 400 steps" in page
    assert "plot-own_labels" in main and "<h2>What was found</h2>" in main
    for words in ("not measured", "fig:main", "Merges that start from PAV", "without a figure of ours", "cpmi_80k"):
        assert words not in page, words
