"""A log line as JSON is one line, whatever is in it, and says what it is about."""

import json
import logging
import sys
from threading import Thread

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.json_log import JsonFormatter, check_log_format, logged_as
from cpmi_dagster.profiles.settings import load_settings


def line_of(message: str, *arguments: object, **options: object) -> str:
    record = logging.LogRecord(
        "cpmi_dagster.resources.lake.lake", logging.WARNING, "", 1, message, arguments, options.get("error")
    )
    return JsonFormatter().format(record)


def test_a_text_neither_ends_its_line_nor_acts_on_a_terminal():
    text = "a\nb\x1b]52;c;ZXZpbA==\x07\x9b\u2028 ки"
    line = line_of("%s", text)
    assert line.isascii() and line.isprintable()
    read = json.loads(line)
    assert read["message"] == text
    assert (read["level"], read["logger"], read["time"][-6:]) == (
        "WARNING",
        "cpmi_dagster.resources.lake.lake",
        "+00:00",
    )


def test_an_exception_is_a_field_of_its_line():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = line_of("it failed", error=sys.exc_info())
    assert "ValueError: two\nlines" in json.loads(line)["error"]


def test_lines_within_a_block_say_what_it_is_about_and_those_of_other_threads_do_not():
    others: list[str] = []
    with logged_as(run_id="r", stage="labels"), logged_as(stage="labels.x", shard="003"):
        own = json.loads(line_of("now"))
        thread = Thread(target=lambda: others.append(line_of("now")))
        thread.start()
        thread.join()
    assert (own["run_id"], own["stage"], own["shard"]) == ("r", "labels.x", "003")
    for line in (others[0], line_of("later")):
        assert not {"run_id", "stage", "shard"} & set(json.loads(line))


def test_a_format_that_there_is_not_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("CPMI_LOG_FORMAT", "xml")
    for ask in (check_log_format, load_settings):
        with pytest.raises(SettingsError, match="CPMI_LOG_FORMAT=xml: log lines are `text` or `json`"):
            ask()


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_format_is_no_setting_of_a_profile(monkeypatch, form):
    monkeypatch.setenv("CPMI_LOG_FORMAT", form)
    assert load_settings("miniature").profile == "miniature"
