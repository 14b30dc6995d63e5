"""What `cpmi run` selects, refuses, skips, makes again, and says at its end; what Dagster has of it."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import pytest
from small_run import run_all
from typer.testing import CliRunner

from cpmi_dagster.assets import labels, sources
from cpmi_dagster.cli.commands import app
from cpmi_dagster.contracts.keys import NEGATIVES
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import (
    STAGE_BY_TABLE,
    STAGES,
    dry_run,
    home_of,
    narrow_pilot,
)
from cpmi_dagster.errors import LakeError, SourceError
from cpmi_dagster.files import locks
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.instance import open_instance
from cpmi_dagster.resources.dag.jobs import INGEST
from cpmi_dagster.resources.dag.making import bring_up_to_date
from cpmi_dagster.resources.dag.run import chosen_tables
from cpmi_dagster.resources.dag.stage import asset_key
from cpmi_dagster.resources.dag.stage_run import StageRun
from cpmi_dagster.resources.lake.lake import Lake

pytestmark = pytest.mark.usefixtures("published_at_the_end")
SOURCE = "sources/math_shepherd"


def test_a_run_until_a_group_has_all_it_is_made_from_and_nothing_after_it():
    chosen = chosen_tables([], ["labels"], STAGES)
    assert {key for stage in STAGES if set(stage.tables) <= chosen for key in stage.inputs} <= chosen
    assert {key for key in TABLES if key.startswith("labels/")} <= chosen
    assert {key.partition("/")[0] for key in chosen} == {"sources", "alignment", "selection", "labels"}


def rows_of(version: str) -> str:
    return "".join(json.dumps({"question": f"{n} + 1?", "steps": [f"{version} {n}"]}) + "\n" for n in range(40))


def test_a_source_that_is_edited_while_it_is_read_leaves_no_rows_of_two_versions(tmp_path, monkeypatch):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(rows_of("old"))
    monkeypatch.setenv("CPMI_SOURCES__TRAJECTORIES", json.dumps({"path": str(rows)}))
    settings, number_rows = load_settings("miniature", tmp_path / "home"), sources.number_rows

    def number_and_edit(*arguments):
        rows.write_text(rows_of("new"))
        return number_rows(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(sources, "number_rows", number_and_edit)
        (failure,) = run_all(settings, only=(SOURCE,)).failures
    assert "the sources of sources/math_shepherd changed while its rows were made; nothing is written" in failure
    lake = Lake.of(settings)
    assert not lake.has_table(SOURCE)
    assert not run_all(settings, only=(SOURCE,)).failures
    assert {steps[0].split()[0] for steps in lake.read(SOURCE)["steps"]} == {"new"}
    rows.write_text("")
    assert "rows.jsonl has no rows" in "; ".join(run_all(settings, only=(SOURCE,)).failures)


def test_a_pilot_reads_a_changed_source_into_all_shards_before_it_looks_at_few(tmp_path, monkeypatch):
    rows = tmp_path / "rows.jsonl"
    monkeypatch.setenv("CPMI_SOURCES__TRAJECTORIES", json.dumps({"path": str(rows)}))
    settings = load_settings("miniature", tmp_path / "home")
    for version in ("old", "new"):
        rows.write_text(rows_of(version))
        assert narrow_pilot(settings.limited(1)).shard_keys == settings.shard_keys
        assert not run_all(settings.limited(1), only=(SOURCE,)).failures
        steps = Lake.of(settings).read(SOURCE)["steps"]
        assert len(steps) == 40 and {each[0].split()[0] for each in steps} == {version}
        assert narrow_pilot(settings.limited(1)).shard_keys == ["000"]


def test_a_run_that_would_do_nothing_is_not_started_and_runs_are_in_their_jobs_history(tmp_path):
    settings, table = load_settings("miniature", tmp_path), "sources/reference_problems"
    for _ in range(2):
        assert not run_all(settings, only=(table,)).failures
    with open_instance(settings) as instance:
        (run,) = instance.get_runs()
        assert (run.job_name, run.tags[".dagster/repository"]) == (INGEST, "__repository__@cpmi")
        assert run.tags["cpmi/profile"] == "miniature"
        assert len(instance.fetch_materializations(asset_key(table), limit=5).records) == 1
    Lake(tmp_path).path(table).unlink()
    assert not run_all(settings, only=(table,)).failures
    assert Lake(tmp_path).has_table(table)


def test_a_shard_that_fails_stops_no_other_and_nothing_is_made_of_it(own_copy, tmp_path, monkeypatch):
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
    missing = own_copy.models.labeler.model_copy(update={"name": str(tmp_path / "nowhere")})
    settings = own_copy.model_copy(update={"models": own_copy.models.model_copy(update={"labeler": missing})})
    with pytest.raises(SourceError, match=r"nowhere[^\n]*$"):
        run_all(settings, only=("labels/hard_negatives",))


def test_a_stage_waits_for_a_partition_that_another_process_makes(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.05)
    home, stage, said = (
        home_of(load_settings("miniature", tmp_path)),
        STAGE_BY_TABLE["sources/reference_problems"],
        Queue(),
    )
    with ThreadPoolExecutor(1) as pool:
        with home.lake.lock_partition(stage.table, None, print):
            other = pool.submit(bring_up_to_date, StageRun(stage, home, None, "run", said.put))
            assert "another process holds the lock" in said.get(timeout=120)
            assert not home.lake.has_table(stage.table)
        other.result()
    assert home.lake.has_table(stage.table)


def test_a_dry_run_says_what_would_be_made_and_why_and_makes_nothing(finished):
    files = {path: path.stat().st_mtime for path in finished.home.rglob("*.parquet")}
    assert dry_run(finished, finished.shard_keys, [], False, []).to_make.is_empty()
    changed = finished.model_copy(update={"rewards": finished.rewards.model_copy(update={"alpha": 0.3})})
    found = dry_run(changed, finished.shard_keys, ["labels"], False, [])
    ((table, partitions, _, _, why),) = found.to_make.iter_rows()
    assert (table, partitions, found.trajectories) == ("labels/step_rewards", len(finished.shard_keys), 16)
    assert "rewards.alpha_read: 1.0, now 0.3" in why
    assert files == {path: path.stat().st_mtime for path in finished.home.rglob("*.parquet")}


def test_a_pilot_looks_at_one_shard_of_many_if_that_has_rows_enough(finished):
    assert narrow_pilot(finished.limited(5)).shard_keys == finished.shard_keys[:1]
    assert narrow_pilot(finished).shard_keys == finished.shard_keys


@pytest.mark.slow
def test_a_run_shows_no_figure_of_an_earlier_one_as_its_own(own_copy, small_profile):
    variables = {"CPMI_HOME": str(own_copy.home), "CPMI_REWARDS__ALPHA": "0.3"}
    result = CliRunner().invoke(app, ["run", "-p", small_profile, "--only", "labels"], env=variables)
    assert result.exit_code == 0, result.output
    assert "labels made" in result.stdout and "measured, with 95 % intervals" not in result.stdout
    assert "Changed   " in result.stdout
    said = re.search(r"Stale +(.*), as of 20.*has other inputs.*; `cpmi run -p .*` makes it again", result.stdout)
    assert said and "labels" not in said[1].split(", ")
