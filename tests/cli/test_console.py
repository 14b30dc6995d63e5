"""Data on a terminal: every command prints through one console, which lets nothing of it act."""

import io
import json

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

from cpmi_dagster.cli import commands
from cpmi_dagster.cli.console import SafeConsole, show_frame, table_of
from cpmi_dagster.files.text import NOT_SHOWN, encodable
from cpmi_dagster.resources.dag import progress as stage_progress
from cpmi_dagster.resources.dag.progress import TerminalProgress

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
TEXTS = st.text(st.sampled_from("a[]/\\:\x1b\x07\x9b\r\x00\u202e\ud800 1 é\n")) | st.text()


def terminal(is_terminal: bool = True) -> SafeConsole:
    """A console without colours of its own."""
    return SafeConsole(file=io.StringIO(), width=120, force_terminal=is_terminal, color_system=None)


def test_every_console_of_the_commands_is_safe():
    assert isinstance(commands.OUT, SafeConsole) and isinstance(commands.ERR, SafeConsole)


@given(TEXTS)
def test_no_text_acts_on_the_terminal_whichever_way_it_is_printed(text):
    console = terminal()
    console.print(text, markup=False)
    kept = encodable(text)
    console.print(table_of(pl.DataFrame({f"{kept}x": [kept]}), title=text))
    assert not NOT_SHOWN.search(console.file.getvalue())


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_rows_of_a_query_show_what_a_terminal_would_obey(form):
    console = terminal()
    show_frame(console, pl.DataFrame({"x": [f"{CLIPBOARD}[red]a[/red] :100:"]}), form)
    assert "u001b]52;c;" in console.file.getvalue() and "[red]a[/red] :100:" in console.file.getvalue()
    assert not NOT_SHOWN.search(console.file.getvalue())


def test_a_program_that_reads_csv_gets_the_data_as_they_are():
    console = terminal(is_terminal=False)
    show_frame(console, pl.DataFrame({"x": [CLIPBOARD]}), "csv")
    assert console.file.getvalue() == f"x\n{CLIPBOARD}\n"


def test_outside_a_terminal_a_stage_at_work_has_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(stage_progress, "LINE_EVERY_SECONDS", 0)
    console = terminal(is_terminal=False)
    with TerminalProgress(console, {}) as progress:
        progress.start("hard_negatives 000", 38, print)
        wait_until(lambda: "hard_negatives 000  " in console.file.getvalue(), 60, "nothing was said")
    assert "0 of 38, after" in console.file.getvalue()


def test_the_rows_of_a_user_are_called_theirs_and_what_is_kept_has_a_unit():
    console = terminal(is_terminal=False)
    with TerminalProgress(console, {}, words={"math_shepherd": "your trajectories"}) as progress:
        progress.count_cached("math_shepherd", 8, 30)
        progress.finish_partition("math_shepherd", None, 24, 2.0, False)
    said = console.file.getvalue()
    assert "your trajectories" in said and "math_shepherd" not in said and "answers to 8 of 30 model inputs" in said


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
    def shown(form: str) -> str:
        console = terminal(is_terminal=False)
        show_frame(console, duckdb.sql(f"select {value} as x").pl(), form)
        return console.file.getvalue()

    assert json.loads(shown("json"), parse_constant=pytest.fail) == [{"x": json_value}]
    assert shown("csv") == f"x\n{csv}\n"
