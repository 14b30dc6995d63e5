"""A reward model in a form that loads without this package: a backbone's weights, and those of its head as `score`.

    head       backbone  architecture                   weights of the head
    linear     any       Qwen3ForTokenClassification    score.weight [0; output], score.bias
    two_layer  Qwen2     Qwen2ForProcessRewardModel     score.0 hidden, score.2 [0; output]
    two_layer  others    Qwen3Model                     the same two; the model card says how to apply them

There are two labels, wrong and right. The logit of wrong is always 0, so that softmax over both gives the probability
that the sigmoid of the one logit gives here.
"""

import shutil
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.tokens import start_ids
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel

WEIGHTS = "model.safetensors"
LABELS = {0: "wrong", 1: "right"}
PROCESS_REWARD_MODELS = {"qwen2": "Qwen2ForProcessRewardModel"}
"""Architectures with the paper's head that vLLM knows, by the backbone's type."""


@dataclass(frozen=True)
class ExportedModel:
    """What was written.

    Attributes:
        architecture: as the config names it.
        is_linear: whether the head is one linear layer.
        tokenizer: the class of transformers that loads the tokenizer as it was here.
        start: tokens that it puts before a text by default.
    """

    architecture: str
    is_linear: bool
    tokenizer: str
    start: tuple[int, ...]


def save_reward_model(model: LoadedRewardModel, folder: Path) -> ExportedModel:
    """Write weights, config and tokenizer into a folder.

    Raises:
        ModelError: transformers has no token classification on such a backbone, for a linear head.
    """
    whole = model.model
    config = deepcopy(whole.backbone.config)
    architecture = _architecture(whole)
    config.architectures, config.id2label = [architecture], LABELS
    config.label2id = {name: number for number, name in LABELS.items()}
    config.dtype = whole.backbone.dtype
    backbone = {
        f"{whole.backbone.base_model_prefix}.{name}": each for name, each in whole.backbone.state_dict().items()
    }
    weights = {**backbone, **_score(whole)}
    save_file({name: each.contiguous() for name, each in weights.items()}, folder / WEIGHTS, {"format": "pt"})
    config.save_pretrained(folder)
    shutil.copymode(folder / "config.json", folder / WEIGHTS)  # safetensors makes it readable by its owner alone
    model.tokenizer.save_pretrained(folder)
    # AutoTokenizer may take the one that is usual for the architecture, whatever the file says
    tokenizer = "PreTrainedTokenizerFast" if (folder / "tokenizer.json").is_file() else "AutoTokenizer"
    return ExportedModel(architecture, whole.head.is_linear, tokenizer, start_ids(model.tokenizer))


def _score(model: RewardModel) -> dict[str, Tensor]:
    """The head's weights under the names that they have in exports."""
    head = model.head
    if head.is_linear:
        return {f"score.{name}": each for name, each in _two_labels(head.output).items()}
    first, last = head.hidden.state_dict().items(), _two_labels(head.output).items()
    return {**{f"score.0.{name}": each for name, each in first}, **{f"score.2.{name}": each for name, each in last}}


def _two_labels(output: nn.Linear) -> dict[str, Tensor]:
    """The layer with a row of zeros before its own."""
    return {name: torch.cat([torch.zeros_like(each), each]) for name, each in output.state_dict().items()}


def _architecture(model: RewardModel) -> str:
    config = model.backbone.config
    if model.head.is_linear:
        return _token_classification(config)
    papers = model.config.head_activation == "relu" and model.head.hidden.out_features == config.hidden_size
    if not papers:
        raise ModelError(
            "a two-layer head is exported with ReLU and the backbone's width; train it so, or head: linear"
        )
    return PROCESS_REWARD_MODELS.get(config.model_type, type(model.backbone).__name__)


def _token_classification(config: PreTrainedConfig) -> str:
    """The class of transformers that puts one linear layer, named `score`, on such a backbone."""
    found: Any = MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING.get(type(config), None)
    if found is not None:
        with torch.device("meta"):
            if isinstance(getattr(found(deepcopy(config)), "score", None), nn.Linear):
                return found.__name__
    raise ModelError(
        f"transformers has no token classification with one linear layer on a `{config.model_type}`; choose another "
        "backbone, or train the recipe with `head: two_layer`"
    )
