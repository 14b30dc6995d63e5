"""A home is of one profile file: another of its name neither replaces its results nor shows them as its own."""

import os
import shutil
from pathlib import Path

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.home_file import NAME, claim_home, known_homes, note_home, nothing_made
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


def fill(profile: Path | str, home: Path | None = None) -> None:
    """Begin a table, as a run of the profile does."""
    settings = load_settings(profile, home)
    note_home(settings, Lake(settings.home).remove_shards)


def refused(profile: Path | str, home: Path | None = None) -> str:
    with pytest.raises(SettingsError) as found:
        Lake.of(load_settings(profile, home))
    return str(found.value)


def test_another_file_of_the_name_is_refused_and_both_are_named_with_what_to_do(folder):
    fill("a/mine.yaml")
    message = refused("b/mine.yaml")
    assert str(folder / "a" / "mine.yaml") in message and str(folder / "b" / "mine.yaml") in message
    assert message.endswith("set CPMI_HOME to another folder for it, such as .cpmi/mine-2")
    fill("a/mine.yaml")


@pytest.mark.parametrize(("first", "second"), [("miniature", "paper"), ("miniature", "a/mine.yaml")])
def test_another_profile_is_refused_in_either_order(folder, first, second):
    for one, other in ((first, second), (second, first)):
        home = folder / f"home of {Path(one).stem}"
        fill(one, home)
        assert "has the results of" in refused(other, home)


@pytest.mark.parametrize(
    "spelling", ["./a/mine.yaml", "b/../a/mine.yaml", "link/mine.yaml", "d/mine.yaml", "{}/a/mine.yaml"]
)
def test_a_file_is_the_same_however_it_is_spelled_or_linked(folder, spelling):
    (folder / "d").mkdir()
    (folder / "link").symlink_to("a")
    os.link(folder / "a" / "mine.yaml", folder / "d" / "mine.yaml")
    for name in ("a/mine.yaml", spelling.format(folder), "a/mine.yaml"):
        fill(name)


def test_a_project_is_moved_or_copied_with_its_home(folder, monkeypatch):
    project = write(folder / "project" / "mine.yaml").parent
    monkeypatch.chdir(project)
    fill("mine.yaml")
    for place in (shutil.copytree(project, folder / "copy"), shutil.move(project, folder / "deep")):
        monkeypatch.chdir(place)
        fill("mine.yaml")
    monkeypatch.chdir(folder)
    assert str(folder / "copy" / "mine.yaml") in refused("deep/mine.yaml", folder / "copy" / ".cpmi" / "mine")


def test_a_file_that_was_moved_keeps_its_home(folder):
    fill("a/mine.yaml")
    shutil.move(folder / "a" / "mine.yaml", folder / "mine.yaml")
    fill("mine.yaml")
    write(folder / "a" / "mine.yaml")
    refused("a/mine.yaml")


def test_looking_writes_nothing_and_a_note_that_is_damaged_is_written_again(folder):
    settings = load_settings("a/mine.yaml")
    claim_home(settings)
    assert not settings.home.exists()
    fill("a/mine.yaml")
    (settings.home / "home.json").write_text("{")
    fill("b/mine.yaml")
    assert "b" in refused("a/mine.yaml")


def test_a_home_of_an_earlier_form_is_one_sentence(folder):
    settings = load_settings("a/mine.yaml")
    (settings.home / "lake" / ".current").mkdir(parents=True)
    assert "was made by an earlier version of this package" in refused("a/mine.yaml")
    assert "set CPMI_HOME to a new folder, or move this one away" in refused("a/mine.yaml")


def test_tables_of_another_number_of_shards_go_and_answers_stay(folder, monkeypatch):
    fill("a/mine.yaml")
    settings = load_settings("a/mine.yaml")
    lake = settings.home / "lake"
    kept = [
        lake / name for name in ("labels/step_rewards/.calls/5f0c/4/000/1.parquet", "dataset/soft_labels/all.parquet")
    ]
    tables = [lake / f"labels/step_rewards/{shard}.parquet" for shard in settings.shard_keys]
    for path in (*kept, *tables):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    fill("a/mine.yaml")
    assert all(path.exists() for path in (*kept, *tables))
    monkeypatch.setenv("CPMI_SHARDS", "2")
    fill("a/mine.yaml")
    assert [path.exists() for path in (*kept, *tables)] == [True, True, *(False for _ in tables)]


def test_the_homes_of_a_folder_are_listed_with_their_profiles_that_of_the_last_run_first(folder):
    fill("miniature")
    fill("a/mine.yaml")
    os.utime(folder / ".cpmi" / "miniature" / NAME, (0, 0))
    assert [home.profile for home in known_homes()] == ["a/mine.yaml", "miniature"]
    os.utime(folder / ".cpmi" / "mine" / NAME, (0, 0))
    fill("miniature")
    assert [home.profile for home in known_homes()] == ["miniature", "a/mine.yaml"]


def test_where_nothing_was_made_the_homes_that_are_there_are_named(folder):
    assert "no other home is in this folder" in nothing_made(load_settings("paper"))
    fill("a/mine.yaml")
    assert "homes in this folder are .cpmi/mine (-p a/mine.yaml)" in nothing_made(load_settings("paper"))


def test_a_profile_that_was_removed_is_not_taken_and_cpmi_home_is_the_only_home_that_is_looked_at(folder, monkeypatch):
    fill("a/mine.yaml")
    fill("b/mine.yaml", folder / "elsewhere")
    monkeypatch.setenv("CPMI_HOME", str(folder / "elsewhere"))
    assert [home.profile for home in known_homes()] == ["b/mine.yaml"]
    (folder / "b" / "mine.yaml").unlink()
    assert known_homes() == []
