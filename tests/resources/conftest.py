"""What the tests of stages share: an empty home, and runs of stages in it."""

import pytest

from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag import making
from cpmi_dagster.resources.dag.progress import Progress
from cpmi_dagster.resources.dag.stage_run import Home
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.models.language_models import LanguageModels
from cpmi_dagster.resources.sources.data_sources import DataSources


@pytest.fixture
def settings(tmp_path) -> Settings:
    return load_settings("miniature", home=tmp_path / "home")


@pytest.fixture
def home(settings, monkeypatch) -> Home:
    """An empty home, whose database is not published: nobody asks."""
    monkeypatch.setattr(making, "publish", lambda *_: None)
    return Home(settings, Lake.of(settings), LanguageModels(settings), DataSources(settings), Progress())
