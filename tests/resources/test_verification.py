"""Every byte of a home is compared with what was written."""

import shutil

import polars as pl

from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.models.model_files import weights_hash, write_digests
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.commands.doctor import verify_home
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record

KEY, MODELS = "labels/hard_negatives", "models/process_reward_models"


def test_each_damaged_file_or_model_and_each_file_that_nobody_wrote_there_is_named(tmp_path, flip):
    settings = load_settings("miniature", tmp_path)
    lake, folder = Lake.of(settings), settings.home / "models" / "mc_bce"
    shutil.copytree(MODEL_FOLDERS["prover"], folder)
    write_digests(folder)
    rows = pl.DataFrame({"trajectory_id": ["t1"], "rank": [1], "answer": ["3"], "source": ["model"]})
    model = {"recipe": "mc_bce", "reward_type": "mc", "objective": "bce", "backbone": "b", "path": "models/mc_bce"}
    model |= {"data_version": "d", "train_steps": 1, "seconds": 1.0, "training_curve": [], "scores": []}
    model |= {"weights_fingerprint": weights_hash(folder)}
    for shard in ("000", "001"):
        lake.write(rows, Record(KEY, shard, "key", "r", "m@1", "1"))
    lake.write(pl.DataFrame([model], schema=lake.read(MODELS, []).schema), Record(MODELS, "mc_bce", "key", "r"))
    assert verify_home(settings, lambda *_: None) == (3, [])
    path = lake.path(KEY, "001")
    copy = shutil.copy(path, path.with_name("Copy of it.parquet"))
    flip(path, 50)
    flip(folder / "tokenizer.json", 5000)
    steps: list[tuple[int, int]] = []
    files, sentences = verify_home(settings, lambda count, total: steps.append((count, total)))
    assert (files, steps) == (4, [(1, 4)] * 4)
    assert sorted(sentences[:2]) == [
        f"{path} is damaged; run `cpmi run -p miniature`, which makes it again",
        f"{copy} is damaged or a copy, and no table shows it; remove it",
    ]
    assert len(sentences) == 3 and "tokenizer.json is not as training wrote it" in sentences[2]
