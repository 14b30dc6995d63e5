"""A function of the user's in the place of the built-in equivalence."""

from multiprocessing import get_context
from pathlib import Path

import polars as pl

from cpmi_dagster.alignment import ReferenceIndex
from cpmi_dagster.answers.comparison import Answers, Comparison
from cpmi_dagster.benchmarks.best_of_n import with_answer_classes
from cpmi_dagster.generation.monte_carlo import grade
from cpmi_dagster.negatives.hard_negatives import choose_negatives
from cpmi_dagster.negatives.settings import Negatives
from cpmi_dagster.profiles.settings import load_settings

INITIALS = Comparison("names:initials", lambda gold, candidate: gold[0] == candidate[0])


def write_profile(folder: Path, name: str) -> Path:
    profile = folder / "mine.yaml"
    profile.write_text(f"extends: miniature\nanswers: {{equivalent: '{name}'}}\n", encoding="utf-8")
    return profile


def test_a_profile_takes_the_function_of_its_own_folder_into_other_processes(tmp_path):
    (tmp_path / "beside_names.py").write_text("fold = str.casefold\n", encoding="utf-8")
    source = (
        "from beside_names import fold\ndef fold_case(gold, candidate):\n    return fold(gold) == fold(candidate)\n"
    )
    (tmp_path / "names_of_mine.py").write_text(source, encoding="utf-8")
    settings = load_settings(write_profile(tmp_path, "names_of_mine:fold_case"), tmp_path / "home").answers
    child = tmp_path / "below" / "child.yaml"
    child.parent.mkdir()
    child.write_text("extends: ../mine.yaml\n", encoding="utf-8")
    assert load_settings(child).answers.identity == settings.identity
    with get_context("spawn").Pool(1) as pool:
        verdicts, identity = pool.apply(_judge, (settings, ["STRASSE", "2"], ["straße", "2.0"]))
    assert verdicts == [True, False] and identity == settings.identity


def _judge(settings: Answers, golds: list[str], candidates: list[str]) -> tuple[list[bool], dict[str, str] | None]:
    return settings.comparison.each(golds, candidates), settings.identity


def test_references_negatives_grades_and_votes_are_compared_by_the_function():
    references = pl.DataFrame({"question": ["Who has 3 hats?"] * 2, "answer": ["Ann", "Anna"]})
    assert ReferenceIndex(references).find("Who has 3 hats?").row is None
    assert ReferenceIndex(references, INITIALS).find("Who has 3 hats?").row == 0
    chosen = choose_negatives("Ann", ["Anna", "Bob", "Bert", "Carl"], Negatives(count=2), 0, comparison=INITIALS)
    assert [negative.answer for negative in chosen] == ["Bob", "Carl"]
    assert grade(["Ann", "Ann", "Ann"], ["Anna", None, "Bob"], INITIALS) == [True, False, False]
    candidates = pl.DataFrame({
        "benchmark": "own", "problem_id": "0", "candidate": [0, 1, 2], "answer": ["Bob", "Bert", "Carl"],
        "correct": False,
    })  # fmt: skip
    assert with_answer_classes(candidates, INITIALS)["answer_class"].to_list() == [0, 0, 2]
