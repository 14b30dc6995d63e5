"""What is registered is read, judged and reported; nothing that is sampled is dropped."""

from dataclasses import replace

import polars as pl
import pytest

from cpmi_dagster.benchmarks.registry import BENCHMARKS, QUESTION_SETS, STEP_BENCHMARKS, SUBSETS, question_set_labels
from cpmi_dagster.contracts.keys import CHOICES
from cpmi_dagster.contracts.tables import TABLES, columns_of
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.inputs import ReportInputs, figure_frame
from cpmi_dagster.reports.quality import measure_best_of_n, measure_logic

RECIPES = (Recipe(name="cpmi_bce", reward_type="cpmi"),)
MEASURES = {"best_of_n": measure_best_of_n, "logic": measure_logic}


def choices_of(benchmark: str) -> pl.DataFrame:
    own, kinds = TABLES[CHOICES].schema.columns(), columns_of(TABLES[CHOICES])
    rows = [
        {"recipe": "cpmi_bce", "benchmark": benchmark, "problem_id": str(number), "n": 8, "aggregation": "mean"}
        | {"candidate": 0, "correct": float(number % 2), "tied": False}
        for number in range(4)
    ]
    return pl.DataFrame(rows).select(pl.col(name).cast(kind) for name, kind in kinds.items() if name in own)


@pytest.mark.parametrize("name", QUESTION_SETS)
def test_a_question_set_that_is_sampled_has_its_row_in_a_report(name):
    entry = QUESTION_SETS[name]
    inputs = ReportInputs({CHOICES: choices_of(name)}, RECIPES, bootstrap_samples=10)
    measured = figure_frame(MEASURES[entry.table](inputs)).filter(pl.col("row") == "CPMI")
    assert measured["column"].to_list() == [f"{entry.label} N=8" if entry.table == "best_of_n" else entry.label]
    assert measured["measured"].to_list() == [50.0]


def test_a_question_set_that_is_added_has_its_row_too(monkeypatch):
    entry = replace(QUESTION_SETS["gsm8k"], name="svamp", label="SVAMP")
    monkeypatch.setitem(QUESTION_SETS, "svamp", entry)
    inputs = ReportInputs({CHOICES: choices_of("svamp")}, RECIPES, bootstrap_samples=10)
    assert figure_frame(measure_best_of_n(inputs)).filter(pl.col("row") == "CPMI")["column"].to_list() == ["SVAMP N=8"]


def test_entries_bear_the_name_they_are_found_by_and_sets_of_one_table_have_different_labels():
    assert all(entry.name == name for name, entry in BENCHMARKS.items())
    assert len(BENCHMARKS) == len(STEP_BENCHMARKS) + len(QUESTION_SETS)
    labels = [[STEP_BENCHMARKS[name].label for name in SUBSETS], list(SUBSETS.values())]
    for each in (*labels, *(list(question_set_labels(table).values()) for table in MEASURES)):
        assert all(each) and len(set(each)) == len(each)


def test_candidates_for_what_is_no_question_set_are_refused_before_anything_runs(monkeypatch):
    monkeypatch.setenv("CPMI_BENCHMARKS__BEST_OF_N", '["prmbench"]')
    with pytest.raises(SettingsError, match="`prmbench` is not a question set; choose from gsm8k, math500"):
        load_settings("miniature")
