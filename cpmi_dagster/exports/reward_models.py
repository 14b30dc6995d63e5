"""A reward model in a form that loads without this package: a backbone's weights, and those of its head as `score`.

    head       backbone  architecture                   weights of the head
    linear     any       Qwen3ForTokenClassification    score.weight [0; output], score.bias
    two_layer  Qwen2     Qwen2ForProcessRewardModel     score.0 hidden, score.2 [0; output]
    two_layer  others    Qwen3Model                     the same two; the model card says how to apply them

There are two labels, wrong and right. The logit of wrong is always 0, so that softmax over both gives the probability
that the sigmoid of the one logit gives here.
"""

import shutil
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForTokenClassification

from cpmi_dagster.errors import ModelError
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel
from cpmi_dagster.prm.published_formats import LABELS

WEIGHTS = "model.safetensors"
PROCESS_REWARD_MODELS = {"qwen2": "Qwen2ForProcessRewardModel"}
"""Architectures with the paper's head that vLLM knows, by the backbone's type."""


def save_reward_model(model: LoadedRewardModel, folder: Path) -> str:
    """Write weights, config and tokenizer into a folder; the architecture, as the config names it.

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
    # a row of zeros before the head's own: the logit of wrong
    last = {name: torch.cat([torch.zeros_like(each), each]) for name, each in whole.head.output.state_dict().items()}
    score = {f"score.{name}" if whole.head.is_linear else f"score.2.{name}": each for name, each in last.items()}
    if not whole.head.is_linear:
        score |= {f"score.0.{name}": each for name, each in whole.head.hidden.state_dict().items()}
    weights = {**backbone, **score}
    save_file({name: each.contiguous() for name, each in weights.items()}, folder / WEIGHTS, {"format": "pt"})
    config.save_pretrained(folder)
    shutil.copymode(folder / "config.json", folder / WEIGHTS)  # safetensors makes it readable by its owner alone
    model.tokenizer.save_pretrained(folder)
    return architecture


def _architecture(model: RewardModel) -> str:
    config = model.backbone.config
    if not model.head.is_linear:
        return PROCESS_REWARD_MODELS.get(config.model_type, type(model.backbone).__name__)
    # the class of transformers that puts one linear layer, named `score`, on such a backbone
    with torch.device("meta"), suppress(ValueError):
        classifier = AutoModelForTokenClassification.from_config(deepcopy(config))
        if isinstance(getattr(classifier, "score", None), nn.Linear):
            return type(classifier).__name__
    raise ModelError(
        f"transformers has no token classification with one linear layer on a `{config.model_type}`; choose another "
        "backbone, or train the recipe with `head: two_layer`"
    )
