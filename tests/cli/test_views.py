"""What is printed on a terminal, as CSV and as JSON: every value that a query returns has a form in each."""

import io
import json

import duckdb
import polars as pl
import pytest

from cpmi_dagster.cli.safe_console import SafeConsole
from cpmi_dagster.cli.status_view import show_status
from cpmi_dagster.cli.tables import show_frame
from cpmi_dagster.cli.views import show_results
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.status import AssetStatus, Stale

NOTHING_LEFT_OUT = pl.DataFrame(schema={"reason": pl.String, "count": pl.Int64, "first": pl.String})


@pytest.fixture
def settings(tmp_path) -> Settings:
    return load_settings("miniature", tmp_path)


def shown(show, *arguments, width: int = 120) -> str:
    console = SafeConsole(file=io.StringIO(), width=width)
    show(console, *arguments)
    return console.file.getvalue()


def rows(sql: str, form: str) -> str:
    return shown(show_frame, duckdb.sql(sql).pl(), form)


@pytest.mark.parametrize(
    ("value", "json_value", "csv"),
    [
        ("'nan'::double", None, "NaN"),
        ("[1.5, 'inf'::double]", [1.5, None], '"[1.5, null]"'),
        ("'a'::blob", "61", "61"),
        ("map {date '2026-01-02': 1}", {"2026-01-02": 1}, '"{""2026-01-02"": 1}"'),
        ("{'a': [1, 2]}", {"a": [1, 2]}, '"{""a"": [1, 2]}"'),
    ],
)
def test_values_that_json_or_csv_lack_have_a_form_in_both(value, json_value, csv):
    assert json.loads(rows(f"select {value} as x", "json"), parse_constant=pytest.fail) == [{"x": json_value}]
    assert rows(f"select {value} as x", "csv") == f"x\n{csv}\n"


@pytest.mark.parametrize(
    ("state", "said"),
    [("done", "nothing is left to label"), ("stale", "about 1 s left"), ("running", "about 1 s left")],
)
def test_status_says_that_nothing_is_left_only_if_every_label_is_done(settings, state, said):
    rewards = AssetStatus("labels/step_rewards", {"000": "done", "001": state}, 5, Cost.zero())
    assert said in shown(show_status, [rewards], settings, None, False)


def test_the_status_of_every_asset_is_a_line_of_a_terminal_of_80_columns(settings):
    shards = {f"{number:03d}": "failed" if number in (17, 43) else "done" for number in range(99)}
    assets = [AssetStatus(key, shards if table.partitioning else {"all": "stale"}, 56_000_000, Cost(3.5, 1, 2, 3.5))
              for key, table in TABLES.items()]  # fmt: skip
    text = shown(show_status, assets, settings, None, True, width=80)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in text
    assert all(len([line for line in lines if line.startswith(f"  {key} ")]) == 1 for key in TABLES)
    assert "Failed  labels/step_rewards: 017, 043" in lines


def test_by_default_a_group_is_one_line_and_what_is_stale_has_its_reason(settings):
    states = {
        "labels/answer_logprobs": {"000": "done", "001": "done"},
        "labels/step_rewards": {"001": "missing", "000": "stale"},
        "models/process_reward_models": {f"{n:02d}": "missing" if n == 5 else "done" for n in range(32)},
    }
    assets = [AssetStatus(key, each, 5, Cost.zero()) for key, each in states.items()]
    stale = Stale(["labels"], "2026-11-27 14:33", "the seed is 1")
    text = shown(show_status, assets, settings, stale, False)
    lines = [line.split() for line in text.splitlines()]
    assert ["labels", "○·", "2/4", "10"] in lines
    assert ["models", f"●●·{'●' * 13}", "31/32", "5"] in lines
    assert "Stale     labels, as of 2026-11-27 14:33 UTC: the seed is 1; `cpmi run` makes it again" in text


def test_no_figure_of_the_headline_is_broken_on_a_terminal_of_80_columns(settings):
    headline = pl.read_csv("docs/demo_headline.csv", infer_schema=False)
    text = shown(show_results, headline, pl.DataFrame(), NOTHING_LEFT_OUT, {}, settings, width=80).split("Database")[0]
    assert max(map(len, text.splitlines())) <= 80
    assert " CPMI                        0.685    41.4    28.0     61.4    0.02*    0.14*" in text
