"""A home is of one profile file: another of its name neither replaces its results nor shows them as its own."""

import shutil
from pathlib import Path

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.home_file import note_home
from cpmi_dagster.resources.lake.lake import Lake


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder that commands run from, with a profile `mine` in each of two others."""
    for name in ("a/mine.yaml", "b/mine.yaml"):
        write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("extends: miniature\n", encoding="utf-8")
    return path


def fill(profile: Path | str, home: Path | None = None) -> Path:
    """Begin a table, as a run of the profile does."""
    settings = load_settings(profile, home)
    note_home(settings, Lake(settings.home).remove_shards)
    return settings.home


def refused(profile: Path | str, home: Path | None = None) -> str:
    with pytest.raises(SettingsError) as error:
        Lake.of(load_settings(profile, home))
    return str(error.value)


@pytest.mark.parametrize("profiles", [("miniature", "paper"), ("miniature", "a/mine.yaml"), ("a/mine.yaml", "paper")])
def test_another_profile_is_refused_in_either_order(folder, profiles):
    for first, second in (profiles, profiles[::-1]):
        home = folder / f"home of {Path(first).stem}"
        fill(first, home)
        assert "has the results of" in refused(second, home)


def test_a_project_is_moved_or_copied_with_its_home(folder, monkeypatch):
    project = write(folder / "project" / "mine.yaml").parent
    monkeypatch.chdir(project)
    fill("mine.yaml")
    for place in (shutil.copytree(project, folder / "copy"), shutil.move(project, folder / "deep")):
        monkeypatch.chdir(place)
        fill("mine.yaml")
    monkeypatch.chdir(folder)
    assert str(folder / "copy" / "mine.yaml") in refused("deep/mine.yaml", folder / "copy" / ".cpmi" / "mine")


def test_tables_of_another_number_of_shards_go_and_answers_stay(folder, monkeypatch):
    lake = fill("a/mine.yaml") / "lake"
    names = ("labels/step_rewards/.calls/5f0c/4/000/1", "dataset/soft_labels/all", "labels/step_rewards/003")
    paths = [lake / f"{name}.parquet" for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    fill("a/mine.yaml")
    assert all(path.exists() for path in paths)
    monkeypatch.setenv("CPMI_SHARDS", "2")
    fill("a/mine.yaml")
    assert [path.exists() for path in paths] == [True, True, False]
