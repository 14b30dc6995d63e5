"""A third-party judge: how its lines find their problems, and what is refused by name."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cpmi_dagster.benchmarks.predictions import external_predictions, read_prediction_lines
from cpmi_dagster.errors import CpmiError

PROBLEMS = pl.DataFrame(
    {
        "benchmark": ["processbench_gsm8k", "processbench_gsm8k", "processbench_math", "prmbench", "prmbench", "gsm8k"],
        "problem_id": ["gsm8k-0", "shared", "shared", "p:circular", "p:circular:1", "0"],
        "steps": [["a", "b"], ["a"], ["a"], ["a", "b"], ["a"], None],
        "first_error": [1, 0, -1, None, None, None],
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


def predictions(folder: Path, lines: list[dict[str, Any]]) -> pl.DataFrame:
    path = folder / "judge.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return external_predictions(read_prediction_lines(path, None), PROBLEMS)


def test_an_id_tells_its_benchmark_where_only_one_has_it_and_a_repeated_name_is_the_next_problem(tmp_path):
    assert predictions(tmp_path, [*GSM8K, *PRMBENCH]).rows() == [
        ("processbench_gsm8k", "gsm8k-0", 0, 0.9),
        ("processbench_gsm8k", "gsm8k-0", 1, 0.1),
        ("processbench_gsm8k", "shared", 0, 1.0),
        ("prmbench", "p:circular", 0, 0.5),
        ("prmbench", "p:circular", 1, 0.25),
        ("prmbench", "p:circular:1", 0, 0.75),
    ]


def test_files_that_the_benchmarks_own_evaluations_write_are_read_as_they_are(tmp_path):
    processbench = [
        {"id": "gsm8k-0", "label": 1, "prediction": 1, "match": True},
        {"id": "shared", "benchmark": "processbench_gsm8k", "label": 0, "prediction": None, "match": False},
        {"id": "shared", "benchmark": "processbench_math", "label": -1, "prediction": 7, "match": False},
    ]
    prmbench = [
        {
            "idx": "circular_p",
            "scores": {"step_level_validity_scores": [0.7, 0.2], "step_level_validity_labels": [True, False]},
        },
        {
            "idx": "circular_p",
            "scores": {"step_level_validity_scores": [-3.5], "step_level_validity_labels": [False]},
        },
    ]
    by_step = predictions(tmp_path, [*processbench, *prmbench])["probability"].to_list()
    # as predicted; not flagged though step 0 is wrong; flagged though all is right
    # and as one score of PRMBench is no probability, all are its labels
    assert by_step == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    alone = [{**prmbench[0], "idx": "circular_p"}, {"id": "p:circular", "probabilities": [0.5]}]
    assert predictions(tmp_path, alone)["probability"].to_list() == [0.7, 0.2, 0.5]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"id": "gsm8k-0"}], "line 1: .*no `probabilities` .* no `prediction` as ProcessBench"),
        ([{"idx": "circular_p", "prediction": 1}], "line 1 does not name a problem"),
        ([{"id": "p:circular", "prediction": 1}], "`p:circular` has no probabilities"),
        ([{"id": "gsm8k-0", "probabilities": [0.5, None]}], "line 1: `probabilities.1`"),
        ([{"id": "nowhere", "probabilities": [0.5]}], "line 1: `nowhere` is no problem of processbench_gsm8k, proc"),
        ([{"id": "shared", "probabilities": [0.5]}], "of processbench_gsm8k and of processbench_math; name its bench"),
        ([*GSM8K, GSM8K[0]], "line 3: `gsm8k-0` is judged again"),
        ([GSM8K[1], {"id": "gsm8k-0", "probabilities": [0.9]}], "line 2: `gsm8k-0` .* has 2 steps, but 1 prob"),
        ([{"id": "gsm8k-0", "probabilities": None, "reason": "it is too long"}], r"`gsm8k-0` .* \(it is too long\)"),
        (GSM8K[1:], r"problem `gsm8k-0` of processbench_gsm8k has no predictions \(1 such problems\)"),
    ],
)
def test_what_does_not_fit_is_refused_by_line(tmp_path, lines, message):
    with pytest.raises(CpmiError, match=message):
        predictions(tmp_path, lines)
