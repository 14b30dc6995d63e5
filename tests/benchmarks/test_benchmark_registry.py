"""What is registered as a question set is refused or reported by name; nothing that is sampled is dropped."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.benchmarks.registry import QUESTION_SETS
from cpmi_dagster.contracts.keys import CHOICES
from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.inputs import ReportInputs, figure_frame
from cpmi_dagster.reports.quality import measure_best_of_n, measure_logic

ADDED = replace(QUESTION_SETS["gsm8k"], name="svamp", label="SVAMP")


@pytest.mark.parametrize("entry", [*QUESTION_SETS.values(), ADDED], ids=lambda entry: entry.name)
def test_a_question_set_that_is_sampled_has_its_row_in_a_report(entry, monkeypatch):
    monkeypatch.setitem(QUESTION_SETS, entry.name, entry)
    own, kinds = TABLES[CHOICES].schema.columns(), columns_of(TABLES[CHOICES])
    row = {"recipe": "cpmi_bce", "benchmark": entry.name, "n": 8, "aggregation": "mean", "candidate": 0, "tied": False}
    rows = pl.DataFrame([row | {"problem_id": str(number), "correct": float(number % 2)} for number in range(4)])
    choices = rows.select(pl.col(name).cast(kind) for name, kind in kinds.items() if name in own)
    inputs = ReportInputs({CHOICES: choices}, (Recipe(name="cpmi_bce", reward_type="cpmi"),), bootstrap_samples=10)
    measure = {"best_of_n": measure_best_of_n, "logic": measure_logic}[entry.table]
    measured = figure_frame(measure(inputs)).filter(row="CPMI").select("column", "measured").rows()
    assert measured == [(f"{entry.label} N=8" if entry.table == "best_of_n" else entry.label, 50.0)]


def test_candidates_for_what_is_no_question_set_are_refused_before_anything_runs(monkeypatch):
    monkeypatch.setenv("CPMI_BENCHMARKS__BEST_OF_N", '["prmbench"]')
    with pytest.raises(SettingsError, match="`prmbench` is not a question set; choose from gsm8k, math500"):
        load_settings("miniature")
