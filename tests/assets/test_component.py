"""`cpmi_dagster.CpmiLabels` in the example project, as `dg` loads it."""

import shutil
import sys
from pathlib import Path

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pytest

from cpmi_dagster import definitions
from cpmi_dagster.component import Starter
from cpmi_dagster.contracts.keys import QUESTIONS, SAMPLED
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import SettingsError, SourceError
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


def built(project: Path, attributes: str) -> dg.Definitions:
    """What the component alone makes of the attributes in a `defs.yaml`."""
    (project / DEFS / "assets.py").unlink()
    text = f"type: cpmi_dagster.CpmiLabels\nattributes: {attributes}\n"
    (project / DEFS / "my_labels" / "defs.yaml").write_text(text)
    return loaded(project)


def problem(error: BaseException | None) -> str:
    """The sentence that `dg` prints last."""
    while error is not None and not isinstance(error, SettingsError):
        error = error.__cause__
    return str(error)


def test_lineage_goes_from_the_projects_asset_through_ours_to_its_next(project):
    graph = loaded(project).resolve_asset_graph()
    ours = {key for key in graph.get_all_asset_keys() if key.path[0] == "my_labels"}
    groups = ("sources", "alignment", "selection", "labels")
    own = {key for key, table in TABLES.items() if table.group in groups} - {QUESTIONS, SAMPLED}
    assert {"/".join(key.path[1:]) for key in ours} == own
    first = graph.get(dg.AssetKey(["my_labels", "sources", "math_shepherd"]))
    assert first.parent_keys == {dg.AssetKey("solutions")}
    assert graph.get(REWARDS).child_keys == {dg.AssetKey("weakest_steps")}
    assert {parent for key in ours for parent in graph.get(key).parent_keys} <= {*ours, dg.AssetKey("solutions")}


def test_solutions_are_sampled_from_questions_of_the_project_and_nothing_happens_by_itself(project):
    sample = "{solutions: 2, sampling: {max_new_tokens: 64}}"
    attributes = (
        f"{{home: ./home, trajectories: {{asset: questions, path: q.jsonl, steps: line, sample: {sample}}},"
        " settings: {models: {policy: {name: 'miniature:labeler'}}}}"
    )
    defs = built(project, attributes)
    assert not (defs.jobs or defs.schedules or defs.sensors or defs.executor)
    assert not [spec for spec in defs.resolve_all_asset_specs() if spec.automation_condition]
    graph = defs.resolve_asset_graph()
    parents = {name: graph.get(dg.AssetKey(["cpmi", *name.split("/")])).parent_keys for name in (QUESTIONS, SAMPLED)}
    assert parents == {QUESTIONS: {dg.AssetKey("questions")}, SAMPLED: {dg.AssetKey(["cpmi", *QUESTIONS.split("/")])}}


def test_two_profiles_in_one_project_share_nothing(project):
    shutil.copytree(project / DEFS / "my_labels", project / DEFS / "others")
    file = project / DEFS / "others" / "defs.yaml"
    text = file.read_text().replace("key_prefix: my_labels", "key_prefix: team/others").replace(".cpmi", "home")
    file.write_text(text)
    defs = loaded(project)
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert {"my_labels/labels/step_rewards", "team/others/labels/step_rewards"} <= keys
    assert {"my_labels__tables", "team__others__tables"} <= set(defs.resources or {})


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ("{home: ., settings: {scoring: {template: 2}}}", "`scoring.template` is not a setting; did you mean"),
        ("{home: ., settings: {shards: 100}}", "`shards` is wrong"),
        ("{home: ., profile: filez}", "there is no profile `filez`"),
        ("{home: ., trajectories: {asset: a, path: a.duckdb}}", "`relation` names a table of a `path` that ends in .d"),
        (
            "{home: ., trajectories: {asset: a, path: a}, settings: {sources: {math_shepherd: {path: b}}}}",
            "names `trajectories` and `settings.sources.math_shepherd`; remove one of them",
        ),
    ],
)
def test_a_wrong_attribute_is_one_sentence_that_names_it(project, attributes, sentence):
    with pytest.raises(Exception) as raised:
        built(project, attributes)
    assert sentence in problem(raised.value)
    assert "\n" not in problem(raised.value)


def test_a_profile_and_paths_are_found_from_the_folder_of_the_defs(project, monkeypatch):
    given = []
    monkeypatch.setattr(definitions, "part_of_project", lambda *options: given.append(options[0]) or dg.Definitions())
    folder = project / DEFS / "my_labels"
    (folder / "mine.yaml").write_text("extends: files\nshards: 3\n")
    attributes = "{home: ./home, profile: mine.yaml, trajectories: {asset: solutions, path: rows.jsonl}}"
    built(project, attributes)
    (settings,) = given
    assert (settings.profile, settings.shards, settings.home) == ("mine", 3, folder / "home")
    assert settings.sources.trajectories[0].path == str(folder / "rows.jsonl")


@pytest.mark.parametrize("append", [False, True])
def test_what_dg_scaffolds_loads(project, append):
    folder = project / DEFS / "more"
    folder.mkdir()
    place = folder / "defs.yaml" if append else folder
    if append:
        shutil.copy(project / DEFS / "my_labels" / "defs.yaml", place)
        shutil.rmtree(project / DEFS / "my_labels")
    request = dg.ScaffoldRequest("cpmi_dagster.CpmiLabels", place, "yaml", project, None, append)
    Starter().scaffold(request)
    keys = {key.to_user_string() for key in loaded(project).resolve_asset_graph().get_all_asset_keys()}
    assert {"more/dataset/cpmi_80k", "my_labels/labels/step_rewards"} <= keys


@pytest.mark.slow
def test_one_run_labels_what_the_project_has_and_hands_it_on(project):
    defs = loaded(project)
    job = defs.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, partition_key="000")
        assert result.success and instance.get_latest_data_version_record(REWARDS, partition_key="000")
    made = [event.asset_key for event in result.get_asset_materialization_events()]
    for key in (dg.AssetKey("solutions"), dg.AssetKey("weakest_steps"), REWARDS):
        assert made.count(key) == 1
    weakest = pl.read_parquet(project / "data" / "weakest_steps.parquet")
    assert weakest["id"].to_list() == sorted(f"solution-{number}" for number in range(12))
    with duckdb.connect(str(project / ".cpmi" / "cpmi.duckdb"), read_only=True) as connection:
        rows = connection.sql(ROWS).pl()
    assert weakest.rows() == rows.sort("reward").unique("source_id", keep="first").sort("source_id").rows()

    @dg.asset(ins={"rewards": dg.AssetIn(REWARDS)})
    def in_pandas(rewards: pd.DataFrame) -> None:
        assert len(rewards) == rows.height

    @dg.asset(ins={"rewards": dg.AssetIn(REWARDS)}, partitions_def=dg.StaticPartitionsDefinition(["000"]))
    def of_a_shard(rewards) -> None:
        assert isinstance(rewards, pl.DataFrame) and rewards.height == rows.height

    later = dg.Definitions.merge(defs, dg.Definitions([in_pandas, of_a_shard]))
    keys = {dg.AssetKey("in_pandas"), dg.AssetKey("of_a_shard")}
    chosen = later.resolve_implicit_global_asset_job_def().get_subset(asset_selection=keys)
    assert chosen.execute_in_process(partition_key="000").success


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
