"""The HTML report: complete, self-contained, escaped, and honest about noise."""

import re
from html import unescape
from pathlib import Path

import polars as pl
import pytest

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.artifacts import ARTIFACTS, build_artifact
from cpmi_dagster.reports.figures import ReportInputs
from cpmi_dagster.reports.html import EXPLORER, render_report
from cpmi_dagster.reports.summary import headline_table
from cpmi_dagster.resources.lake.database import publish
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import query

pytestmark = pytest.mark.slow

Comparisons = dict[str, pl.DataFrame]


@pytest.fixture(scope="module")
def report(inputs: ReportInputs, comparisons: Comparisons) -> str:
    return render_report(
        "miniature",
        "2026-01-31",
        comparisons,
        inputs,
        models={"labeler": "<b>model & weights</b>"},
        provenance=pl.DataFrame({"relation": ["labels.step_rewards"], "fingerprint": ["a1b2c3"]}),
        versions={"polars": "2.1.0"},
        profile_option=" -p mine",
    )


def test_the_report_has_one_section_and_a_link_for_every_artifact_and_fetches_nothing(report: str):
    for name in ARTIFACTS:
        assert report.count(f'id="{name}"') == 1 and f'href="#{name}"' in report
    assert not re.findall(r'<(?!a\b)[^>]*\s(?:src|href|xlink:href)="(?!#|data:)', report)
    assert set(re.findall(r"http[^\"]*?//[^/\"]*", report)) == {EXPLORER}  # of links to a program of this machine
    assert not re.search(r"@import|url\((?!#)", report)


def test_what_is_shown_is_escaped_and_the_papers_figures_are_marked(report: str):
    assert "<b>model" not in report
    assert "&lt;b&gt;model &amp; weights" in report
    assert '<span class="paper"><span class="tag">paper </span>39.6</span>' in report
    assert '<span class="interval">[' in report


def test_each_measured_table_names_the_command_that_shows_what_is_behind_it(report: str):
    named = re.findall(r"cpmi trace -p mine --figure (\w+)</code>", report)
    assert named and set(named) <= set(ARTIFACTS) and len(named) == len(set(named))
    assert {"label_quality", "processbench", "differences"} <= set(named)


def test_a_report_of_nothing_renders_with_the_papers_figures():
    nothing = {name: build_artifact(artifact, ReportInputs(), "empty") for name, artifact in ARTIFACTS.items()}
    html = render_report("empty", "2026-01-31", nothing)
    assert "<svg" not in html and "76.31" in html
    assert not headline_table(nothing)
    assert "Nothing has been measured on this profile yet." in html


def test_every_query_shown_runs(report: str, tmp_path: Path):
    settings = load_settings("miniature", tmp_path)
    publish(Lake.of(settings), settings)
    queries = re.findall(r'cpmi query -p mine\s+"([^"]*)"', unescape(report))
    assert len(queries) == 2
    for sql in queries:
        assert query(settings, sql).rows.is_empty()
