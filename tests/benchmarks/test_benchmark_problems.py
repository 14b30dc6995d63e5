"""Every benchmark is read whole from its published form, and a broken row is named."""

import polars as pl
import pytest

from cpmi_dagster.benchmarks.problems import read_benchmark
from cpmi_dagster.contracts.tables import BenchmarkProblems
from cpmi_dagster.errors import BenchmarkError, SourceError

PUBLISHED = {
    "processbench_math": [{"id": "math-0", "generator": "G", "problem": "q", "steps": ["a", "b"], "label": 1}],
    "prmbench": [
        {
            "idx": "i",
            "classification": "circular",
            "modified_question": "q",
            "modified_process": ["a", "b"],
            "error_steps": [2, 5],
        }
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
REAL_FILES = {
    "processbench_gsm8k": ("processbench/gsm8k.even.jsonl.gz", 200),
    "processbench_math": ("processbench/math.even.jsonl.gz", 500),
    "processbench_olympiadbench": ("processbench/olympiadbench.even.jsonl.gz", 500),
    "processbench_omnimath": ("processbench/omnimath.even.jsonl.gz", 500),
    "prmbench": ("prmbench/prmtest_classified.even.jsonl.gz", 3114),
    "gsm8k": ("gsm8k/test.jsonl", 1319),
    "math500": ("math500/test.even.jsonl", 250),
    "mmlu_stem": ("mmlu_stem/test.even.jsonl.gz", 1509),
    "omni_math": ("omni_math_rule/test.even.jsonl.gz", 1411),
    "folio": ("folio/validation.even.jsonl", 102),
    "logiqa2": ("logiqa2/test.even.jsonl.gz", 786),
    "logicnli": ("logicnli/test_language.even.jsonl.gz", 50 * 20),
}


def read(name, **changes):
    return read_benchmark(name, pl.DataFrame([row | changes for row in PUBLISHED[name]], infer_schema_length=None))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_row_becomes_a_valid_problem(name):
    problems = read(name)
    BenchmarkProblems.validate(problems)
    assert problems.columns == list(BenchmarkProblems.columns())


@pytest.mark.parametrize("name", REAL_FILES)
def test_the_real_file_is_read_whole(name, real_rows):
    file, count = REAL_FILES[name]
    problems = read_benchmark(name, real_rows(file))
    BenchmarkProblems.validate(problems)
    assert len(problems) == count


def test_process_benchmarks_keep_their_labels_counted_from_0():
    assert read("processbench_math").row(0, named=True)["first_error"] == 1
    problem = read("prmbench").row(0, named=True)
    assert problem["problem_id"] == "i:circular"
    assert problem["error_steps"] == [1, 4]


def test_46_real_prmbench_rows_name_a_step_past_the_end(real_rows):
    file, _ = REAL_FILES["prmbench"]
    problems = read_benchmark("prmbench", real_rows(file))
    assert problems.filter(pl.col("error_steps").list.max() >= pl.col("steps").list.len()).height == 46
    assert problems.filter(category="multi_solutions")["error_steps"].list.len().to_list() == [0] * 83


@pytest.mark.parametrize(
    ("name", "answer"),
    [("gsm8k", "72"), ("math500", "\\frac{1}{2}"), ("mmlu_stem", "B"), ("folio", "Uncertain"), ("logiqa2", "A")],
)
def test_question_sets_have_a_gold_answer(name, answer):
    assert read(name)["answer"][0] == answer


def test_the_solver_reads_lettered_options_and_named_verdicts():
    assert read("mmlu_stem")["question"][0] == "q?\n(A) a\n(B) b"
    assert read("logiqa2")["question"][0] == "t\nq?\n(A) a\n(B) b"
    asked = "p1\np2\nDoes the following conclusion hold: c.\nAnswer with True, False or Uncertain."
    assert read("folio")["question"][0] == asked
    assert read("folio", premises="p1\np2")["question"][0] == asked


def test_a_story_becomes_a_problem_per_statement():
    problems = read("logicnli")
    assert problems["problem_id"].to_list() == ["s:0", "s:1"]
    assert problems["answer"].to_list() == ["neutral", "entailment"]


def test_an_id_that_the_source_repeats_is_made_distinct():
    assert read("logiqa2")["problem_id"].to_list() == ["7", "7:1"]


def test_rows_of_other_mmlu_subjects_are_left_out():
    rows = pl.DataFrame(PUBLISHED["mmlu_stem"] + [PUBLISHED["mmlu_stem"][0] | {"subject": "philosophy"}])
    assert read_benchmark("mmlu_stem", rows)["category"].to_list() == ["astronomy"]
    with pytest.raises(BenchmarkError, match="no row whose `subject` is one of abstract_algebra"):
        read("mmlu_stem", subject="philosophy")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("processbench_math", {"label": 2}, "`processbench_math`, row 0: `label` is neither -1 nor"),
        ("processbench_math", {"label": None}, "row 0: the field `label` is missing"),
        ("processbench_math", {"steps": "a"}, "the field `steps` is String, not List"),
        ("processbench_math", {"steps": ["a", None]}, "row 0: the field `steps` is missing or is not List"),
        ("prmbench", {"classification": "typo"}, "row 0: `classification` is none of redundency"),
        ("prmbench", {"error_steps": [0]}, "row 0: `error_steps` has a number below 1"),
        ("gsm8k", {"answer": "no mark"}, "row 0: there is no gold answer"),
        ("math500", {"answer": " "}, "row 0: there is no gold answer"),
        ("omni_math", {"answer": ""}, "row 0: there is no gold answer"),
        ("omni_math", {"answer": None}, "row 0: the field `answer` is missing"),
        ("mmlu_stem", {"answer": 2}, "row 0: `answer` is not the number of one of `choices`"),
        ("logiqa2", {"answer": -1}, "row 0: `answer` is not the number of one of `options`"),
        ("folio", {"label": "Perhaps"}, "row 0: the label is none of True, False, Uncertain"),
        ("logicnli", {"labels": ["neutral"]}, "row 0: `statements` and `labels` differ in length"),
    ],
)
def test_a_broken_row_is_named(name, changes, message):
    with pytest.raises(SourceError, match=message):
        read(name, **changes)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_missing_field_is_named_with_its_benchmark_and_row(name):
    row = dict(PUBLISHED[name][0])
    field = "answer" if "answer" in row else list(row)[-1]
    del row[field]
    with pytest.raises(SourceError, match=f"benchmark `{name}`, row 0: the field `{field}` is missing"):
        read_benchmark(name, pl.DataFrame([row]))


def test_an_empty_split_and_an_unknown_name_are_errors():
    with pytest.raises(BenchmarkError, match="`gsm8k` has no rows"):
        read_benchmark("gsm8k", pl.DataFrame({"question": [], "answer": []}))
    with pytest.raises(SourceError, match="no benchmark `gsm9k`"):
        read_benchmark("gsm9k", pl.DataFrame())
