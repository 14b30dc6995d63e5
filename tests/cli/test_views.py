"""Rows on a terminal, as CSV and as JSON: every value that a query returns has a form in each."""

import io
import json

import duckdb
import polars as pl
import pytest

from cpmi_dagster.cli.safe_console import SafeConsole
from cpmi_dagster.cli.tables import show_frame
from cpmi_dagster.cli.views import show_results, show_status
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.status import AssetStatus


def shown(sql: str, form: str) -> str:
    console = SafeConsole(file=io.StringIO(), width=120)
    show_frame(console, duckdb.sql(sql).pl(), form)
    return console.file.getvalue()


def test_a_column_may_be_named_like_markup():
    assert "[/red]" in shown("""select 1 as "[/red]" """, "table")


@pytest.mark.parametrize(
    ("value", "json_value", "csv"),
    [
        ("'nan'::double", None, "NaN"),
        ("'-inf'::double", None, "-inf"),
        ("[1.5, 'inf'::double]", [1.5, None], '"[1.5, null]"'),
        ("'a'::blob", "61", "61"),
        ("map {date '2026-01-02': 1}", {"2026-01-02": 1}, '"{""2026-01-02"": 1}"'),
        ("{'a': [1, 2]}", {"a": [1, 2]}, '"{""a"": [1, 2]}"'),
    ],
)
def test_values_that_json_or_csv_lack_have_a_form_in_both(value, json_value, csv):
    assert json.loads(shown(f"select {value} as x", "json"), parse_constant=pytest.fail) == [{"x": json_value}]
    assert shown(f"select {value} as x", "csv") == f"x\n{csv}\n"


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_column_that_cannot_be_shown_is_named_with_what_to_do(form):
    with pytest.raises(CpmiError, match=r'the column `m` .* cast it, as in `"m"::varchar`'):
        shown("select map {[1]: 1} as m", form)


@pytest.mark.parametrize(
    ("state", "said"),
    [("done", "nothing is left to label"), ("stale", "about 1 s left"), ("running", "about 1 s left")],
)
def test_status_says_that_nothing_is_left_only_where_every_label_is_done(tmp_path, state, said):
    console = SafeConsole(file=io.StringIO(), width=120)
    rewards = AssetStatus("labels/step_rewards", {"000": "done", "001": state}, 5, Cost.zero())
    show_status(console, [rewards], load_settings("miniature", tmp_path))
    assert said in console.file.getvalue()


@pytest.mark.parametrize(
    ("headline", "has_labels"),
    [
        ({"Reward": ["CPMI"], "Label AUC (true steps)": ["0.77"]}, False),
        ({"Reward": ["CPMI"], "Time (MC = 1)": ["0.20"]}, True),
        ({}, True),
    ],
)
def test_a_run_ends_with_its_labels_unless_the_headline_says_how_good_they_are(tmp_path, headline, has_labels):
    console = SafeConsole(file=io.StringIO(), width=120)
    labels = pl.DataFrame({"reward": ["cpmi"], "steps": [8], "lowest at": ["t000000003 1"]})
    left_out = pl.DataFrame({"reason": ["it has no steps"], "count": [3], "first": ["row 7"]})
    judged = "7 judged steps: too few" if has_labels else ""
    show_results(console, pl.DataFrame(headline), labels, left_out, judged, load_settings("miniature", tmp_path))
    shown = console.file.getvalue()
    assert ("labels made" in shown) == ("Truth     7 judged steps: too few" in shown) == has_labels
    assert "trace t000000003 1" in shown
    assert "Left out  row 7 and 2 more: it has no steps" in shown
