"""The lines of `cpmi run`: of what made rows or took time, and how many had none."""

import io

import pytest
from rich.console import Console

from cpmi_dagster.resources.dag import terminal
from cpmi_dagster.resources.dag.terminal import TerminalProgress


@pytest.mark.parametrize(
    ("stage", "rows", "seconds", "skipped", "has_line"),
    [
        ("step_rewards", 89, 0.0, False, True),
        ("step_rewards", 89, 0.0, True, False),
        ("prover_rollouts", 0, 0.0, False, False),
        ("prover_rollouts", 0, 1.5, False, True),
    ],
)
def test_a_stage_has_a_line_if_it_made_rows_of_its_own_or_took_time(stage, rows, seconds, skipped, has_line):
    console = Console(file=io.StringIO())
    with TerminalProgress(console, {stage: 1, "other": 1}) as progress:
        progress.finish(stage, None, rows, seconds, skipped)
        progress.finish("other", None, 1, 0.0, False)
        progress.summary()
    text = console.file.getvalue()
    assert (stage in text, "and 1 more tables" in text) == (has_line, not has_line)


def test_where_nothing_was_made_one_line_says_so():
    console = Console(file=io.StringIO())
    with TerminalProgress(console, {"step_rewards": 2}) as progress:
        for shard in ("000", "001"):
            progress.finish("step_rewards", shard, 89, 0.0, True)
        progress.summary()
    assert console.file.getvalue() == "Everything is up to date: nothing was recomputed.\n"


@pytest.mark.parametrize("made", [True, False])
def test_what_has_been_made_is_said_where_something_was(made):
    console = Console(file=io.StringIO())
    with TerminalProgress(console, {"step_rewards": 1}) as progress:
        progress.finish("step_rewards", None, 89, 0.0, skipped=not made)
        progress.say("labels in [home]")
    assert ("labels in [home]" in console.file.getvalue()) == made


def test_a_part_of_a_stage_has_a_line_after_long_silence_and_counts_as_no_table(monkeypatch):
    monkeypatch.setattr(terminal, "LINE_EVERY_SECONDS", -1.0)
    console = Console(file=io.StringIO())
    with TerminalProgress(console, {"step_rewards": 3, "other": 1}) as progress:
        for shard in ("000", "001", "002"):
            progress.finish("step_rewards", shard, 89, 0.0, True)
        progress.finish("other", None, 1, 0.0, False)
        progress.summary()
    text = console.file.getvalue()
    assert "1 of 3" in text and "2 of 3" in text and "and 1 more tables" in text


def test_a_line_says_how_many_were_answered_before():
    console = Console(file=io.StringIO())
    with TerminalProgress(console, {"answer_logprobs": 2}) as progress:
        for shard in ("000", "001"):
            progress.count_kept("answer_logprobs", 5, 6)
            progress.finish("answer_logprobs", shard, 89, 0.0, False)
    assert "kept 10 of 12" in console.file.getvalue()
