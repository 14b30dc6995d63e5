"""From fewer than ten resampled units there is no interval, p-value or verdict anywhere: `too few (9 questions)`."""

import re
from dataclasses import replace
from html import unescape

import polars as pl
import pytest

from cpmi_dagster.benchmarks.resampling import FEWEST_UNITS
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.findings import findings
from cpmi_dagster.reports.headline import format_headline, headline_table
from cpmi_dagster.reports.html import render_report
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.quality import card_figures

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


@pytest.fixture(scope="module", params=[2, 9])
def few(request: pytest.FixtureRequest, inputs: ReportInputs) -> tuple[int, ReportInputs, Comparisons]:
    """So many units, their inputs, and every artifact."""
    own = of_few(inputs, request.param)
    return request.param, own, {name: build_artifact(each, own, "few") for name, each in ARTIFACTS.items()}


def bootstrapped(comparisons: Comparisons) -> pl.DataFrame:
    """All figures of ours but those of chance."""
    return pl.concat(comparisons.values()).filter(pl.col("unit").is_in(["question", "shard"]))


def test_every_interval_rests_on_ten_units_and_says_on_how_many(comparisons: Comparisons) -> None:
    every = pl.concat(comparisons.values()).drop_nulls("low")
    assert every.height > 500 and every["units"].null_count() == 0
    assert bootstrapped({"": every})["units"].min() >= FEWEST_UNITS


def test_figures_of_few_units_stay_without_interval_or_p_value(few, comparisons: Comparisons) -> None:
    count, _, artifacts = few
    found = bootstrapped(artifacts)
    assert found["units"].max() <= count
    assert found["low"].count() == found["high"].count() == 0
    is_p = pl.col("column").str.contains(r" p( \(Holm\))?$")
    assert found.filter(is_p)["measured"].count() == 0 < found.filter(is_p).height
    assert found.filter(~is_p)["measured"].null_count() == 0
    assert set(found["artifact"]) == set(bootstrapped(comparisons)["artifact"])


def test_the_report_and_its_plots_say_too_few_in_the_place_of_intervals_and_verdicts(few) -> None:
    count, own, artifacts = few
    few_of = r"too few \((\d (questions?|shards)|\d+ right, \d+ wrong)\)"
    assert all(re.fullmatch(few_of, finding.verdict) for finding in findings(artifacts))
    html = unescape(render_report("few", "2026-01-31", artifacts, own))
    assert "this data can" not in html and "distinguished" not in html
    assert f"too few ({count} questions)" in html and f"too few ({count} shards)" in html
    assert ("too few (1 question)" in html) == (count == 2)
    assert not re.findall(r"; n=\d\]", html)


def test_the_headline_and_the_cards_have_figures_without_intervals(few) -> None:
    _, own, artifacts = few
    cells = [cell for row in format_headline(headline_table(artifacts, own.recipes)).rows() for cell in row]
    measured = [*cells, *(text for _, text in card_figures(own, "cpmi_bce"))]
    assert any("too few (" in text for text in measured)
    assert not any("[" in text for text in measured if not re.search(r"n=100\]", text))


def test_one_judged_solution_gives_no_verdict_however_many_steps_it_has(inputs: ReportInputs) -> None:
    """Twelve right and twelve wrong steps, told apart by every label."""
    frames = of_few(inputs, 1).frames
    one = frames["alignment/trajectories"].head(1).with_columns(steps=pl.lit(["s"] * 24), shepherd_labels=None)
    steps = pl.DataFrame({"trajectory_id": one["trajectory_id"].item(), "step_index": range(24)})
    types = pl.DataFrame({"reward_type": ["mc", "cpmi", "position", "step_surprisal"]})
    rewards = steps.join(types, how="cross").with_columns(reward=-pl.col("step_index").cast(pl.Float64))
    truth = pl.DataFrame({"row_number": one["row_number"], "correct": [[True] * 12 + [False] * 12]})
    judged = {"alignment/trajectories": one, "labels/step_rewards": rewards, "sources/step_truth": truth}
    own = ReportInputs(judged, bootstrap_samples=40, fewest_judged=FEWEST_UNITS)
    artifacts = {name: build_artifact(each, own, "one") for name, each in ARTIFACTS.items()}
    assert artifacts["label_quality"].filter(row="CPMI", column="Label AUC")["measured"].item() == 1
    assert bootstrapped(artifacts)["low"].count() == 0
    assert findings(artifacts)[0].verdict == "too few (1 question)"
    html = render_report("one", "2026-01-31", artifacts, own)
    assert "this data can" not in html and "too few (1 question)" in html
