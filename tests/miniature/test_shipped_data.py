"""The files of the embedded world: those that the generator gives, in the real forms, with errors at known steps."""

import gzip
import json
import re
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

from cpmi_dagster.benchmarks.registry import read_benchmark
from cpmi_dagster.math_shepherd import parse_row
from cpmi_dagster.miniature.names import DATA, SUFFIX, local_path
from cpmi_dagster.profiles.settings import load_settings
from scripts.miniature_world.held_out import is_held_out
from scripts.miniature_world.world import json_lines, world_rows

SUBSETS = tuple(f"processbench_{subset}" for subset in ("gsm8k", "math", "olympiadbench", "omnimath"))
BENCHMARKS = {**load_settings("miniature").sources.benchmarks, **dict.fromkeys(("folio", "logiqa2", "logicnli"))}
LOGIC = {"folio": "folio_validation", "logiqa2": "logiqa2_test", "logicnli": "logicnli_test"}
CALCULATION = re.compile(r"<<([\d.]+)([-+*/])([\d.]+)=([-\d.]+)>>")


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(local_path(f"miniature:{name}").read_bytes()).splitlines()]


def is_wrong(step: str) -> bool:
    """Whether a calculation in it is."""
    operators = {"+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__, "/": Fraction.__truediv__}
    return any(
        operators[operator](Fraction(left), Fraction(right)) != Fraction(result)
        for left, operator, right, result in CALCULATION.findall(step)
    )


@pytest.mark.slow
def test_the_generator_gives_the_shipped_bytes():
    generated = {f"{name}{SUFFIX}": json_lines(rows) for name, rows in world_rows().items()}
    assert generated == {file.name: gzip.decompress(file.read_bytes()) for file in DATA.iterdir()}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_readers_of_the_real_sets_take_the_rows(name):
    rows = read(LOGIC[name]) if name in LOGIC else read(str(BENCHMARKS[name].path).partition(":")[2])
    problems = read_benchmark(name, pl.DataFrame(rows, infer_schema_length=None))
    assert problems.height == len(rows) * (8 if name == "logicnli" else 1)
    assert problems["problem_id"].n_unique() == problems.height


def test_no_question_is_in_two_files_and_no_model_was_trained_on_one():
    names = ("gsm8k_train", "math_train", "gsm8k_test", "math500_test", "omni_math_test", "mmlu_stem_test", *SUBSETS)
    asked = [{row.get("question") or row["problem"] for row in read(name)} for name in names]
    asked.append({row["original_question"] for row in read("prmbench")})
    assert sum(map(len, asked)) == len(set().union(*asked))
    assert all(map(is_held_out, set().union(*asked)))


def test_the_truth_of_gsm8k_is_what_the_calculations_in_the_steps_say():
    rows, truths = read("math_shepherd"), read("step_truth")
    assert len(rows) - len(truths) == 4  # irregular rows, as the real file has some
    for truth in truths:
        row = rows[truth["row_number"]]
        steps = parse_row(row["input"], row["label"]).steps
        assert len(steps) == len(truth["correct"])
        assert truth["correct"] == [kind is None for kind in truth["kind"]]
        if row["task"] == "GSM8K":
            assert [*map(is_wrong, steps)] == [kind in ("calculation", "aside") for kind in truth["kind"]]
