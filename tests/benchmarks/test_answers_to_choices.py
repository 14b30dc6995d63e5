"""How the answers that models write to multiple-choice and verdict questions are graded, on the real sets too."""

import string
from collections.abc import Callable

import polars as pl
import pytest

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.benchmarks.choices import grade_answer
from cpmi_dagster.benchmarks.logic import FOLIO_VERDICTS, LOGICNLI_VERDICTS
from cpmi_dagster.benchmarks.problems import read_benchmark

ATOMS = ["a light atom", "x + 1", "x - 1", "(A) and (B)"]
BY_LETTER = (
    "{L}", "({L})", "[{L}]", "{L}.", "{L}) {t}", "({L}) {t}", "{L}. {t}", "{L}: {t}", "{L} {t}", "{L}, {t}",
    "{L} - {t}", "{L} ({t})", "option {L}", "Option ({L}) is correct", "{L} because it is right",
    "the correct answer is {L}", r"\boxed{{{L}}}", r"$\text{{({L})}}$", r"\textbf{{({L})}} {t}", "**{L}**",
)  # fmt: skip
VERDICT_TEXTS = {
    "True": ("true", "Yes", "The conclusion is true.", "True, because all of them are", "It is true", "**True**"),
    "False": ("false", "No.", "not true", "The statement is false", "False since none is", r"\text{False}"),
    "Uncertain": ("Unknown", "It cannot be determined", "can't be determined", "undetermined", "Not enough information",
                  "The conclusion is uncertain.", "Neither true nor false"),
    "entailment": ("Entailed", "entailment, as shown", "entails", "The statement is entailed.", "true"),
    "contradiction": ("contradicted", "a contradiction", "It contradicts", "false"),
    "neutral": ("Neutral.", "unknown", "neither", "Uncertain"),
    "self_contradiction": ("self-contradiction", "Self contradiction", r"self\_contradiction", "self-contradictory"),
}  # fmt: skip


def says(template: str, letter: str, text: str) -> str:
    return str(extract_answer("So we are done.\nThe answer is: " + template.format(L=letter, t=text)))


@pytest.mark.parametrize("template", BY_LETTER)
def test_an_option_is_named_by_its_letter_however_it_is_written(template):
    for letter, text in zip("ABCD", ATOMS, strict=True):
        graded = [grade_answer(gold, says(template, letter, text), ATOMS) for gold in "ABCD"]
        assert graded == [gold == letter for gold in "ABCD"]


def test_signs_tell_options_apart():
    assert grade_answer("B", "x + 1", ATOMS)
    assert not grade_answer("B", "x - 1", ATOMS)
    assert not grade_answer("B", "x 1", ATOMS)


def test_the_whole_text_of_an_option_goes_before_a_letter_in_it():
    assert grade_answer("D", "(A) and (B)", ATOMS)
    assert not grade_answer("A", "(A) and (B)", ATOMS)


def test_an_option_called_by_a_letter_of_its_own_is_meant_by_its_letter():
    assert grade_answer("A", "(A) A", ["A", "B", "C", "Not sure"])
    assert grade_answer("D", "not sure", ["A", "B", "C", "Not sure"])


@pytest.mark.parametrize(
    "answer", ["B and C", "(B) or (C)", "B, C", "(B)/(C)", "E", "a heavy atom", "A light atom bulb"]
)
def test_two_options_or_none_are_wrong(answer):
    assert not any(grade_answer(gold, answer, ATOMS[:3]) for gold in "ABC")


@pytest.mark.parametrize(("gold", "answer"), [(gold, text) for gold, texts in VERDICT_TEXTS.items() for text in texts])
def test_a_verdict_is_understood_however_it_is_worded(gold, answer):
    verdicts = FOLIO_VERDICTS if gold in FOLIO_VERDICTS else LOGICNLI_VERDICTS
    assert [verdict for verdict in verdicts if grade_answer(verdict, answer, verdicts)] == [gold]


@pytest.mark.parametrize("answer", ["not entailed", "True or False", "does not follow", "B", "12", "", "not false"])
def test_what_is_no_verdict_is_wrong(answer):
    for verdicts in (FOLIO_VERDICTS, LOGICNLI_VERDICTS):
        assert not any(grade_answer(verdict, answer, verdicts) for verdict in verdicts)


@pytest.mark.parametrize(
    ("benchmark", "file"),
    [("mmlu_stem", "mmlu_stem/test.even.jsonl.gz"), ("logiqa2", "logiqa2/test.even.jsonl.gz")],
)
def test_letters_and_texts_of_real_options_are_graded_right(
    real_rows: Callable[[str], pl.DataFrame], benchmark: str, file: str
):
    problems = read_benchmark(benchmark, real_rows(file))
    misgraded = {"letter": 0, "text": 0}
    for gold, choices in problems.select("answer", "choices").iter_rows():
        for letter, text in zip(string.ascii_uppercase, choices, strict=False):
            misgraded["letter"] += grade_answer(gold, says("({L}) {t}", letter, text), choices) != (letter == gold)
            misgraded["text"] += grade_answer(gold, says("{t}", letter, text), choices) != (letter == gold)
    assert misgraded["letter"] == 0
    # options that are alike, or are letters themselves
    assert misgraded["text"] <= 0.002 * 4 * problems.height


@pytest.mark.parametrize(
    ("benchmark", "file"),
    [("folio", "folio/validation.even.jsonl"), ("logicnli", "logicnli/test_language.even.jsonl.gz")],
)
def test_every_verdict_of_the_real_sets_is_graded_right(
    real_rows: Callable[[str], pl.DataFrame], benchmark: str, file: str
):
    problems = read_benchmark(benchmark, real_rows(file))
    for gold, choices in problems.select("answer", "choices").unique().iter_rows():
        assert [choice for choice in choices if grade_answer(gold, says("{t}", "", choice), choices)] == [gold]
