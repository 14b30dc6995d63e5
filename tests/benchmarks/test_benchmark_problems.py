"""Every benchmark is read whole from its published form, and a broken row is named."""

import polars as pl
import pytest

from cpmi_dagster.benchmarks.registry import QUESTION_SETS, read_benchmark
from cpmi_dagster.contracts.keys import CHOICES
from cpmi_dagster.contracts.tables import TABLES, BenchmarkProblems, columns_of
from cpmi_dagster.errors import SourceError
from cpmi_dagster.prm.settings import Recipe
from cpmi_dagster.reports.benchmark_tables import measure_best_of_n
from cpmi_dagster.reports.costs import measure_logic
from cpmi_dagster.reports.figures import ReportInputs, figure_frame

PUBLISHED = {
    "processbench_math": [{"id": "math-0", "generator": "G", "problem": "q", "steps": ["a", "b"], "label": 1}],
    "prmbench": [
        {"idx": "i", "classification": "circular", "modified_question": "q"}
        | {"modified_process": ["a", "b"], "error_steps": [2, 5]}
    ],
    "gsm8k": [{"question": "q", "answer": "Half is 48/2 = <<48/2=24>>24.\n#### 72"}],
    "mmlu_stem": [{"question": "q?", "subject": "astronomy", "choices": ["a", "b"], "answer": 1}],
    "folio": [{"premises": ["p1", "p2"], "conclusion": "c.", "label": "Uncertain"}],
    "logiqa2": [{"id": 7, "text": "t", "question": "q?", "options": ["a", "b"], "answer": 0}] * 2,
    "logicnli": [
        {"id": "s", "facts": ["f"], "rules": ["r"], "statements": ["x", "y"], "labels": ["neutral", "entailment"]}
    ],
}
ASKED = "p1\np2\nDoes the following conclusion hold: c.\nAnswer with True, False or Uncertain."
REAL_FILES = {
    "processbench_math": ("processbench/math.even.jsonl.gz", 500),
    "prmbench": ("prmbench/prmtest_classified.even.jsonl.gz", 3114),
    "mmlu_stem": ("mmlu_stem/test.even.jsonl.gz", 1509),
    "folio": ("folio/validation.even.jsonl", 102),
    "logiqa2": ("logiqa2/test.even.jsonl.gz", 786),
    "logicnli": ("logicnli/test_language.even.jsonl.gz", 50 * 20),
}


def read(name, **changes):
    return read_benchmark(name, pl.DataFrame([row | changes for row in PUBLISHED[name]], infer_schema_length=None))


@pytest.mark.parametrize("name", REAL_FILES)
def test_the_real_file_is_read_whole(name, real_rows):
    file, count = REAL_FILES[name]
    problems = read_benchmark(name, real_rows(file))
    BenchmarkProblems.validate(problems)
    assert len(problems) == count


@pytest.mark.parametrize(
    ("name", "column", "values"),
    [
        ("gsm8k", "answer", ["72"]),
        ("mmlu_stem", "answer", ["B"]),
        ("folio", "answer", ["Uncertain"]),
        ("folio", "question", [ASKED]),
        ("logiqa2", "question", ["t\nq?\n(A) a\n(B) b"] * 2),
        # an id that the source repeats is made distinct
        ("logiqa2", "problem_id", ["7", "7:1"]),
        # a story becomes a problem per statement
        ("logicnli", "problem_id", ["s:0", "s:1"]),
        ("logicnli", "answer", ["neutral", "entailment"]),
        # process benchmarks keep their labels, counted from 0
        ("processbench_math", "first_error", [1]),
        ("prmbench", "problem_id", ["i:circular"]),
        ("prmbench", "error_steps", [[1, 4]]),
    ],
)
def test_a_published_row_is_asked_and_graded_as_the_solver_and_the_metrics_need_it(name, column, values):
    assert read(name)[column].to_list() == values
    assert read("folio", premises="p1\np2")["question"].to_list() == [ASKED]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("processbench_math", {"label": 2}, "`processbench_math`, row 0: `label`"),
        ("gsm8k", {"answer": "no mark"}, "row 0: there is no gold answer"),
        ("mmlu_stem", {"answer": 2}, "row 0: `answer` .* `choices`"),
    ],
)
def test_a_broken_row_is_named(name, changes, message):
    with pytest.raises(SourceError, match=message):
        read(name, **changes)


@pytest.mark.parametrize("entry", QUESTION_SETS.values(), ids=lambda entry: entry.name)
def test_a_question_set_that_is_sampled_has_its_row_in_a_report(entry):
    own, kinds = TABLES[CHOICES].schema.columns(), columns_of(TABLES[CHOICES])
    row = {"recipe": "cpmi_bce", "benchmark": entry.name, "n": 8, "aggregation": "mean", "candidate": 0, "tied": False}
    rows = pl.DataFrame([row | {"problem_id": str(number), "correct": float(number % 2)} for number in range(4)])
    choices = rows.select(pl.col(name).cast(kind) for name, kind in kinds.items() if name in own)
    inputs = ReportInputs({CHOICES: choices}, (Recipe(name="cpmi_bce", reward_type="cpmi"),), bootstrap_samples=10)
    measure = {"best_of_n": measure_best_of_n, "logic": measure_logic}[entry.table]
    measured = figure_frame(measure(inputs)).filter(row="CPMI").select("column", "measured").rows()
    assert measured == [(f"{entry.label} N=8" if entry.table == "best_of_n" else entry.label, 50.0)]
