"""What `cpmi run` selects, and what it refuses."""

import json

import dagster as dg
import pytest
from small_run import run_all

from cpmi_dagster.assets import labels
from cpmi_dagster.contracts.keys import NEGATIVES
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import MAKERS, STAGES
from cpmi_dagster.errors import LakeError, SourceError, UsageError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag import runs
from cpmi_dagster.resources.dag.asset_keys import asset_key
from cpmi_dagster.resources.dag.automation import INGEST, LABEL, PHASES
from cpmi_dagster.resources.dag.dagster_home import open_instance
from cpmi_dagster.resources.dag.runs import alike, chosen_tables
from cpmi_dagster.resources.dag.states import States
from cpmi_dagster.resources.dag.status import partition_states
from cpmi_dagster.resources.lake.lake import Lake

ALIGNED = ("alignment/trajectories", "alignment/rejected_rows")


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        ([], set(TABLES)),
        (
            ["dataset", "labels/step_rewards"],
            {"dataset/soft_labels", "dataset/cpmi_80k", "dataset/dataset_statistics", "labels/step_rewards"},
        ),
        # a table is chosen with those that its stage makes
        (["alignment/trajectories"], set(ALIGNED)),
    ],
)
def test_groups_and_assets_may_be_named(only, chosen):
    assert chosen_tables(only, stages=STAGES) == chosen


def test_a_run_until_a_group_has_all_it_is_made_from_and_nothing_after_it():
    chosen = chosen_tables([], ["labels"], STAGES)
    made = {key for stage in STAGES if set(stage.tables) <= chosen for key in stage.inputs}
    assert made <= chosen and {key for key in TABLES if key.startswith("labels/")} <= chosen
    assert {key.partition("/")[0] for key in chosen} == {"sources", "alignment", "selection", "labels"}


def test_only_and_until_exclude_each_other():
    with pytest.raises(UsageError, match="--until"):
        chosen_tables(["labels"], ["labels"], STAGES)


@pytest.mark.parametrize(("name", "advice"), [("nothing", "groups are alignment, benchmarks"), ("lables", "labels")])
def test_a_name_that_is_neither_is_refused(name, advice):
    for chosen in ({"only": [name]}, {"only": [], "until": [name]}):
        with pytest.raises(UsageError, match=advice):
            chosen_tables(**chosen)


def test_a_run_has_stages_that_are_partitioned_alike_each_after_those_it_reads():
    def names(phase):
        return [[stage.name for stage in part] for part in alike(MAKERS, PHASES[phase])]

    first, *others = names(INGEST)
    assert {"questions", "reference_problems", "benchmark_problems"} <= set(first)
    assert others == [["sampled_solutions"], ["math_shepherd"], ["trajectories"], ["selected_trajectories"]]
    assert len(names(LABEL)) == 1


def test_an_asset_whose_last_run_failed_is_shown_as_failed_until_the_profile_has_what_is_there(tmp_path, monkeypatch):
    key = "sources/reference_problems"

    def states(settings):
        with open_instance(settings) as instance:
            return partition_states(instance, Lake(tmp_path), settings, key, States.of(settings, MAKERS))

    before = load_settings("miniature", tmp_path)
    assert not run_all(before, only=(key,)).failures
    monkeypatch.setenv("CPMI_SOURCES__REFERENCES", '[{"path": "/nowhere.jsonl", "source": "gsm8k", "split": "train"}]')
    settings = load_settings("miniature", tmp_path)
    outcome = run_all(settings, only=(key,))
    assert "there is no data at /nowhere.jsonl" in "; ".join(outcome.failures)
    assert (states(settings), states(before)) == ({"all": "failed"}, {"all": "done"})


def test_a_source_without_rows_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "empty.jsonl").touch()
    monkeypatch.setenv("CPMI_SOURCES__MATH_SHEPHERD", f'{{"path": "{tmp_path}/empty.jsonl"}}')
    outcome = run_all(load_settings("miniature", tmp_path / "home"), only=("sources/math_shepherd",))
    assert "empty.jsonl has no rows" in "; ".join(outcome.failures)


@pytest.mark.parametrize(
    ("truth", "kinds"),
    [
        ({"row_number": 0, "correct": [True, False]}, None),
        ({"row_number": 0, "correct": [True, False], "kind": [None, "calculation"]}, [None, "calculation"]),
    ],
)
def test_truth_may_come_without_the_kinds_of_errors(truth, kinds, tmp_path, monkeypatch):
    (tmp_path / "truth.jsonl").write_text(json.dumps(truth), encoding="utf-8")
    monkeypatch.setenv("CPMI_SOURCES__STEP_TRUTH", f'{{"path": "{tmp_path}/truth.jsonl"}}')
    settings = load_settings("miniature", tmp_path / "home")
    assert not run_all(settings, only=("sources/step_truth",)).failures
    (row,) = Lake.of(settings).read("sources/step_truth").to_dicts()
    assert (row["correct"], row["kind"], row["operations_left"]) == ([True, False], kinds, None)


def test_a_run_that_would_do_nothing_is_not_started_and_runs_are_in_their_jobs_history(tmp_path):
    settings = load_settings("miniature", tmp_path)
    for _ in range(2):
        assert not run_all(settings, only=("sources/step_labels", "sources/step_truth")).failures
    with open_instance(settings) as instance:
        (run,) = instance.get_runs()
        assert (run.job_name, run.tags[".dagster/repository"]) == (INGEST, "__repository__@cpmi")
        assert run.tags["cpmi/profile"] == "miniature"
        records = instance.fetch_materializations(asset_key("sources/step_labels"), limit=5).records
        assert len(records) == 1
    Lake(tmp_path).path("sources/step_labels").unlink()
    assert not run_all(settings, only=("sources/step_labels",)).failures
    assert Lake(tmp_path).exists("sources/step_labels")


def test_a_check_that_did_not_pass_is_asked_again_though_nothing_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "_lets_pass", lambda evaluation: False)
    settings = load_settings("miniature", tmp_path)
    for _ in range(2):
        assert not run_all(settings, only=("alignment", "sources"), shards=["000"]).failures
    with open_instance(settings) as instance:
        check = dg.AssetCheckKey(asset_key(ALIGNED[0]), "every_row_accounted_for")
        asked = instance.event_log_storage.get_asset_check_execution_history(check, limit=99)
    assert len(asked) == 2 * len(settings.shard_keys)


def test_a_shard_that_fails_stops_no_other_and_nothing_is_made_of_it(own_copy, monkeypatch):
    lake, sample = Lake.of(own_copy), labels.sample_negatives
    for shard in own_copy.shard_keys:
        lake.path(NEGATIVES, shard).unlink()
    broken = iter([True])

    def fail_once(*arguments):
        if next(broken, False):
            raise LakeError("shard 000 is not to be")
        return sample(*arguments)

    monkeypatch.setattr(labels, "sample_negatives", fail_once)
    outcome = run_all(own_copy, only=("labels/hard_negatives", "dataset"))
    assert outcome.failures == ["hard_negatives 000: shard 000 is not to be"]
    assert lake.partitions(NEGATIVES) == own_copy.shard_keys[1:]


def test_a_model_that_is_missing_stops_all_shards_with_one_sentence(own_copy, tmp_path):
    missing = own_copy.models.labeler.model_copy(update={"name": str(tmp_path / "nowhere")})
    settings = own_copy.model_copy(update={"models": own_copy.models.model_copy(update={"labeler": missing})})
    with pytest.raises(SourceError, match=r"nowhere[^\n]*$"):
        run_all(settings, only=("labels/hard_negatives",))
