"""The files of the embedded world: those that the generator gives, in the real forms, with errors at known steps."""

import gzip
import json
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.benchmarks.registry import read_benchmark
from cpmi_dagster.miniature.names import DATA, SUFFIX, local_path
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.trajectories.math_shepherd import parse_row
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


def trajectories() -> Iterator[tuple[dict[str, Any], Any, dict[str, Any]]]:
    """Rows of Math-Shepherd, as they are parsed, and their truth."""
    rows = read("math_shepherd")
    for truth in read("step_truth"):
        row = rows[truth["row_number"]]
        yield row, parse_row(row["input"], row["label"]), truth


def golds() -> dict[str, str | None]:
    answers = {row["question"]: row["answer"] for row in read("gsm8k_train")}
    answers |= {row["problem"]: row["solution"] for row in read("math_train")}
    return {question: extract_answer(text) for question, text in answers.items()}


def test_truth_is_about_every_step_errors_are_of_every_kind_and_labels_are_noisy_both_ways():
    answers, pairs, wrong = golds(), set(), set()
    for row, parsed, truth in trajectories():
        assert len(parsed.steps) == len(truth["correct"]) == len(truth["operations_left"])
        assert truth["correct"] == [kind is None for kind in truth["kind"]]
        if row["task"] == "GSM8K":
            kinds = [kind in ("calculation", "aside") for kind in truth["kind"]]
            assert list(map(is_wrong, parsed.steps)) == kinds
        assert parsed.shepherd_labels[-1] == (parsed.final_answer == answers[parsed.question.replace("  ", " ")])
        pairs |= set(zip(parsed.shepherd_labels, truth["correct"], strict=True))
        steps = zip(truth["kind"], truth["operations_left"], strict=True)
        wrong |= {(kind, min(left, 4)) for kind, left in steps if kind}
    kinds = ("calculation", "operand", "operator", "consequence", "dropped", "aside")
    assert wrong == {(kind, left) for kind in kinds for left in range(5)} - {("aside", 0)}
    assert pairs == {(True, True), (True, False), (False, True), (False, False)}
    assert len(read("math_shepherd")) - len(read("step_truth")) == 4  # irregular rows, as the real file has some
