"""A function of the user's in the place of the built-in equivalence: found, called, answered for."""

from multiprocessing import get_context
from pathlib import Path

import polars as pl
import pytest

from cpmi_dagster.alignment import ReferenceIndex
from cpmi_dagster.answers.comparison import BUILT_IN, Answers, Comparison
from cpmi_dagster.answers.verdicts import is_equivalent
from cpmi_dagster.benchmarks.best_of_n import with_answer_classes
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.generation.monte_carlo import graded
from cpmi_dagster.negatives.hard_negatives import choose_negatives
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.profiles.settings import load_settings

INITIALS = Comparison("names:initials", lambda gold, candidate: gold[0] == candidate[0])
NAMES = "def any_case(gold, candidate):\n    return gold.lower() == candidate.lower()\n"


def answers(folder: Path, source: str) -> Answers:
    """Settings that name the function `any_case` of a module of a name of its own."""
    module = f"names_{folder.name}"
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    return Answers(equivalent=f"{module}:any_case", folder=str(folder))


def test_without_a_function_answers_are_compared_as_ever():
    assert Answers().comparison is BUILT_IN
    assert Answers().identity is None
    pairs = [("1/2", "0.5"), ("3", "4"), ("x+1", "1+x")]
    assert BUILT_IN.each(*zip(*pairs, strict=True)) == [is_equivalent(*pair) for pair in pairs]


def test_a_function_of_a_module_in_the_folder_says_what_is_the_same(tmp_path):
    comparison = answers(tmp_path, NAMES).comparison
    assert comparison.same("Ann", "ANN")
    assert not comparison.same("2", "2.0")
    assert comparison.each(["Ann", "2"], ["ann", "2.0"]) == [True, False]


def test_the_module_may_import_what_stands_beside_it(tmp_path):
    (tmp_path / "beside_names.py").write_text("def fold(text):\n    return text.casefold()\n", encoding="utf-8")
    source = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom beside_names import fold\n"
        "@dataclass\nclass Pair:\n    gold: str\n    candidate: str\n"
        "def any_case(gold, candidate):\n    pair = Pair(gold, candidate)\n"
        "    return fold(pair.gold) == fold(pair.candidate)\n"
    )
    assert answers(tmp_path, source).comparison.same("STRASSE", "straße")


def test_a_function_of_an_installed_module_needs_no_folder():
    assert Answers(equivalent="fnmatch:fnmatchcase").comparison.same("a1", "a*")


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("names_0", "", "`names_0` does not name a function; write it as `module:function`"),
        ("nowhere_at_all:same", "", "ModuleNotFoundError: No module named"),
        ("names_1:other", "", "AttributeError: module 'names_1' has no attribute 'other'"),
        ("names_2:NUMBER", "NUMBER = 3", "`names_2:NUMBER` does not name a function"),
        ("names_3:any_case", "def any_case(:", "SyntaxError"),
    ],
)
def test_a_function_that_cannot_be_had_is_refused_when_the_profile_is_read(tmp_path, name, source, message):
    (tmp_path / f"{name.partition(':')[0]}.py").write_text(source, encoding="utf-8")
    if name.startswith("nowhere"):
        (tmp_path / "nowhere_at_all.py").unlink()
    profile = tmp_path / "mine.yaml"
    profile.write_text(f"extends: miniature\nanswers: {{equivalent: '{name}'}}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="`answers` is wrong: ") as caught:
        load_settings(profile)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda gold, candidate: int(gold) == int(candidate), "it raised ValueError: invalid literal for int()"),
        (lambda gold, candidate: None, "it returned None, which is neither True nor False"),
        (lambda gold: True, "it raised TypeError: "),
    ],
)
def test_a_function_that_fails_is_named_with_both_answers(function, problem):
    with pytest.raises(SettingsError, match="`m:f` cannot compare the answers '3' and 'three': ") as caught:
        Comparison("m:f", function).same("3", "three")
    assert problem in str(caught.value)


def test_a_profile_takes_the_function_of_its_own_folder_into_other_processes(tmp_path):
    name = answers(tmp_path, NAMES).equivalent
    profile = tmp_path / "mine.yaml"
    profile.write_text(f"extends: miniature\nanswers: {{equivalent: '{name}'}}\n", encoding="utf-8")
    settings = load_settings(profile, tmp_path / "home")
    child = tmp_path / "below" / "child.yaml"
    child.parent.mkdir()
    child.write_text("extends: ../mine.yaml\n", encoding="utf-8")
    assert load_settings(child).answers.identity == settings.answers.identity
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply(_same, (settings.answers, "Ann", "ANN")) is True
        assert pool.apply(_identity, (settings.answers,)) == settings.answers.identity


def test_references_that_agree_by_the_function_are_no_conflict():
    references = pl.DataFrame({"question": ["Who has 3 hats?"] * 2, "answer": ["Ann", "Anna"]})
    assert ReferenceIndex(references).find("Who has 3 hats?").row is None
    assert ReferenceIndex(references, INITIALS).find("Who has 3 hats?").row == 0


def test_hard_negatives_differ_by_the_function():
    samples = ["Anna", "Bob", "Bert", "Carl"]
    chosen = choose_negatives("Ann", samples, Negatives(count=2), 0, comparison=INITIALS)
    assert [negative.answer for negative in chosen] == ["Bob", "Carl"]


def test_answers_are_graded_and_voted_by_the_function():
    assert graded(["Ann", "Ann", "Ann"], ["Anna", None, "Bob"], INITIALS) == [True, False, False]
    candidates = pl.DataFrame({
        "benchmark": "own", "problem_id": "0", "candidate": [0, 1, 2], "answer": ["Bob", "Bert", "Carl"],
        "correct": False,
    })  # fmt: skip
    assert with_answer_classes(candidates, INITIALS)["answer_class"].to_list() == [0, 0, 2]


def _same(settings: Answers, gold: str, candidate: str) -> bool:
    return settings.comparison.same(gold, candidate)


def _identity(settings: Answers) -> dict[str, str] | None:
    return settings.identity
