"""Loading models: which one it is, and what is missing when it cannot be loaded."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cpmi_dagster.errors import ModelError
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.models import language_models
from cpmi_dagster.models.language_models import load_language_model, model_identity, reading_identity
from cpmi_dagster.models.model_files import weights_files, weights_hash

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("./nowhere", {}, "does not exist; give a local folder, a hub id or miniature:labeler"),
        ("miniature:nothing", {}, "it has labeler, prover"),
        ("miniature:labeler", {"device": "cuda:99"}, "cannot go to device `cuda:99`"),
        ("miniature:labeler", {"device": "meta"}, "cannot go to device `meta`"),
    ],
)
def test_a_model_or_device_that_is_not_there_is_named(name, options, message):
    with pytest.raises(ModelError, match=message):
        load_language_model(name, **options)


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "merges.txt", "chat_template.jinja"])
def test_how_a_model_reads_is_known_by_its_config_and_tokenizer(folder, name):
    before, weights = reading_identity(str(folder)), model_identity(str(folder))
    with (folder / name).open("ab") as stream:
        stream.write(b" ")
    assert reading_identity(str(folder)) != before
    assert model_identity(str(folder)) == weights


def test_files_that_loading_does_not_read_change_nothing(folder):
    before = reading_identity(str(folder)), model_identity(str(folder))
    (folder / "README.md").write_text("# Its figures")
    (folder / "other.safetensors").write_bytes(b"of a training that goes on")
    assert (reading_identity(str(folder)), model_identity(str(folder))) == before
    assert reading_identity("Qwen/Qwen3-8B-Base") == reading_identity("package:a/b.gguf") == ""


def write_index(folder, names):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"more")
    index = {"weight_map": {f"layer.{number}": name for number, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_the_shards_that_an_index_names_are_the_weights(folder):
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    write_index(folder, [*shards, *shards])
    assert [file.name for file in weights_files(folder)] == shards
    before = weights_hash(folder)
    (folder / shards[1]).write_bytes(b"else")
    assert weights_hash(folder) != before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../model.safetensors", r"weights are \*\.safetensors files"),
        ("model-3.safetensors", r"lacks model-3\.safetensors"),
    ],
)
def test_an_index_that_names_other_places_is_refused(folder, name, message):
    write_index(folder, [name])
    with pytest.raises(ModelError, match=message):
        weights_hash(folder)


def test_a_model_that_changes_while_it_is_loaded_is_refused(folder, monkeypatch):
    load = language_models.load_tokenizer

    def load_and_change(*arguments):
        tokenizer = load(*arguments)
        (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes() + b"\n")
        return tokenizer

    monkeypatch.setattr(language_models, "load_tokenizer", load_and_change)
    with pytest.raises(ModelError, match="changed while they were read; run again"):
        load_language_model(str(folder), device="cpu")


def test_a_model_that_the_hub_does_not_give_is_one_sentence_at_once(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ModelError, match=r"^model `a/model` is not on this disk.*\(ConnectError\)"):
        load_language_model("a/model")
    assert not caplog.records
