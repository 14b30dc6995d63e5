"""Every benchmark is read whole from its published form, and a broken row is named."""

import polars as pl
import pytest

from cpmi_dagster.benchmarks.registry import read_benchmark
from cpmi_dagster.contracts.tables import BenchmarkProblems
from cpmi_dagster.errors import BenchmarkError, SourceError

PUBLISHED = {
    "processbench_math": [{"id": "math-0", "generator": "G", "problem": "q", "steps": ["a", "b"], "label": 1}],
    "prmbench": [
        {"idx": "i", "classification": "circular", "modified_question": "q"}
        | {"modified_process": ["a", "b"], "error_steps": [2, 5]}
    ],
    "gsm8k": [{"question": "q", "answer": "Half is 48/2 = <<48/2=24>>24.\n#### 72"}],
    "math500": [{"problem": "q", "answer": "\\frac{1}{2}", "subject": "Algebra", "unique_id": "test/algebra/1.json"}],
    "mmlu_stem": [{"question": "q?", "subject": "astronomy", "choices": ["a", "b"], "answer": 1}],
    "omni_math": [{"problem": "q", "answer": "3", "domain": ["Mathematics -> Algebra", "Other"]}],
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
        ("math500", "answer", ["\\frac{1}{2}"]),
        ("mmlu_stem", "answer", ["B"]),
        ("mmlu_stem", "question", ["q?\n(A) a\n(B) b"]),
        ("folio", "answer", ["Uncertain"]),
        ("folio", "question", [ASKED]),
        ("logiqa2", "answer", ["A", "A"]),
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
        ("processbench_math", {"steps": "a"}, "the field `steps` is String, not List"),
        ("processbench_math", {"steps": ["a", None]}, "row 0: the field `steps`"),
        ("prmbench", {"classification": "typo"}, "row 0: `classification`"),
        ("prmbench", {"error_steps": [0]}, "row 0: `error_steps`"),
        ("gsm8k", {"answer": "no mark"}, "row 0: there is no gold answer"),
        ("omni_math", {"answer": None}, "row 0: the field `answer`"),
        ("mmlu_stem", {"answer": 2}, "row 0: `answer` .* `choices`"),
        ("logiqa2", {"answer": -1}, "row 0: `answer` .* `options`"),
        ("folio", {"label": "Perhaps"}, "row 0: the label"),
        ("logicnli", {"labels": ["neutral"]}, "row 0: `statements` and `labels`"),
    ],
)
def test_a_broken_row_is_named(name, changes, message):
    with pytest.raises(SourceError, match=message):
        read(name, **changes)


def test_an_empty_split_and_an_unknown_name_are_errors():
    with pytest.raises(BenchmarkError, match="`gsm8k` has no rows"):
        read_benchmark("gsm8k", pl.DataFrame({"question": [], "answer": []}))
    with pytest.raises(SourceError, match="no benchmark `gsm9k`"):
        read_benchmark("gsm9k", pl.DataFrame())
