"""What the tests of stages share: an empty home, and runs of stages in it."""

import pytest

from cpmi_dagster.definitions import home_of
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag import stage
from cpmi_dagster.resources.dag.stage_run import Home


@pytest.fixture
def settings(tmp_path) -> Settings:
    return load_settings("miniature", home=tmp_path / "home")


@pytest.fixture
def home(settings, monkeypatch) -> Home:
    """An empty home, whose database is not published: nobody asks."""
    monkeypatch.setattr(stage, "publish", lambda *_: None)
    return home_of(settings, stages={})
