"""FOLIO, LogiQA 2.0 and LogicNLI of the embedded world: every verdict is worked out again from the text alone."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from sample_problems import SMALL, generators

from cpmi_dagster.benchmarks.problems import read_benchmark
from cpmi_dagster.miniature.logic_rows import QUESTIONS, VERDICTS, folio_row, logicnli_row, logiqa2_row
from cpmi_dagster.miniature.logic_stories import LABELS, PROPERTIES
from cpmi_dagster.miniature.world import world_rows

BEYOND = 600
Amounts = dict[str, list[int]]
RELATIONS: dict[str, Callable[[int, int], int]] = {
    r"(\w+) has (\d+) more \w+ than (\w+)\.": lambda b, known: known + b,
    r"(\w+) has (\d+) fewer \w+ than (\w+)\.": lambda b, known: known - b,
    r"(\w+) has (\d+) times as many \w+ as (\w+)\.": lambda b, known: known * b,
}


def amounts_in(sentences: list[str]) -> Amounts:
    """What each person may have: one number, or every number from the bound on."""
    amounts: Amounts = {}
    for _ in sentences:
        for sentence in sentences:
            amounts |= dict(_told(sentence, amounts))
    return amounts


def _told(sentence: str, amounts: Amounts) -> Iterator[tuple[str, list[int]]]:
    if found := re.fullmatch(r"(\w+) has (\d+) \w+\.", sentence):
        yield found[1], [int(found[2])]
    if found := re.fullmatch(r"(\w+) has at least (\d+) \w+\.", sentence):
        yield found[1], list(range(int(found[2]), BEYOND))
    if (found := re.fullmatch(r"(\w+) and (\w+) have (\d+) \w+ together\.", sentence)) and found[2] in amounts:
        yield found[1], [int(found[3]) - amounts[found[2]][0]]
    for pattern, relation in RELATIONS.items():
        if (found := re.fullmatch(pattern, sentence)) and found[3] in amounts:
            yield found[1], [relation(int(found[2]), amounts[found[3]][0])]


def verdict_on(claim: str, amounts: Amounts) -> str:
    """True or False where the claim is so whatever people have, Uncertain where it depends."""
    if found := re.fullmatch(r"(\w+) has (more|fewer) than (\d+) \w+\.", claim):
        number = int(found[3])
        truths = {(own > number) if found[2] == "more" else (own < number) for own in amounts[found[1]]}
    else:
        found = re.fullmatch(r"(\w+) has more \w+ than (\w+)\.", claim)
        assert found, claim
        truths = {own > other for own, other in product(amounts[found[1]], amounts[found[2]])}
    return str(truths.pop()) if len(truths) == 1 else "Uncertain"


@given(generators)
def test_a_folio_label_follows_from_the_premises(rng):
    for verdict in VERDICTS:
        row: Any = folio_row(verdict, rng)
        amounts = amounts_in(row["premises"])
        assert len(amounts) == len(row["premises"]) == len(row["premises-FOL"]) == 5
        assert row["label"] == verdict == verdict_on(row["conclusion"], amounts)


@given(generators)
def test_only_the_gold_option_of_logiqa_has_the_verdict_asked_for(rng):
    for right in QUESTIONS:
        row: Any = logiqa2_row(0, right, rng)
        amounts = amounts_in(re.findall(r"[^.]+\.", row["text"].replace(". ", ".")))
        verdicts = [verdict_on(option, amounts) for option in row["options"]]
        assert [number for number, verdict in enumerate(verdicts) if verdict == right] == [row["answer"]]
        assert len(set(row["options"])) == 4


def _applies(condition: str, number: int) -> bool:
    if found := re.fullmatch(r"(more|fewer) than (\d+) \w+", condition):
        return number > int(found[2]) if found[1] == "more" else number < int(found[2])
    if found := re.fullmatch(r"a multiple of (\d+) \w+", condition):
        return number % int(found[1]) == 0
    return number % 2 == (0 if condition.startswith("an even") else 1)


def _holds(phrase: str, world: dict[str, bool]) -> bool:
    return not world[phrase[4:]] if phrase.startswith("not ") else world[phrase]


def worlds_of(number: int, rules: list[str]) -> list[dict[str, bool]]:
    """Every way to be, for one who has so many things, that breaks no rule."""
    read = [re.fullmatch(r"If someone (has|is) (.+), then he is (.+)\.", rule) for rule in rules]
    of_numbers, others = ([found.group(2, 3) for found in read if found and found[1] == kind] for kind in ("has", "is"))
    assert len(of_numbers) + len(others) == len(rules)
    forced = [then for condition, then in of_numbers if _applies(condition, number)]
    every = (dict(zip(PROPERTIES, values, strict=True)) for values in product((True, False), repeat=len(PROPERTIES)))
    return [
        world
        for world in every
        if all(_holds(then, world) for then in forced)
        and all(_holds(then, world) for given, then in others if _holds(given, world))
    ]


def test_a_logicnli_label_is_what_holds_in_every_world_that_the_rules_allow():
    for seed in range(12):
        row: Any = logicnli_row(seed, random.Random(seed))
        numbers = dict(re.findall(r"(\w+) has (\w+) \w+\.", " ".join(row["facts"])))
        assert Counter(row["labels"]) == dict.fromkeys(LABELS, 2)
        for statement, label in zip(row["statements"], row["labels"], strict=True):
            name, phrase = statement.removesuffix(".").split(" is ")
            possible = range(2, 100) if numbers[name] == "some" else [int(numbers[name])]
            truths = {_holds(phrase, world) for number in possible for world in worlds_of(number, row["rules"])}
            expected = {frozenset({True}): "entailment", frozenset({False}): "contradiction", frozenset(): LABELS[3]}
            assert label == expected.get(frozenset(truths), "neutral"), (seed, statement)


@pytest.mark.parametrize("benchmark", ["folio", "logiqa2", "logicnli"])
def test_the_readers_take_the_worlds_rows(benchmark: str):
    rows = next(rows for name, rows in world_rows(3, SMALL).items() if name.startswith(f"{benchmark}_"))
    problems = read_benchmark(benchmark, pl.DataFrame(rows))
    assert problems.height == len(rows) * (8 if benchmark == "logicnli" else 1)
    assert problems["problem_id"].n_unique() == problems.height


def test_folio_labels_come_in_equal_shares():
    labels = Counter(row["label"] for row in world_rows(3, SMALL)["folio_validation"])
    assert labels == dict.fromkeys(VERDICTS, SMALL.test_questions // 3)


def test_the_logic_files_leave_the_others_as_they_are():
    without = world_rows(3, replace(SMALL, logic_stories=5))
    assert all(without[name] == rows for name, rows in world_rows(3, SMALL).items() if name != "logicnli_test")
