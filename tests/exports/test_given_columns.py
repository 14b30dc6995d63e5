"""An export has the columns of the user's rows, unless the rows have changed since they were labelled."""

import json
from types import SimpleNamespace
from typing import Any, cast

import polars as pl

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.given_columns import given_columns
from cpmi_dagster.resources.sources.data_sources import DataSources

ROWS = [
    {"id": "a", "question": "2 + 3?", "response": "So 5.", "answer": 5, "labels": None, "prompt_id": 7, "split": "dev"},
    "{broken",
    {"id": "b", "question": "2 + 4?", "response": "So 6.", "answer": 6, "rewards": "mine", "meta": [1]},
]


def test_columns_come_back_under_their_names_until_the_rows_change(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in ROWS))
    profile = tmp_path / "mine.yaml"
    profile.write_text("extends: files\nsources: {trajectories: {path: ./rows.jsonl}}\n")
    settings = load_settings(profile, tmp_path / "home")
    version = {"math_shepherd": DataSources(settings).version(settings.sources.trajectories[0])}
    lake = cast("Any", SimpleNamespace(record=lambda *_: SimpleNamespace(inputs={"sources": version})))
    exported = pl.DataFrame({"trajectory_id": ["t000000000", "t000000002"], "prompt": "", "labels": "", "rewards": ""})
    columns, note = given_columns(settings, lake, exported)
    assert columns.columns == ["trajectory_id", "prompt_id", "split", "input_rewards", "meta"] and not note
    assert columns.rows() == [("t000000000", 7, "dev", None, None), ("t000000002", None, None, "mine", "[1]")]
    file.write_text(file.read_text() + "\n")
    columns, note = given_columns(settings, lake, exported)
    assert columns.columns == ["trajectory_id"] and "have changed since they were labelled" in note
    file.unlink()
    assert str(file) in given_columns(settings, lake, exported)[1]
