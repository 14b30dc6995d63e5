"""A snapshot of the whole asset graph: keys, dependencies, partitions, pools. A change here is a change for users.

After a change on purpose: `python tests/assets/test_asset_graph.py` writes the snapshot again.
"""

import json
import re
from pathlib import Path

import pytest

from cpmi_dagster.contracts.keys import FIGURES, REPORT, STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import STAGES, build_definitions, home_of
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.automation import PHASES
from cpmi_dagster.resources.lake.lake import partitions_of

SNAPSHOT = Path(__file__).parent / "asset_graph.json"
OF_MANY_INPUTS = {STEP_REWARDS, FIGURES, REPORT}


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


def test_the_asset_graph_is_the_one_users_know():
    assert graph() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def test_every_table_is_made_by_exactly_one_stage():
    made = [key for stage in STAGES for key in stage.tables]
    assert sorted(made) == sorted(TABLES)


def test_the_graph_can_be_read_at_one_look():
    assert len(STAGES) <= len(TABLES) <= 30
    assert {key for stage in STAGES for key in stage.tables if len(stage.inputs) > 5} <= OF_MANY_INPUTS


def test_every_artifact_of_the_paper_is_a_partition_of_the_figures(tmp_path):
    from cpmi_dagster.reports.artifacts import ARTIFACTS

    assert partitions_of(FIGURES, load_settings("miniature", tmp_path)) == list(ARTIFACTS)


def test_every_asset_has_an_owner_a_description_a_schema_and_a_link_to_its_code(tmp_path):
    definitions = build_definitions(home_of(load_settings("miniature", tmp_path)))
    for spec in definitions.resolve_all_asset_specs():
        assert spec.owners, spec.key
        assert len(spec.description or "") > 30, spec.key
        assert {"dagster/column_schema", "dagster/column_lineage", "dagster/code_references"} <= set(spec.metadata)


@pytest.mark.parametrize("cron", ["foo", "99 * * * *", ""])
def test_a_schedule_that_is_no_cron_expression_is_refused(tmp_path, cron):
    (tmp_path / "mine.yaml").write_text(f"extends: miniature\norchestration: {{schedule: '{cron}'}}\n")
    with pytest.raises(SettingsError, match=f"`orchestration.schedule` is `{re.escape(cron)}`, which is not a cron"):
        build_definitions(home_of(load_settings(tmp_path / "mine.yaml", tmp_path)))


@pytest.mark.parametrize("name", ["miniature", "miniature-all", "files", "paper"])
def test_every_shipped_profile_has_all_assets_and_jobs(tmp_path, name):
    repository = build_definitions(home_of(load_settings(name, tmp_path))).get_repository_def()
    repository.load_all_definitions()
    keys = {key.to_user_string() for key in repository.assets_defs_by_key}
    assert keys == set(TABLES)
    assert set(PHASES) <= {job.name for job in repository.get_all_jobs()}


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(graph(), indent=2, sort_keys=True) + "\n", encoding="utf-8")
