"""Judges in a profile: their files count from the profile's folder, and their names are nobody else's."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import Settings, load_settings


def load(folder: Path, judges: Any, **values: Any) -> Settings:
    profile = folder / "profile.yaml"
    profile.write_text(yaml.safe_dump({"extends": "miniature", "benchmarks": {"judges": judges}, **values}))
    return load_settings(profile, folder / "home")


def test_files_may_be_a_path_or_several_and_stand_beside_the_profile(tmp_path: Path):
    named = {"path": "sub/c.jsonl", "benchmark": "prmbench"}
    judges = load(tmp_path, {"One": "a.jsonl", "Two": ["./b.jsonl", named, "/elsewhere/d.jsonl"]}).benchmarks.judges
    assert [(file.path, file.benchmark) for file in judges["One"].files] == [(str(tmp_path / "a.jsonl"), None)]
    assert [(file.path, file.benchmark) for file in judges["Two"].files] == [
        (str(tmp_path / "b.jsonl"), None),
        (str(tmp_path / "sub" / "c.jsonl"), "prmbench"),
        ("/elsewhere/d.jsonl", None),
    ]


def test_without_judges_there_are_none(tmp_path: Path):
    assert load(tmp_path, {}).benchmarks.judges == {}


@pytest.mark.parametrize("name", ["CPMI", "PAV", "MC (hard)", "human"])
def test_a_name_of_another_row_or_recipe_is_refused(tmp_path: Path, name: str):
    recipes = [{"name": "human", "reward_type": "mc"}]
    with pytest.raises(SettingsError, match="is already that of another row or recipe; choose another"):
        load(tmp_path, {name: "a.jsonl"}, recipes=recipes)


@pytest.mark.parametrize("name", ["", " ", "Mine (official)", "Mine (best)"])
def test_a_name_that_could_not_be_told_apart_is_refused(tmp_path: Path, name: str):
    with pytest.raises(SettingsError, match="cannot name a judge"):
        load(tmp_path, {name: "a.jsonl"})


@pytest.mark.parametrize("files", [[], 7, [{"path": "a.jsonl", "kind": "x"}], {"benchmark": "prmbench"}])
def test_files_of_another_form_are_refused(tmp_path: Path, files: Any):
    with pytest.raises(SettingsError, match=r"benchmarks\.judges\.Mine"):
        load(tmp_path, {"Mine": files})
