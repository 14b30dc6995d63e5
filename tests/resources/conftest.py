"""What the tests of stages share: a run of a stage on an empty home."""

from collections.abc import Callable

import pytest

from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.progress import LoggedProgress
from cpmi_dagster.resources.dag.stage import Stage
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.database import Database
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.sources.data_sources import DataSources
from cpmi_dagster.resources.workers.language_models import LanguageModels


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", home=tmp_path)


@pytest.fixture
def run_of(settings) -> Callable[[Stage], StageRun]:
    lake = Lake.of(settings)

    def build(declared: Stage) -> StageRun:
        models, sources = LanguageModels(settings), DataSources(settings)
        log = lines.append
        return StageRun(
            declared.name, declared.tables, settings, lake, models, sources, Database(lake), LoggedProgress(), "r", log,
            stages=dict.fromkeys(declared.tables, declared),
        )  # fmt: skip

    lines: list[str] = []
    return build
