"""`cpmi_dagster.CpmiLabels` in the example project, as `dg` loads it."""

import shutil
import sys
from pathlib import Path

import dagster as dg
import duckdb
import polars as pl
import pytest

from cpmi_dagster.component import DefsScaffolder
from cpmi_dagster.errors import SourceError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.sources.data_sources import DataSources

EXAMPLE = Path(__file__).parents[2] / "examples" / "dagster_project"
REWARDS = dg.AssetKey(["my_labels", "labels", "step_rewards"])
ROWS = """select source_id, step_index, reward
from labels.step_rewards join alignment.trajectories using (trajectory_id)"""
DEFS = Path("src", "my_project", "defs")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A copy of the example, with nothing made."""
    shutil.copytree(EXAMPLE, tmp_path / "project", ignore=shutil.ignore_patterns(".cpmi", "data", "__pycache__"))
    monkeypatch.syspath_prepend(tmp_path / "project" / "src")
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_project"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / "project"


def loaded(project: Path) -> dg.Definitions:
    defs = dg.load_from_defs_folder(path_within_project=project)
    dg.Definitions.validate_loadable(defs)
    return defs


def test_what_dg_scaffolds_loads(project):
    folder = project / DEFS / "more"
    folder.mkdir()
    request = dg.ScaffoldRequest("cpmi_dagster.CpmiLabels", folder, "yaml", project, None, False)
    DefsScaffolder().scaffold(request)
    keys = {key.to_user_string() for key in loaded(project).resolve_asset_graph().get_all_asset_keys()}
    assert {"more/dataset/cpmi_80k", "my_labels/labels/step_rewards"} <= keys


@pytest.mark.slow
def test_one_run_labels_what_the_project_has_and_hands_it_on(project):
    defs = loaded(project)
    job = defs.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, partition_key="000")
        assert result.success and instance.get_latest_data_version_record(REWARDS, partition_key="000")
    assert not (project / ".cpmi" / "dagster").exists(), "no lock of a run, which nobody would remove"
    made = [event.asset_key for event in result.get_asset_materialization_events()]
    for key in (dg.AssetKey("solutions"), dg.AssetKey("weakest_steps"), REWARDS):
        assert made.count(key) == 1
    weakest = pl.read_parquet(project / "data" / "weakest_steps.parquet")
    assert weakest["id"].to_list() == sorted(f"solution-{number}" for number in range(12))
    with duckdb.connect(str(project / ".cpmi" / "cpmi.duckdb"), read_only=True) as connection:
        rows = connection.sql(ROWS).pl()
    assert weakest.rows() == rows.sort("reward").unique("source_id", keep="first").sort("source_id").rows()


def test_rows_are_read_from_a_relation_of_a_duckdb_file(tmp_path):
    file, create = (
        tmp_path / "warehouse.duckdb",
        "create table solutions as select 'Q' || i as question from range(40) t(i)",
    )
    with duckdb.connect(str(file)) as connection:
        connection.sql(create)
    sources = DataSources(load_settings("files", tmp_path / "home"))
    source = DataSource(path=str(file), relation="main.solutions")
    assert [row["question"] for row in sources.records(source)] == [f"Q{number}" for number in range(40)]
    with pytest.raises(SourceError, match=r"`other` of .*warehouse.duckdb cannot be read"):
        list(sources.records(DataSource(path=str(file), relation="other")))
