"""`cpmi run` ends with what is true of the run."""

import io

import pytest
from rich.console import Console

from cpmi_dagster.assets import run_profile
from cpmi_dagster.assets.runs import Outcome
from cpmi_dagster.definitions import STAGES
from cpmi_dagster.profiles.settings import load_settings


@pytest.mark.parametrize(
    ("outcome", "says_so"),
    [(Outcome(), True), (Outcome(failures=["a step failed"]), False), (Outcome(waiting=["a phase waits"]), False)],
)
def test_everything_is_up_to_date_only_where_nothing_failed_or_waits(tmp_path, monkeypatch, outcome, says_so):
    def skip_one(definitions, *_):
        definitions.finish("alignment.trajectories", None, 1, 0.0, skipped=True)
        return outcome

    monkeypatch.setattr(run_profile, "run_phases", skip_one)
    settings, console = load_settings("miniature", tmp_path), Console(file=io.StringIO())
    run_profile.run_profile(lambda _, progress, __: progress, STAGES, settings, ["000"], [], False, console, False)
    assert ("Everything is up to date" in console.file.getvalue()) == says_so
