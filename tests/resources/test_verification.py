"""Every byte of a home is compared with what was written."""

import shutil

import polars as pl
import pytest

from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.models.model_files import weights_hash, write_digests
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.verification import verify_home
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.records import Record

KEY, MODELS = "labels/hard_negatives", "models/process_reward_models"
ROWS = pl.DataFrame({"trajectory_id": ["t1"], "rank": [1], "answer": ["3"], "source": ["model"]})


@pytest.fixture
def settings(tmp_path) -> Settings:
    return load_settings("miniature", tmp_path)


@pytest.fixture
def lake(settings) -> Lake:
    lake = Lake.of(settings)
    for shard in ("000", "001"):
        lake.write(ROWS, Record(KEY, shard, "key", "r", "m@1", "1"))
    return lake


def damage(settings: Settings) -> list[str]:
    steps: list[tuple[int, int]] = []
    files, sentences = verify_home(settings, lambda count, total: steps.append((count, total)))
    assert steps == [(1, files)] * files
    return sentences


def test_a_home_as_it_was_written_has_no_damage(settings, lake):
    assert verify_home(settings, lambda *_: None) == (2, [])


def test_each_damaged_file_is_named(settings, lake, flip):
    flip(lake.path(KEY, "001"), 50)
    (sentence,) = damage(settings)
    assert sentence == f"{lake.path(KEY, '001')} is damaged; run `cpmi run`, which makes it again"


def test_weights_that_training_did_not_write_are_named(settings, lake):
    row = {"recipe": "mc_bce", "reward_type": "mc", "objective": "bce", "backbone": "b", "path": "models/mc_bce"}
    row |= {
        "weights_fingerprint": "5f0c",
        "data_version": "d",
        "train_steps": 1,
        "seconds": 1.0,
        "training_curve": [],
        "scores": [],
    }
    schema = lake.read(MODELS, []).schema
    lake.write(pl.DataFrame([row], schema=schema), Record(MODELS, "mc_bce", "key", "r", "m", "1"))
    assert "models/mc_bce has no *.safetensors weights" in damage(settings)[0]
    (settings.home / "models" / "mc_bce").mkdir(parents=True)
    (settings.home / "models" / "mc_bce" / "model.safetensors").write_bytes(b"other")
    assert "models/mc_bce are not those that were trained" in damage(settings)[0]


def test_a_parquet_file_that_nobody_wrote_there_is_named(settings, lake):
    copy = lake.path(KEY, "001").with_name("Copy of it.parquet")
    shutil.copy(lake.path(KEY, "001"), copy)
    (sentence,) = damage(settings)
    assert sentence == f"{copy} is damaged or a copy, and no table shows it; remove it"


def test_a_model_whose_tokenizer_was_damaged_is_named(settings, lake, flip):
    folder = settings.home / "models" / "mc_bce"
    shutil.copytree(MODEL_FOLDERS["prover"], folder)
    write_digests(folder)
    row = {"recipe": "mc_bce", "reward_type": "mc", "objective": "bce", "backbone": "b", "path": "models/mc_bce"}
    row |= {"data_version": "d", "train_steps": 1, "seconds": 1.0, "training_curve": [], "scores": []}
    rows = pl.DataFrame([row | {"weights_fingerprint": weights_hash(folder)}], schema=lake.read(MODELS, []).schema)
    lake.write(rows, Record(MODELS, "mc_bce", "key", "r", "m", "1"))
    assert damage(settings) == []
    flip(folder / "tokenizer.json", 5000)
    assert "tokenizer.json is not as training wrote it" in damage(settings)[0]
