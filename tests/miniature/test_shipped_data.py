"""The files of the embedded world: those that the generator gives, in the real forms, with errors at known steps."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import inf
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
ENDING = " The answer is: "


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


def test_truth_is_about_every_step_and_calculations_are_wrong_where_it_says_so():
    for row, parsed, truth in trajectories():
        assert len(parsed.steps) == len(truth["correct"]) == len(truth["operations_left"])
        assert truth["correct"] == [kind is None for kind in truth["kind"]]
        if row["task"] == "GSM8K":
            wrong = [kind in ("calculation", "aside") for kind in truth["kind"]]
            assert list(map(is_wrong, parsed.steps)) == wrong


def test_steps_go_wrong_in_every_way_and_at_every_distance_from_the_end():
    truths = [zip(truth["kind"], truth["operations_left"], strict=True) for truth in read("step_truth")]
    kinds = ("calculation", "operand", "operator", "consequence", "dropped", "aside")
    wrong = {(kind, min(left, 4)) for steps in truths for kind, left in steps if kind}
    assert wrong == {(kind, left) for kind in kinds for left in range(5)} - {("aside", 0)}


def test_labels_are_noisy_both_ways_and_the_last_one_is_whether_the_answer_is_right():
    answers, pairs = golds(), set()
    for _, parsed, truth in trajectories():
        assert parsed.shepherd_labels[-1] == (parsed.final_answer == answers[parsed.question.replace("  ", " ")])
        pairs |= set(zip(parsed.shepherd_labels, truth["correct"], strict=True))
    assert pairs == {(True, True), (True, False), (False, True), (False, False)}
    assert len(read("math_shepherd")) - len(read("step_truth")) == 4  # irregular rows, as the real file has some


def test_half_of_processbench_is_right_and_its_calculations_are_until_the_first_error():
    for name in SUBSETS:
        rows = read(name)
        assert sum(row["label"] == -1 for row in rows) == len(rows) // 2
        for row in rows:
            right = row["steps"][: row["label"]] if row["label"] >= 0 else row["steps"]
            assert not any(map(is_wrong, right))
            assert row["label"] >= 0 or row["final_answer_correct"]
    wrong = [row for name in SUBSETS for row in read(name) if row["label"] >= 0]
    assert 0.03 < sum(row["final_answer_correct"] for row in wrong) / len(wrong) < 0.2


def test_prmbench_has_nine_categories_whose_wrong_steps_exist():
    rows = read("prmbench")
    assert Counter(Counter(row["classification"] for row in rows).values()) == {20: 9}
    for row in rows:
        assert set(row["error_steps"]) <= set(range(1, len(row["modified_process"]) + 1))
        assert bool(row["error_steps"]) == (row["classification"] != "multi_solutions")
        changed = row["modified_process"] != row["original_process"]
        assert changed or row["classification"] == "missing_condition"


def test_solutions_to_judge_end_as_the_trajectories_do():
    ours = [row["steps"] for name in SUBSETS for row in read(name)]
    ours += [row[process] for row in read("prmbench") for process in ("original_process", "modified_process")]
    assert all(ENDING in parsed.steps[-1] for _, parsed, _ in trajectories())
    assert all(ENDING in steps[-1] for steps in ours)


def bounds(premises: Iterable[str]) -> dict[str, tuple[float, float]]:
    """The least and the most that each person may have."""
    known: dict[str, tuple[float, float]] = {}
    relations = {"more": int.__add__, "fewer": int.__sub__, "times": int.__mul__}
    for premise in list(premises) * 5:
        if found := re.fullmatch(r"(\w+) has (at least )?(\d+) \w+\.", premise):
            known[found[1]] = (int(found[3]), inf if found[2] else int(found[3]))
        elif found := re.fullmatch(r"(\w+) and (\w+) have (\d+) \w+ together\.", premise):
            known |= {found[1]: (int(found[3]) - known[found[2]][0],) * 2} if found[2] in known else {}
        elif found := re.fullmatch(r"(\w+) has (\d+) (\w+) .*(?:than|as) (\w+)\.", premise):
            relation = relations[found[3]]
            known |= {found[1]: (relation(known[found[4]][0], int(found[2])),) * 2} if found[4] in known else {}
    return known


def verdict_on(claim: str, of: dict[str, tuple[float, float]]) -> str:
    """True or False where the claim is so whatever people have, Uncertain where it depends."""
    if found := re.fullmatch(r"(\w+) has (more|fewer) than (\d+) \w+\.", claim):
        pair = of[found[1]], (int(found[3]),) * 2
        (low, high), (other_low, other_high) = pair if found[2] == "more" else pair[::-1]
    else:
        found = re.fullmatch(r"(\w+) has more \w+ than (\w+)\.", claim)
        assert found, claim
        (low, high), (other_low, other_high) = of[found[1]], of[found[2]]
    return "True" if low > other_high else "False" if high <= other_low else "Uncertain"


def test_verdicts_of_the_logic_sets_follow_from_their_texts():
    for row in read("folio_validation"):
        assert verdict_on(row["conclusion"], bounds(row["premises"])) == row["label"]
    asked = {"must be true": "True", "cannot be true": "False", "it not be said": "Uncertain"}
    for row in read("logiqa2_test"):
        [right] = [verdict for words, verdict in asked.items() if words in row["question"]]
        people = bounds(re.split(r"(?<=\.) ", row["text"]))
        verdicts = [verdict_on(option, people) for option in row["options"]]
        assert [place for place, verdict in enumerate(verdicts) if verdict == right] == [row["answer"]]
