"""A home on an object store: the same tables as in a folder, seen from other machines, and no credentials anywhere."""

import subprocess
import sys
from pathlib import Path

import obstore
import polars.selectors as cs
import pytest
from obstore.store import from_url
from small_run import SMALL, run_all
from store_server import ACCESS_KEY, SECRET_KEY

from cpmi_dagster.contracts.keys import MODELS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.definitions import MAKERS
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.trace import trace
from cpmi_dagster.resources.commands.verification import verify_home
from cpmi_dagster.resources.dag.automation import LABEL_TABLES
from cpmi_dagster.resources.dag.status import home_status
from cpmi_dagster.resources.lake.database import query
from cpmi_dagster.resources.lake.lake import Lake

ROOT = Path(__file__).resolve().parents[2]
SHARD = "000"
PROFILE = SMALL["profile"]
GROUPS = ("sources", "alignment", "selection", "labels")


@pytest.mark.slow
def test_a_run_on_a_store_makes_the_tables_of_one_in_a_folder(
    s3_home, small_profile, finished_home, tmp_path, monkeypatch
):
    monkeypatch.setenv("CPMI_HOME", s3_home)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    only = [word for group in GROUPS for word in ("--only", group)]
    command = [sys.executable, "-m", "cpmi_dagster", "run", "-p", small_profile, "--shards", "0", *only]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr

    lake, folder = Lake(s3_home, PROFILE), Lake(finished_home, PROFILE)
    for key, table in TABLES.items():
        if table.group in GROUPS:
            partition = [SHARD] if table.partitioning else None
            mine, other = (home.read(key, partition).drop(cs.contains("seconds")) for home in (lake, folder))
            assert mine.equals(other), key
    objects = {found["path"]: bytes(obstore.get(from_url(s3_home), found["path"]).bytes()) for found in _all(s3_home)}
    assert [name for name in objects if any(part.startswith(".") for part in name.split("/"))] == [
        f"lake/.current/{PROFILE}.json"
    ]

    texts = [made.stdout.encode(), made.stderr.encode(), *objects.values()]
    files = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert not any(secret.encode() in text for text in [*texts, *files])

    # another machine, with nothing of its own yet
    monkeypatch.setenv("CPMI_CACHE", str(tmp_path / "elsewhere"))
    settings = load_settings(small_profile)
    found = query(settings, "select count(*) as n from labels.step_rewards").rows
    assert found.item() == lake.read("labels/step_rewards", SHARD).height
    label = lake.read("labels/step_rewards", SHARD).row(0, named=True)
    traced = trace(settings, label["trajectory_id"], label["step_index"])
    assert set(traced.files) >= set(LABEL_TABLES)
    states = {asset.key: asset.partitions for asset in home_status(settings, MAKERS)}
    assert states["labels/step_rewards"][SHARD] == "done"
    assert states["labels/step_rewards"]["001"] == "missing"


def _all(home: str) -> list:
    return [found for page in obstore.list(from_url(home)) for found in page]


@pytest.mark.slow
def test_a_reward_model_and_the_report_are_made_on_a_store_and_read_elsewhere(
    s3_home, small_profile, put_on_store, tmp_path, monkeypatch
):
    put_on_store(s3_home, without=("models", "reports", "benchmarks"))
    settings = load_settings(small_profile, s3_home)
    outcome = run_all(settings, ("models", "benchmarks", "reports"))
    assert not outcome.failures, outcome.failures
    assert not outcome.waiting, outcome.waiting

    here = settings.folder
    monkeypatch.setenv("CPMI_CACHE", str(tmp_path / "elsewhere"))
    elsewhere = load_settings(small_profile, s3_home)
    assert elsewhere.folder != here
    assert not verify_home(elsewhere, lambda *_: None).damage
    lake = Lake(s3_home, PROFILE)
    for recipe in settings.recipe_names:
        card = lake.file(f"models/{recipe}", MODELS, recipe) / "README.md"
        assert "## Figures" in card.read_text(encoding="utf-8")
    assert lake.files.path("report/index.html").read_text(encoding="utf-8").startswith("<!")
    kept = {found["path"].split("/")[1] for found in _all(s3_home) if found["path"].startswith("files/")}
    assert len(kept) == len(settings.recipe_names) + 1, "what is kept is for the recipes and the report alone"
    figures = query(elsewhere, "select count(*) from reports.paper_comparison").rows
    assert figures.item() > 0
