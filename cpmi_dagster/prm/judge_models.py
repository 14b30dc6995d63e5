"""Load a reward model to judge with: one trained here, one that was exported, or one of others, as data.

    load_judge("models/cpmi_bce")                     as training wrote it
    load_judge("my-prm")                              as `cpmi export --prm` wrote it
    load_judge("Qwen/Qwen2.5-Math-PRM-7B")            of the hub, in a form of `judge_forms`

Whatever the form, the result is one of our reward models: the decoder, a head of ours with the other's weights, and
what puts a solution into the other's form. No code of a model is run, and no pickle is read.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.places import expanded
from cpmi_dagster.models.language_models import (
    LoadedModel,
    check_device,
    load_tokenizer,
    model_identity,
    model_snapshot,
)
from cpmi_dagster.models.model_files import check_weights_index, weights_files
from cpmi_dagster.models.safe_loading import DATA_ONLY, SAFE_WEIGHTS, check_loaded, reading_model
from cpmi_dagster.prm.judge_forms import FORMS, JudgeFiles, Layers, form_of
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel, RewardModelConfig, load_reward_model
from cpmi_dagster.prm.shared_prefix import check_causal

HEADS = ("score.", "classifier.", "lm_head.", "v_head.")
PROBE = ("1 + 1?", ["1 + 1 = 2.", "So 2."])


def loaded_judge(
    model: str | Path | LoadedRewardModel | LoadedModel,
    device: str = "auto",
    dtype: str = "auto",
    form: str | None = None,
    revision: str | None = None,
) -> LoadedRewardModel:
    """The reward model itself, or the one that is loaded by name; otherwise as `load_judge`.

    Raises:
        ModelError: it is a language model without a head; or as for `load_judge`.
    """
    if isinstance(model, LoadedRewardModel):
        return model
    if not isinstance(model, str | Path):
        raise ModelError(f"{model.identity} is a language model, which judges no steps; give a reward model")
    return load_judge(str(model), device, dtype, form, revision)


def load_judge(
    name: str, device: str = "auto", dtype: str = "auto", form: str | None = None, revision: str | None = None
) -> LoadedRewardModel:
    """A reward model to judge with.

    Args:
        name: local folder, or hub id.
        device: auto (CUDA where there is one), or a torch device.
        dtype: auto (as saved), float32, bfloat16 or float16.
        form: a key of `FORMS`; by default the one that its files say.
        revision: hub commit, branch or tag.

    Raises:
        ModelError: there is no such model, its form is not known or does not fit it, or the device is not there.
    """
    if device != "auto":
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
    files = JudgeFiles(name, config, _Weights(folder))
    form = form or form_of(files)
    if form not in FORMS:
        raise ModelError(f"`{form}` is no form of reward models; choose from {', '.join(FORMS)}")
    identity = model_identity(name if revision and not expanded(name).is_dir() else str(folder), revision)
    tokenizer = _tokenizer(folder, form)
    try:
        return _assembled(files, folder, form, tokenizer, identity, dtype, device)
    except _DoesNotFit as error:
        reason = f"`{name}` does not fit the form `{form}`: {error}"
        raise ModelError(f"{reason}; give its own form, or another model") from error


class _DoesNotFit(Exception):
    """Why a model is not of a form."""


def _assembled(
    files: JudgeFiles,
    folder: Path,
    form: str,
    tokenizer: PreTrainedTokenizerBase,
    identity: str,
    dtype: str,
    device: str,
) -> LoadedRewardModel:
    entry = FORMS[form]
    try:
        [probe] = entry.encode(tokenizer, [PROBE[0]], [PROBE[1]])
        mark = entry.mark(tokenizer) if entry.mark else ""
        layers = entry.layers(files, tokenizer)
    except Exception as error:  # templates and tokenizers raise anything
        raise _DoesNotFit(str(error).partition("\n")[0].removesuffix(".")) from error
    if len(probe.step_positions) != len(PROBE[1]):
        raise _DoesNotFit("its tokenizer or chat template loses the marks of the steps")
    target = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    with reading_model(f"the reward model in {folder}"):
        config: Any = AutoConfig.from_pretrained(folder, **DATA_ONLY)
        backbone, report = AutoModel.from_pretrained(folder, config=config, dtype=dtype, **DATA_ONLY, **SAFE_WEIGHTS)
    foreign = [key for key in report["unexpected_keys"] if not key.startswith(HEADS)]
    check_loaded(f"the reward model in {folder}", {**report, "unexpected_keys": foreign})
    model: Any = RewardModel.from_backbone(backbone, head_layers=len(layers))
    _set_head(model, layers)
    model.to(target).eval()
    check_causal(model.backbone, identity)
    return LoadedRewardModel(model, tokenizer, identity, entry.encode, mark)


def _set_head(model: RewardModel, layers: Layers) -> None:
    head = model.head.float()
    ours = [head.output] if head.is_linear else [head.hidden, head.output]
    for layer, (weight, bias) in zip(ours, layers, strict=True):
        if layer.weight.shape != weight.shape:
            found, wanted = list(weight.shape), list(layer.weight.shape)
            raise _DoesNotFit(f"a layer of its head is {found}, and its decoder needs {wanted}")
        layer.weight.data.copy_(weight)
        layer.bias.data.copy_(torch.zeros(len(weight)) if bias is None else bias)


def _tokenizer(folder: Path, form: str) -> PreTrainedTokenizerBase:
    # AutoTokenizer may take the one that is usual for the architecture, whatever an export's file says
    if form == "export" and (folder / "tokenizer.json").is_file():
        with reading_model(f"the tokenizer of `{folder}`"):
            return PreTrainedTokenizerFast.from_pretrained(folder)
    return load_tokenizer(str(folder))


class _Weights(Mapping[str, Tensor]):
    """The tensors of a model's safetensors files by name, read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        check_weights_index(folder)
        self._files: dict[str, Path] = {}
        for file in weights_files(folder):
            with reading_model(f"{file}"), safe_open(file, framework="pt") as stored:
                self._files |= dict.fromkeys(stored.keys(), file)

    def __getitem__(self, name: str) -> Tensor:
        with safe_open(self._files[name], framework="pt") as stored:
            return stored.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)
