"""A model is data: what it brings besides weights is not run, and no file outside its folder is read."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import load_language_model, load_tokenizer, model_on_disk

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


def edit(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


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
