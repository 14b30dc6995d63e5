"""Data on a terminal: every command prints through one console, which lets nothing of it act."""

import io
import os
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cpmi_dagster.cli import commands
from cpmi_dagster.cli.safe_console import SafeConsole
from cpmi_dagster.cli.tables import show_frame, table_of
from cpmi_dagster.files.text import NOT_SHOWN, encodable
from cpmi_dagster.resources.dag.terminal import TerminalProgress

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
TEXTS = st.text(st.sampled_from("a[]/\\:\x1b\x07\x9b\r\x00\u202e\ud800 1 é\n")) | st.text()


def terminal() -> SafeConsole:
    """A console that takes itself for a terminal, without colours of its own."""
    return SafeConsole(file=io.StringIO(), width=120, force_terminal=True, color_system=None)


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
    show_frame(console, pl.DataFrame({"x": [f"{CLIPBOARD}\x9b2J"]}), form)
    assert "u001b]52;c;" in console.file.getvalue() and "u009b2J" in console.file.getvalue()
    assert not NOT_SHOWN.search(console.file.getvalue())


def test_a_program_that_reads_csv_gets_the_data_as_they_are():
    console = SafeConsole(file=io.StringIO(), force_terminal=False)
    show_frame(console, pl.DataFrame({"x": [CLIPBOARD]}), "csv")
    assert console.file.getvalue() == f"x\n{CLIPBOARD}\n"


def test_neither_markup_nor_emoji_of_data_are_read():
    console = terminal()
    show_frame(console, pl.DataFrame({"x": ["[red]a[/red] :100:"]}), "table")
    assert "[red]a[/red] :100:" in console.file.getvalue()


def test_labels_of_progress_are_text():
    console = SafeConsole(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    with TerminalProgress(console, {"labels.x": 1}) as progress:
        progress.start(f"[/red]{CLIPBOARD}", 2, print)(1)
        progress.finish("labels.x", None, 1, 0.1, False)
    assert "52;c;" not in console.file.getvalue().replace("u001b]52;c;", "")


@pytest.mark.parametrize("place", ["profile", "input"])
def test_an_error_that_quotes_a_control_character_writes_it_out(tmp_path, place):
    (tmp_path / "in.jsonl").write_text("{}")
    arguments = {
        "profile": ["status", "-p", f"x{CLIPBOARD}[/red]"],
        "input": ["score", "--model", "miniature:labeler", "--input", f"x{CLIPBOARD}", "--output", "out.parquet"],
    }[place]
    environment = {**os.environ, "CPMI_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "cpmi_dagster", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "\\u001b]52;c;" in done.stderr
    assert not NOT_SHOWN.search(done.stderr)


def test_a_plain_console_would_have_let_them_through():
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(CLIPBOARD, markup=False)
    assert NOT_SHOWN.search(console.file.getvalue())
