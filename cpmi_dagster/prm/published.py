"""Load a reward model that was trained here, exported, or published by others.

    load_prm("models/cpmi_bce")                       trained here
    load_prm("my-prm")                                written by `cpmi export --prm`
    load_prm("Qwen/Qwen2.5-Math-PRM-7B")              of the hub, in one of `PRM_FORMATS`

The result is always one of our reward models: decoder, head with the model's weights, and the encoder of its form. No
code of a model is run, and no pickle is read.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerBase

from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.models.attention import check_causal
from cpmi_dagster.models.language_models import (
    LoadedModel,
    check_device,
    load_tokenizer,
    model_identity,
    model_snapshot,
)
from cpmi_dagster.models.model_files import check_weights_index, weights_files
from cpmi_dagster.models.processors import resolve_device
from cpmi_dagster.models.safe_loading import DATA_ONLY, SAFE_WEIGHTS, check_loaded, copy_mapped, reading_model
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel, RewardModelConfig, load_reward_model
from cpmi_dagster.prm.published_formats import PRM_FORMATS, Layers, ModelFiles, choose_format

HEADS = ("score.", "classifier.", "lm_head.")
PROBE = ("1 + 1?", ["1 + 1 = 2.", "So 2."])


def load_prm(
    model: str | Path | LoadedRewardModel | LoadedModel,
    device: str = "auto",
    dtype: str = "auto",
    form: str | None = None,
    revision: str | None = None,
) -> LoadedRewardModel:
    """Load a reward model that was trained here, exported, or published by others.

    Args:
        model: local folder, hub id, or a loaded model, which is returned.
        device: auto (CUDA if available), or a torch device.
        dtype: auto (as saved), float32, bfloat16 or float16.
        form: a key of `PRM_FORMATS`; by default, the form by the model's files.
        revision: hub commit, branch or tag.

    Raises:
        ModelError: the model or device does not exist, or the model has no head, an unknown form or one that does not
            fit.
    """
    if isinstance(model, LoadedRewardModel):
        return model
    if isinstance(model, LoadedModel):
        raise ModelError(f"{model.identity} is a language model, which judges no steps; give a reward model")
    name = str(model)
    check_device(name, device)
    folder = expanded(name)
    if not folder.is_dir():
        folder = model_snapshot(name, revision)
        revision = folder.name
    if not (folder / "config.json").is_file():
        return load_reward_model(folder, dtype, device)
    with reading_model(f"the config of `{name}`"):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("model_type") == RewardModelConfig.model_type:
        if form:
            raise ModelError(f"`{name}` is a reward model trained here, whose form is known; leave the form out")
        return load_reward_model(folder, dtype, device)
    files = ModelFiles(name, config, _places_of_weights(folder))
    form = choose_format(files, form)
    identity = model_identity(name if revision and not expanded(name).is_dir() else str(folder), revision)
    tokenizer = load_tokenizer(str(folder))
    with reading_model(f"the reward model in {folder}"):
        decoder: Any = AutoConfig.from_pretrained(folder, **DATA_ONLY)
    layers = _layers(files, form, tokenizer, decoder.get_text_config().hidden_size)
    with reading_model(f"the reward model in {folder}"):
        backbone, report = AutoModel.from_pretrained(folder, config=decoder, dtype=dtype, **DATA_ONLY, **SAFE_WEIGHTS)
    foreign = [key for key in report["unexpected_keys"] if not key.startswith(HEADS)]
    check_loaded(f"the reward model in {folder}", {**report, "unexpected_keys": foreign})
    prm: Any = RewardModel.from_backbone(backbone, head_layers=len(layers))
    head = prm.head.float()
    ours = [head.output] if head.is_linear else [head.hidden, head.output]
    for layer, (weight, bias) in zip(ours, layers, strict=True):
        layer.weight.data.copy_(weight)
        layer.bias.data.copy_(torch.zeros(len(weight)) if bias is None else bias)
    copy_mapped(prm.to(resolve_device(device))).eval()
    check_causal(prm.backbone, identity)
    return LoadedRewardModel(prm, tokenizer, identity, PRM_FORMATS[form].encode, PRM_FORMATS[form].mark)


def _layers(files: ModelFiles, form: str, tokenizer: PreTrainedTokenizerBase, width: int) -> Layers:
    """The layers of a model's head.

    Raises:
        ModelError: tokenizer or weights do not fit the form.
    """
    try:
        [probe] = PRM_FORMATS[form].encode(tokenizer, [PROBE[0]], [PROBE[1]])
        if len(probe.step_positions) != len(PROBE[1]):
            raise ModelError("its tokenizer or chat template loses the marks of the steps")
        layers = PRM_FORMATS[form].layers(files, tokenizer)
        for (weight, _), height in zip(layers, [width, 1][-len(layers) :], strict=True):
            if list(weight.shape) != [height, width]:
                shape, needed = list(weight.shape), [height, width]
                raise ModelError(f"a layer of its head is {shape}, and its decoder needs {needed}")
    except Exception as error:  # templates and tokenizers raise errors of any kind
        reason = str(error).partition("\n")[0].removesuffix(".")
        raise ModelError(
            f"`{files.name}` does not fit the form `{form}`: {reason}; give its own form, or another model"
        ) from error
    return layers


def _places_of_weights(folder: Path) -> dict[str, Path]:
    """The safetensors file of each weight."""
    check_weights_index(folder)
    places: dict[str, Path] = {}
    for file in weights_files(folder):
        with reading_model(f"{file}"), safe_open(file, framework="pt") as stored:
            places |= dict.fromkeys(stored.keys(), file)
    return places
