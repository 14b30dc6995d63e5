"""From fewer than ten resampled units there is no interval, p-value or verdict anywhere: `too few (9 questions)`."""

import re
from dataclasses import replace
from html import unescape

import polars as pl
import pytest

from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.html import comparison_table, render_report
from cpmi_dagster.reports.paper import load_paper_tables
from cpmi_dagster.reports.summary import findings, format_headline, headline_table

pytestmark = pytest.mark.slow

Comparisons = dict[str, pl.DataFrame]
OF_LABELS = ("alignment/trajectories", "labels/step_rewards", "labels/answer_logprobs")
PREDICTED = ("benchmarks/processbench_predictions", "benchmarks/prmbench_predictions")
NUMBER = r"(\d+)$"


def of_few(inputs: ReportInputs, count: int) -> ReportInputs:
    """The made-up world with so many questions, problems of each set and shards."""
    frames = dict(inputs.frames)

    def first(key: str, column: str) -> pl.DataFrame:
        return frames[key].filter(pl.col(column).str.extract(NUMBER).cast(pl.Int64) < count)

    kept = first("alignment/trajectories", "question_id")
    frames |= {key: frames[key].join(kept, on="trajectory_id", how="semi", maintain_order="left") for key in OF_LABELS}
    frames["sources/step_truth"] = frames["sources/step_truth"].join(kept, on="row_number", how="semi")
    frames["sources/benchmark_problems"] = problems = first("sources/benchmark_problems", "question")
    frames |= {key: frames[key].join(problems, on="problem_id", how="semi", maintain_order="left") for key in PREDICTED}
    frames["benchmarks/best_of_n_choices"] = first("benchmarks/best_of_n_choices", "problem_id")
    frames["labels/labeling_costs"] = first("labels/labeling_costs", "shard")
    return replace(inputs, frames=frames)


@pytest.fixture(scope="module")
def few(inputs: ReportInputs) -> tuple[ReportInputs, Comparisons]:
    """Inputs of nine units, and every artifact."""
    own = of_few(inputs, 9)
    return own, {name: build_artifact(each, own, "few") for name, each in ARTIFACTS.items()}


def bootstrapped(comparisons: Comparisons) -> pl.DataFrame:
    """All figures of ours but those of chance."""
    return pl.concat(comparisons.values()).filter(pl.col("unit").is_in(["question", "shard"]))


def test_figures_of_few_units_stay_without_interval_or_p_value(few, comparisons: Comparisons) -> None:
    _, artifacts = few
    found = bootstrapped(artifacts)
    assert found["units"].max() <= 9
    assert found["low"].count() == found["high"].count() == 0
    is_p = pl.col("column").str.contains(r" p( \(Holm\))?$")
    assert found.filter(is_p)["measured"].count() == 0 < found.filter(is_p).height
    assert found.filter(~is_p)["measured"].null_count() == 0
    every = pl.concat(comparisons.values()).drop_nulls("low")
    assert bootstrapped({"": every})["units"].min() >= FEWEST_UNITS and every.height > 500


def test_the_report_and_its_plots_say_too_few_in_the_place_of_intervals_and_verdicts(few) -> None:
    own, artifacts = few
    few_of = r"too few \((\d (questions?|shards)|\d+ right, \d+ wrong)\)"
    assert all(re.fullmatch(few_of, finding.verdict) for finding in findings(artifacts))
    html = unescape(render_report("few", "2026-01-31", artifacts, own))
    assert "this data can" not in html and "distinguishable" not in html
    assert "too few (9 questions)" in html and "too few (9 shards)" in html
    assert not re.findall(r"; n=\d\]", html)


def test_figures_of_few_questions_are_not_printed_and_those_of_few_shards_are(few) -> None:
    own, artifacts = few
    table = comparison_table(load_paper_tables()["efficiency"], artifacts["efficiency"])
    cells = [cell for _, line in table.rows for cell in line if cell.interval]
    of = {unit: [cell for cell in cells if unit in cell.interval] for unit in ("question", "shard")}
    assert {cell.ours for cell in of["question"]} == {""} and all(cell.ours for cell in of["shard"])
    headline = format_headline(headline_table(artifacts, own.recipes))
    texts = [text for line in headline.drop("Reward").rows() for text in line if "question" in text]
    assert texts and all(re.fullmatch(r"too few \(\d questions\)", text) for text in texts)


def test_a_table_without_a_figure_of_enough_questions_is_one_sentence(few) -> None:
    _, artifacts = few
    table = comparison_table(load_paper_tables()["label_trust"], artifacts["label_trust"].filter(pl.col("units") < 10))
    assert not table.rows and "from 10 questions on" in table.caption
