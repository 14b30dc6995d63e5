"""A snapshot of the whole asset graph: keys, dependencies, partitions, pools. A change here is a change for users.

After a change on purpose: `python tests/assets/test_asset_graph.py` writes the snapshot again.
"""

import json
from pathlib import Path

import pytest

from cpmi_dagster.contracts.keys import FIGURES, REPORT, STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import STAGES, build_definitions, home_of
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.automation import LABEL, PHASES, PROFILE_TAG

SNAPSHOT = Path(__file__).parent / "asset_graph.json"


def graph() -> dict[str, dict[str, object]]:
    """Every asset with what it depends on and how it is run."""
    return {
        key: {
            "deps": sorted(stage.inputs),
            "partitions": TABLES[key].partitioning,
            "pool": stage.pool,
            "eager": stage.eager,
            "code_version": stage.code_version,
        }
        for stage in STAGES
        for key in stage.tables
    }


def test_the_asset_graph_is_the_one_users_know_and_can_be_read_at_one_look():
    assert graph() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert len(graph()) <= 30
    assert {key for key, asset in graph().items() if len(asset["deps"]) > 5} <= {STEP_REWARDS, FIGURES, REPORT}


@pytest.mark.parametrize("name", ["miniature", "paper"])
def test_every_profile_has_all_assets_and_jobs(tmp_path, name):
    definitions = build_definitions(home_of(load_settings(name, tmp_path)))
    repository = definitions.get_repository_def()
    repository.load_all_definitions()
    assert {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()} == TABLES.keys()
    jobs = {job.name: job for job in repository.get_all_jobs() if not job.name.startswith("__")}
    assert set(PHASES) <= set(jobs)
    assert jobs[LABEL].run_tags[PROFILE_TAG] == name


def test_a_profile_that_cannot_be_run_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: miniature\norchestration: {schedule: foo}\n")
    with pytest.raises(SettingsError, match=r"`orchestration\.schedule` is `foo`, which is not a cron"):
        build_definitions(home_of(load_settings(tmp_path / "mine.yaml", tmp_path)))


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(graph(), indent=2, sort_keys=True) + "\n", encoding="utf-8")
