"""How the answers that models write to multiple-choice and verdict questions are graded, on the real sets too."""

import pytest

from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.benchmarks.multiple_choice import grade_answer
from cpmi_dagster.benchmarks.readers import FOLIO_VERDICTS, LOGICNLI_VERDICTS

ATOMS = ["a light atom", "x + 1", "x - 1", "(A) and (B)"]
BY_LETTER = (
    "{L}", "[{L}]", "({L}) {t}", "{L}: {t}", "{L} - {t}", "{L} ({t})", "Option ({L}) is correct",
    "{L} because it is right", "the correct answer is {L}", r"\boxed{{{L}}}", r"$\text{{({L})}}$", "**{L}**",
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


@pytest.mark.parametrize("template", BY_LETTER)
def test_an_option_is_named_by_its_letter_however_it_is_written(template):
    for letter, text in zip("ABCD", ATOMS, strict=True):
        said = extract_answer("So we are done.\nThe answer is: " + template.format(L=letter, t=text))
        assert [grade_answer(gold, said, ATOMS) for gold in "ABCD"] == [gold == letter for gold in "ABCD"]


@pytest.mark.parametrize(
    ("gold", "answer", "options", "is_right"),
    [
        # signs tell options apart
        ("B", "x + 1", ATOMS, True),
        ("B", "x - 1", ATOMS, False),
        # the whole text of an option goes before a letter in it
        ("D", "(A) and (B)", ATOMS, True),
        # an option called by a letter of its own is meant by its letter
        ("A", "(A) A", ["A", "B", "C", "Not sure"], True),
        ("D", "not sure", ["A", "B", "C", "Not sure"], True),
        ("B", None, ATOMS, False),
        # two options or none are wrong
        *((gold, answer, ATOMS[:3], False) for gold in "ABC" for answer in ("B and C", "E", "A light atom bulb")),
        # without options an answer is graded by equivalence
        (r"\frac{1}{2}", "0.5", None, True),
    ],
)
def test_an_answer_means_one_option_or_the_gold_answer(gold, answer, options, is_right):
    assert grade_answer(gold, answer, options) == is_right


@pytest.mark.parametrize(("gold", "answer"), [(gold, text) for gold, texts in VERDICT_TEXTS.items() for text in texts])
def test_a_verdict_is_understood_however_it_is_worded(gold, answer):
    verdicts = FOLIO_VERDICTS if gold in FOLIO_VERDICTS else LOGICNLI_VERDICTS
    assert [verdict for verdict in verdicts if grade_answer(verdict, answer, verdicts)] == [gold]
