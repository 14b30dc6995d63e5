"""Loading models: which one it is, and what is missing when it cannot be loaded."""

import json
import shutil

import pytest

from cpmi_dagster.errors import ModelError
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.models.language_models import load_language_model, model_identity, reading_identity
from cpmi_dagster.models.model_files import weights_hash

pytestmark = pytest.mark.slow


def test_the_identity_is_of_the_weights_and_that_of_reading_of_config_and_tokenizer(folder):
    loaded = load_language_model("miniature:prover", dtype="float32", device="cpu")
    weights = loaded.identity.removeprefix("miniature:prover@")
    assert (loaded.context_length, loaded.model.training) == (4096, False)
    reading = reading_identity(str(folder))
    (folder / "README.md").write_text("# Its figures")
    (folder / "other.safetensors").write_bytes(b"of a training that goes on")
    assert (model_identity(str(folder)), reading_identity(str(folder))) == (f"model@{weights}", reading)
    for name in ("tokenizer.json", "config.json", "chat_template.jinja"):
        with (folder / name).open("ab") as stream:
            stream.write(b" ")
        assert reading != (reading := reading_identity(str(folder)))
    assert model_identity(str(folder)) == f"model@{weights}"
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    assert model_identity(str(folder)) != f"model@{weights}"


def test_a_branch_is_identified_by_the_commit_that_the_hub_cache_has_for_it(tmp_path, monkeypatch):
    commit = "49e3418fbbbca6ecbdf9608b4d22e5a407081db4"
    cached = tmp_path / "models--team--prover"
    shutil.copytree(MODEL_FOLDERS["prover"], cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for revision in (None, "main"):
        assert load_language_model("team/prover", revision, device="cpu").identity == "team/prover@49e3418fbbbc"


@pytest.mark.parametrize(
    ("missing", "message"),
    [("tokenizer*", "has no tokenizer; put tokenizer.json"), ("*.safetensors", r"has no \*\.safetensors weights")],
)
def test_an_incomplete_folder_and_a_device_that_is_not_there_are_named(folder, missing, message):
    for file in folder.glob(missing):
        file.unlink()
    with pytest.raises(ModelError, match=message):
        load_language_model(str(folder), device="cpu")
    with pytest.raises(ModelError, match="does not exist; give a local folder, a hub id or miniature:labeler"):
        load_language_model("./nowhere")
    with pytest.raises(ModelError, match="cannot go to device `cuda:99`"):
        load_language_model("miniature:labeler", device="cuda:99")


def test_the_shards_that_an_index_names_are_the_weights(folder):
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    (folder / "model.safetensors").rename(folder / shards[0])
    (folder / shards[1]).write_bytes(b"more")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict(enumerate(shards))}))
    before = weights_hash(folder)
    (folder / shards[1]).write_bytes(b"else")
    assert weights_hash(folder) != before
    (folder / shards[1]).unlink()
    with pytest.raises(ModelError, match=f"lacks {shards[1]}"):
        weights_hash(folder)


def test_a_model_that_the_hub_does_not_give_is_one_sentence_at_once(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ModelError, match=r"^model `a/model` is not on this disk.*\(ConnectError\)"):
        load_language_model("a/model")
    assert not caplog.records
