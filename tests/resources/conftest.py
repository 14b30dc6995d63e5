"""What the tests of stages share: a run of a stage on an empty home."""

from collections.abc import Callable

import pytest

from cpmi_dagster.profiles.settings import load_settings
from resources.data_sources import DataSources
from resources.database import Database
from resources.lake import Lake
from resources.language_models import LanguageModels
from resources.progress import LoggedProgress
from resources.stage import Stage
from resources.stage_run import StageRun


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", home=tmp_path)


@pytest.fixture
def run_of(settings) -> Callable[[Stage], StageRun]:
    lake = Lake(settings.home)

    def build(declared: Stage) -> StageRun:
        models, sources = LanguageModels(settings), DataSources(settings)
        log = lines.append
        return StageRun(
            declared.name, declared.tables, settings, lake, models, sources, Database(lake), LoggedProgress(), "r", log
        )

    lines: list[str] = []
    return build
