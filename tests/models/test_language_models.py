"""A model is data: which one it is and what it lacks; none of its code runs, no file outside its folder is read."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from cpmi_dagster.errors import ModelError
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.models.language_models import (
    load_language_model,
    load_tokenizer,
    model_identity,
    model_on_disk,
    reading_identity,
)
from cpmi_dagster.models.model_files import weights_hash

DOWN = "model.layers.1.mlp.down_proj.weight"
CODE = """
from pathlib import Path
Path({ran!r}).touch()
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
class OwnConfig(PretrainedConfig):
    model_type = "own"
class OwnModel(PreTrainedModel):
    config_class = OwnConfig
class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of the embedded prover."""
    shutil.copytree(MODEL_FOLDERS["prover"], tmp_path / "model")
    return tmp_path / "model"


def edit(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def cached_on_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A hub id whose files the hub's cache has; the hub itself is not reached."""
    commit = "49e3418fbbbca6ecbdf9608b4d22e5a407081db4"
    cache = folder.parent / "hub"
    cached = cache / "models--team--prover"
    shutil.copytree(folder, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return "team/prover"


def test_the_code_of_a_model_or_tokenizer_is_neither_run_nor_asked_about(folder, monkeypatch):
    monkeypatch.delattr("builtins.input")
    ran = folder.parent / "ran"
    (folder / "own.py").write_text(CODE.format(ran=str(ran)))
    classes = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    own = {"AutoTokenizer": ["own.OwnTokenizer", "own.OwnTokenizer"]}
    edit(folder / "config.json", model_type="own", architectures=["OwnModel"], auto_map=classes)
    with pytest.raises(ModelError, match="it brings code of its own, which is never run"):
        load_language_model(str(folder), device="cpu")
    edit(folder / "tokenizer_config.json", tokenizer_class="OwnTokenizer", auto_map=own)
    with pytest.raises(ModelError, match="it brings code of its own, which is never run"):
        load_tokenizer(str(folder))
    assert not ran.exists()


@pytest.mark.parametrize("architecture", ["Qwen2Tokenizer", "GPT2Tokenizer", None])
@pytest.mark.parametrize("revision", [None, "main"])
def test_the_file_of_a_tokenizer_decides_its_ids_and_not_the_class_of_the_architecture(
    folder, architecture, revision, monkeypatch
):
    """One with tokens of several words, which these classes would split."""
    edit(folder / "tokenizer_config.json", tokenizer_class=architecture)
    text = "Ana's 48123 shells; 3.5 of them.\nThe answer is: 7212"
    there = Tokenizer(models.BPE())
    there.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False)
    there.train_from_iterator([text, "48123 shells"] * 2, trainer)
    there.save(str(folder / "tokenizer.json"))
    place = str(folder)
    if revision:
        place = cached_on_hub(folder, monkeypatch)
    tokenizer = load_tokenizer(place, revision)
    assert tokenizer.encode(text, add_special_tokens=False) == there.encode(text, add_special_tokens=False).ids
    assert tokenizer.eos_token == "<|endoftext|>"


def test_pickled_weights_are_not_read(folder, monkeypatch):
    torch.save({"lm_head.weight": torch.zeros(1)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    monkeypatch.delattr(torch, "load")
    with pytest.raises(ModelError, match="safetensors"):
        load_language_model(str(folder), device="cpu")


@pytest.mark.parametrize("name", ["../other.safetensors", 3, "w.bin"])
def test_an_index_that_leads_out_of_the_folder_is_refused(folder, name):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
    for read in (model_on_disk, load_language_model):
        with pytest.raises(ModelError, match=r"names the file .*; weights are \*\.safetensors"):
            read(str(folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop(DOWN), f"lacks weights: {DOWN};"),
        (lambda weights: weights.update(foreign=weights[DOWN].clone()), "does not use: foreign;"),
        (lambda weights: weights.update({DOWN: weights[DOWN][:, 1:].contiguous()}), f"of another shape: {DOWN} "),
    ],
)
def test_weights_that_are_not_those_of_the_model_are_refused_by_name(folder, change, message):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=message):
        load_language_model(str(folder), device="cpu")


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


def test_weights_that_are_overwritten_in_place_do_not_change_a_loaded_model(folder):
    model, file = load_language_model(str(folder), device="cpu").model, folder / "model.safetensors"
    before = [weights.sum() for weights in model.parameters()]
    with file.open("r+b") as stream:
        stream.write(bytes(file.stat().st_size))
    assert [weights.sum() for weights in model.parameters()] == before
    assert str(file) not in Path("/proc/self/maps").read_text()


def test_a_branch_is_identified_by_the_commit_that_the_hub_cache_has_for_it(folder, monkeypatch):
    name = cached_on_hub(folder, monkeypatch)
    for revision in (None, "main"):
        assert load_language_model(name, revision, device="cpu").identity == "team/prover@49e3418fbbbc"


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
