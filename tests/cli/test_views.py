"""Rows on a terminal, as CSV and as JSON: every value that a query returns has a form in each."""

import io
import json

import duckdb
import polars as pl
import pytest
from rich.text import Text

from cpmi_dagster.cli.safe_console import SafeConsole
from cpmi_dagster.cli.status_view import _marks, show_status
from cpmi_dagster.cli.tables import show_frame
from cpmi_dagster.cli.views import show_results
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import CpmiError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.status import AssetStatus, Stale


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
    show_status(console, [rewards], load_settings("miniature", tmp_path), None, False)
    assert said in console.file.getvalue()


def test_the_status_of_every_asset_is_a_line_of_a_terminal_of_80_columns(tmp_path):
    shards = {f"{number:03d}": "failed" if number in (17, 43) else "done" for number in range(99)}
    assets = [AssetStatus(key, shards if table.partitioning else {"all": "stale"}, 56_000_000, Cost(3.5, 1, 2, 3.5))
              for key, table in TABLES.items()]  # fmt: skip
    console = SafeConsole(file=io.StringIO(), width=80)
    show_status(console, assets, load_settings("miniature", tmp_path), None, of_each=True)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in console.file.getvalue()
    for key in TABLES:
        assert len([line for line in lines if line.startswith(f"  {key} ")]) == 1
    assert "Failed  labels/step_rewards: 017, 043" in lines


def test_by_default_a_group_is_one_line_and_what_is_stale_has_its_reason(tmp_path):
    names = ("labels/answer_logprobs", "labels/step_rewards", "reports/report")
    states = ({"000": "done", "001": "done"}, {"000": "stale", "001": "missing"}, {"all": "done"})
    assets = [AssetStatus(key, each, 5, Cost.zero()) for key, each in zip(names, states, strict=True)]
    console = SafeConsole(file=io.StringIO(), width=120)
    stale = Stale(["labels"], "2026-11-27 14:33", "the seed is 1")
    show_status(console, assets, load_settings("miniature", tmp_path), stale, of_each=False)
    shown = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["labels", "○·", "2/4", "10"] in shown and ["reports", "●", "1/1", "5"] in shown
    said = "Stale     labels, as of 2026-11-27 14:33 UTC: the seed is 1; `cpmi run` makes it again"
    assert said in console.file.getvalue()


@pytest.mark.parametrize(
    ("partitions", "marks"),
    [
        ({"all": "done"}, "●"),
        ({"001": "stale", "000": "done", "002": "failed"}, "●○✗"),
        ({f"{number:03d}": "missing" if number == 5 else "done" for number in range(40)}, "●·" + "●" * 12),
    ],
)
def test_a_mark_stands_for_a_partition_or_for_the_worst_of_several(partitions, marks):
    assert Text.from_markup(_marks(partitions)).plain == marks


@pytest.mark.parametrize(
    ("headline", "has_labels"),
    [
        ({"Reward": ["CPMI"], "Label AUC without last steps": ["0.77"]}, False),
        ({"Reward": ["CPMI"], "Time (MC = 1)": ["0.20"]}, True),
        ({}, True),
    ],
)
def test_a_run_ends_with_its_labels_unless_the_headline_says_how_good_they_are(tmp_path, headline, has_labels):
    console = SafeConsole(file=io.StringIO(), width=120)
    labels = pl.DataFrame({"reward": ["cpmi"], "steps": [8], "lowest at": ["t000000003 1"]})
    left_out = pl.DataFrame({"reason": ["it has no steps"], "count": [3], "first": ["row 7"]})
    said = {"Train?": "Not known: 7 of the 50 solutions"} if has_labels else {}
    show_results(console, pl.DataFrame(headline), labels, left_out, said, load_settings("miniature", tmp_path))
    shown = console.file.getvalue()
    assert ("labels made" in shown) == ("Train?    Not known: 7 of the 50 solutions" in shown) == has_labels
    assert "trace t000000003 1" in shown
    assert "Left out  row 7 and 2 more: it has no steps" in shown


def test_no_figure_of_the_headline_is_broken_on_a_terminal_of_80_columns(tmp_path):
    text = io.StringIO()
    console = SafeConsole(file=text, width=80)
    headline = pl.read_csv("docs/demo_headline.csv", infer_schema=False)
    nothing = pl.DataFrame(schema={"reason": pl.String, "count": pl.Int64, "first": pl.String})
    show_results(console, headline, pl.DataFrame(), nothing, {}, load_settings("miniature", tmp_path))
    shown = text.getvalue().split("Database")[0]
    assert max(map(len, shown.splitlines())) <= 80
    assert " CPMI                        0.685    41.4    28.0     61.4    0.02*    0.14*" in shown
