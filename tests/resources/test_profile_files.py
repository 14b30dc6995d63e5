"""A home is of one profile file: another of its name neither replaces its results nor shows them as its own."""

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cpmi_dagster.cli.commands import app
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.lake.lake import Lake

ENTRY = {("selection/selected_trajectories", None): {"5f0c.parquet": ["all"]}}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder that commands run from, with a profile `mine` in each of two others."""
    for name in ("a", "b"):
        write(tmp_path / name / "mine.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str = "extends: miniature\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def fill(profile: Path | str) -> None:
    """Commit something, as a run of the profile does."""
    Lake.of(load_settings(profile)).count(ENTRY)


def refused(profile: Path | str) -> str:
    with pytest.raises(SettingsError) as found:
        fill(profile)
    return str(found.value)


def test_two_files_of_one_name_are_both_named_with_what_to_do(folder):
    fill("a/mine.yaml")
    message = refused("b/mine.yaml")
    assert str(folder / "a" / "mine.yaml") in message and str(folder / "b" / "mine.yaml") in message
    assert "CPMI_HOME=.cpmi/mine-2" in message
    fill("a/mine.yaml")


COMMANDS = (
    "run --only selection", "status", "status --verify", "query select+1", "trace t000000000", "explore --port 3977",
    "ui --port 3977", "export --to out", "plan", "calibrate --labels mc,cpmi",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_the_results_of_another_file(folder, command):
    fill("a/mine.yaml")
    arguments = [word.replace("+", " ") for word in command.split()]
    found = CliRunner().invoke(app, [*arguments, "-p", "b/mine.yaml"])
    assert isinstance(found.exception, SettingsError) and "has the results of" in str(found.exception)
    assert found.stdout == ""


def test_the_labels_of_another_file_are_not_calibrated_on(folder):
    fill("a/mine.yaml")
    write(folder / "other.yaml")
    found = CliRunner().invoke(
        app, ["calibrate", "--labels", "mc,cpmi", "-p", "other.yaml", "--apply", str(folder / "b" / "mine.yaml")]
    )
    assert isinstance(found.exception, SettingsError) and "has the results of" in str(found.exception)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("miniature", "miniature.yaml"),
        ("miniature.yaml", "miniature"),
        ("a/mine", "a/mine.yaml"),
        ("a/other.yaml", "a/mine.yaml"),
    ],
)
def test_names_that_are_the_same_in_another_way_are_told_apart(folder, first, second):
    for path, text in (("miniature.yaml", ""), ("a/mine", ""), ("a/other.yaml", "profile: mine\n")):
        write(folder / path, f"extends: paper\n{text}")
    fill(first)
    named = "the shipped profile `miniature`" if "miniature" in (first, second) else str(folder / first)
    assert named in refused(second)


@pytest.mark.parametrize(
    "spelling", ["./a/mine.yaml", "b/../a/mine.yaml", "link/mine.yaml", "c/mine.yaml", "d/mine.yaml", "{}/a/mine.yaml"]
)
def test_a_file_is_the_same_however_it_is_spelled_or_linked(folder, spelling):
    for name in ("c", "d"):
        (folder / name).mkdir()
    (folder / "link").symlink_to("a")
    (folder / "c" / "mine.yaml").symlink_to("../a/mine.yaml")
    os.link(folder / "a" / "mine.yaml", folder / "d" / "mine.yaml")
    fill("a/mine.yaml")
    fill(spelling.format(folder))
    fill("a/mine.yaml")


def test_a_file_may_be_changed_deleted_and_written_again_and_other_names_share_a_home(folder, monkeypatch):
    monkeypatch.setenv("CPMI_HOME", str(folder / "home"))
    fill("a/mine.yaml")
    (folder / "a" / "mine.yaml").unlink()
    write(folder / "a" / "mine.yaml", "extends: paper\n")
    fill("a/mine.yaml")
    fill(write(folder / "b" / "other.yaml"))
    fill("miniature")
    refused("b/mine.yaml")


def test_a_project_is_moved_or_copied_with_its_home(folder, monkeypatch):
    project = folder / "project"
    write(project / "mine.yaml")
    monkeypatch.chdir(project)
    fill("mine.yaml")
    monkeypatch.chdir(shutil.copytree(project, folder / "copy"))
    fill("mine.yaml")
    monkeypatch.chdir(shutil.move(project, folder / "deep" / "er"))
    fill("mine.yaml")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CPMI_HOME", str(folder / "copy" / ".cpmi" / "mine"))
    fill("copy/mine.yaml")
    assert str(folder / "copy" / "mine.yaml") in refused("deep/er/mine.yaml")


def test_the_file_of_a_home_that_lies_behind_a_link_is_known(folder, monkeypatch):
    (folder / "disk" / "far" / "away").mkdir(parents=True)
    (folder / ".cpmi").symlink_to("disk/far/away")
    fill("a/mine.yaml")
    monkeypatch.setenv("CPMI_HOME", str(folder / "disk" / "far" / "away" / "mine"))
    fill("a/mine.yaml")
    refused("b/mine.yaml")


def test_a_file_that_was_moved_keeps_its_home_and_a_word_is_said(folder, caplog):
    fill("a/mine.yaml")
    shutil.move(folder / "a" / "mine.yaml", folder / "mine.yaml")
    assert Lake.of(load_settings("mine.yaml")).counted  # to read changes nothing
    assert not caplog.text
    Lake.of(load_settings("mine.yaml")).claim()
    assert f"of {folder / 'a' / 'mine.yaml'}, which is not there any more: now of {folder / 'mine.yaml'}" in caplog.text
    write(folder / "a" / "mine.yaml")
    refused("a/mine.yaml")


def test_a_home_of_an_earlier_version_is_read_by_any_file_and_is_then_that_of_the_first_that_runs(folder):
    Lake(folder / ".cpmi" / "mine", "mine").count(ENTRY)
    for name in ("b", "a"):
        assert Lake.of(load_settings(f"{name}/mine.yaml")).counted
    Lake.of(load_settings("a/mine.yaml")).claim()
    refused("b/mine.yaml")


def test_of_two_that_begin_at_once_the_second_is_refused_when_it_commits(folder):
    first, second = (Lake.of(load_settings(f"{name}/mine.yaml")) for name in ("a", "b"))
    first.count(ENTRY)
    with pytest.raises(SettingsError, match="has the results of"):
        second.count({("alignment/trajectories", None): {"0a1b.parquet": ["all"]}})
    assert first.entry("alignment/trajectories") is None
