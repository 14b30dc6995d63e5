"""A Dagster history is of one home."""

import shutil

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings
from resources.dagster_home import dagster_folder, open_instance
from resources.history_owner import ID_FILE, claim_history


@pytest.fixture
def one_history(tmp_path, monkeypatch):
    """Homes on stores whose Dagster history is in one folder."""
    monkeypatch.setenv("CPMI_CACHE", str(tmp_path / "copies"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))


def test_a_second_home_is_refused_the_history_of_the_first(one_history):
    first, second = (load_settings("miniature", f"s3://bucket/{name}") for name in ("first", "second"))
    for _ in range(2):
        with open_instance(first):
            pass
    with pytest.raises(SettingsError, match="belongs to the home s3://bucket/first; give s3://bucket/second one of"):
        open_instance(second)


def test_a_home_that_was_moved_or_made_again_keeps_its_history(tmp_path):
    settings = load_settings("miniature", tmp_path / "home")
    with open_instance(settings) as instance:
        shutil.copytree(settings.home, tmp_path / "moved")
        moved = load_settings("miniature", tmp_path / "moved")
        claim_history(instance, moved, dagster_folder(moved))
        (dagster_folder(moved) / ID_FILE).unlink()
        claim_history(instance, moved, dagster_folder(moved))
        with pytest.raises(SettingsError, match="belongs to the home"):
            claim_history(instance, settings, dagster_folder(settings))
