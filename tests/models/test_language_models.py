"""Loading models: which one it is, and what is missing when it cannot be loaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpmi_dagster.errors import ModelError
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.models.language_models import load_language_model, model_identity


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree(MODEL_FOLDERS["prover"], tmp_path / "model")
    return tmp_path / "model"


def test_a_part_of_the_embedded_world_is_a_model():
    loaded = load_language_model("miniature:prover", dtype="float32", device="cpu")
    assert loaded.identity.startswith("miniature:prover@")
    assert loaded.context_length == 4096
    assert not loaded.model.training


def test_the_identity_changes_with_the_weights_and_not_with_the_folder(folder):
    packaged = model_identity("miniature:prover").partition("@")[2]
    assert model_identity(str(folder)) == f"model@{packaged}"
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert model_identity(str(folder)) != f"model@{packaged}"


def test_a_hub_id_is_identified_by_its_commit():
    assert model_identity("Qwen/Qwen3-8B-Base", "49e3418fbbbca6ecbdf9608b4d22e5a407081db4") == (
        "Qwen/Qwen3-8B-Base@49e3418fbbbc"
    )


def test_a_branch_is_identified_by_the_commit_that_the_hub_cache_has_for_it(tmp_path):
    commit = "49e3418fbbbca6ecbdf9608b4d22e5a407081db4"
    cached = tmp_path / "hub" / "models--team--prover"
    shutil.copytree(MODEL_FOLDERS["prover"], cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    command = (
        "from cpmi_dagster.models.language_models import load_language_model as load;"
        "print(load('team/prover', device='cpu').identity, load('team/prover', 'main', device='cpu').identity)"
    )
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["team/prover@49e3418fbbbc"] * 2


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("tokenizer*", "has no tokenizer; put tokenizer.json"),
        ("*.safetensors", r"has no \*\.safetensors weights|cannot be loaded"),
        ("config.json", "has no config.json"),
    ],
)
def test_an_incomplete_folder_says_what_it_lacks(folder, missing, message):
    for file in folder.glob(missing):
        file.unlink()
    with pytest.raises(ModelError, match=message):
        load_language_model(str(folder), device="cpu")


def test_a_folder_that_does_not_exist_is_not_looked_for_on_the_hub(tmp_path):
    with pytest.raises(ModelError, match="does not exist; give a local folder, a hub id or miniature:labeler"):
        load_language_model(str(tmp_path / "nowhere"))


def test_an_unknown_part_of_the_world_lists_those_there_are():
    with pytest.raises(ModelError, match="it has labeler, prover"):
        load_language_model("miniature:nothing")


@pytest.mark.parametrize("device", ["cuda:99", "banana", "meta"])
def test_a_device_that_is_not_there_is_named_with_those_that_are(device):
    with pytest.raises(ModelError, match=f"cannot go to device `{device}`; this machine has cpu"):
        load_language_model("miniature:labeler", device=device)
