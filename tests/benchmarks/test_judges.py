"""A third-party judge: how its lines find their problems, and what is refused by name."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cpmi_dagster.benchmarks.judges import judge_predictions, read_judged_lines
from cpmi_dagster.errors import BenchmarkError, CpmiError

PROBLEMS = pl.DataFrame(
    {
        "benchmark": ["processbench_gsm8k", "processbench_gsm8k", "processbench_math", "prmbench", "prmbench", "gsm8k"],
        "problem_id": ["gsm8k-0", "shared", "shared", "p:circular", "p:circular:1", "0"],
        "steps": [["a", "b"], ["a"], ["a"], ["a", "b"], ["a"], None],
    }
)
GSM8K: list[dict[str, Any]] = [
    {"id": "gsm8k-0", "probabilities": [0.9, 0.1]},
    {"id": "shared", "benchmark": "processbench_gsm8k", "probabilities": [1]},
]
PRMBENCH: list[dict[str, Any]] = [
    {"idx": "p", "classification": "circular", "probabilities": [0.5, 0.25], "id": 7},
    {"id": "p:circular", "probabilities": [0.75]},
]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def predictions(folder: Path, lines: list[dict[str, Any]], benchmark: str | None = None) -> pl.DataFrame:
    return judge_predictions(read_judged_lines(write(folder / "judge.jsonl", lines), benchmark), PROBLEMS)


def test_an_id_tells_its_benchmark_where_only_one_has_it_and_a_repeated_name_is_the_next_problem(tmp_path):
    assert predictions(tmp_path, [*GSM8K, *PRMBENCH]).rows() == [
        ("processbench_gsm8k", "gsm8k-0", 0, 0.9),
        ("processbench_gsm8k", "gsm8k-0", 1, 0.1),
        ("processbench_gsm8k", "shared", 0, 1.0),
        ("prmbench", "p:circular", 0, 0.5),
        ("prmbench", "p:circular", 1, 0.25),
        ("prmbench", "p:circular:1", 0, 0.75),
    ]


def test_the_caller_may_say_what_a_file_judges(tmp_path):
    lines = [{"id": "shared", "probabilities": [0.3]}]
    assert predictions(tmp_path, lines, "processbench_math")["benchmark"].to_list() == ["processbench_math"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"id": "gsm8k-0"}], "line 1: `probabilities`"),
        ([{"id": "gsm8k-0", "probabilities": [0.5, None]}], "line 1: `probabilities.1`"),
        ([{"probabilities": [0.5]}], "line 1 does not name a problem"),
        ([{"id": "nowhere", "probabilities": [0.5]}], "line 1: `nowhere` is no problem of processbench_gsm8k, proc"),
        ([{"id": "shared", "probabilities": [0.5]}], "of processbench_gsm8k and of processbench_math; name its bench"),
        ([{**GSM8K[1], "id": "gsm8k-1"}], "`gsm8k-1` is not a problem of processbench_gsm8k as loaded"),
        ([*GSM8K, GSM8K[0]], "line 3: `gsm8k-0` is judged again"),
        ([GSM8K[1], {"id": "gsm8k-0", "probabilities": [0.9]}], "line 2: `gsm8k-0` .* has 2 steps, but 1 prob"),
        ([{"id": "gsm8k-0", "probabilities": [0.5, 1.5]}], "`gsm8k-0` has the probability 1.5"),
        ([{"id": "gsm8k-0", "probabilities": None, "reason": "it is too long"}], r"`gsm8k-0` .* \(it is too long\)"),
        (GSM8K[1:], r"problem `gsm8k-0` of processbench_gsm8k has not been judged \(1 such problems\)"),
        ([], "judge.jsonl is empty"),
    ],
)
def test_what_does_not_fit_is_refused_by_line(tmp_path, lines, message):
    with pytest.raises(CpmiError, match=message):
        predictions(tmp_path, lines)


def test_a_benchmark_that_contradicts_the_line_or_has_no_steps_is_refused(tmp_path):
    with pytest.raises(BenchmarkError, match="line 2 is about processbench_gsm8k"):
        predictions(tmp_path, [{"id": "p:circular", "probabilities": [0.5, 0.5]}, GSM8K[1]], "prmbench")
    with pytest.raises(BenchmarkError, match="`math500` has no steps to judge"):
        predictions(tmp_path, GSM8K, "math500")
    with pytest.raises(CpmiError, match=r"no file .*nowhere.jsonl"):
        read_judged_lines(tmp_path / "nowhere.jsonl")
