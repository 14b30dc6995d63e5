"""Cards (`hardware.yaml`), models that are not loaded, and the seconds that a card takes for a model's tokens.

Qwen3-8B in bfloat16 (8.2e9 parameters) on an H100 (989e12 FLOP/s, of which reading reaches 0.38 and sampling 0.05):

    1e6 tokens read         2 x 8.2e9 x 1e6 FLOP / (989e12 x 0.38)     44 s
    1e5 tokens generated    2 x 8.2e9 x 1e5 FLOP / (989e12 x 0.05)     33 s
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import UsageError
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.language_models import check_hub, load_tokenizer, model_folder
from cpmi_dagster.models.safe_loading import DATA_ONLY, reading_model
from cpmi_dagster.models.settings import LanguageModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CPU = "laptop-cpu"
FLOPS_PER_PARAMETER = 2
"""Of a token: one multiplication and one addition."""


@dataclass(frozen=True)
class Hardware:
    """An entry of `hardware.yaml`, which explains the fields."""

    name: str
    teraflops: Mapping[str, float]
    reading: float
    sampling: float


@dataclass(frozen=True)
class PlannedModel:
    """A model that is not loaded, on some hardware.

    Attributes:
        parameters: that a token is multiplied with; of a mixture of experts, those of the chosen ones.
        dtype: of its weights, e.g. bfloat16.
        config: of its layers.
    """

    tokenizer: "PreTrainedTokenizerBase"
    context_length: int
    parameters: int
    dtype: str
    card: Hardware
    config: Any = None

    def cost(self, read: int, generated: int = 0) -> Cost:
        """The cost of reading some tokens and generating others."""
        peak = 1e12 * self.card.teraflops.get(self.dtype, self.card.teraflops["float32"])
        work = FLOPS_PER_PARAMETER * self.parameters * (read / self.card.reading + generated / self.card.sampling)
        return Cost(work / peak, read + generated, generated)


@cache
def known_hardware() -> Mapping[str, Hardware]:
    """The entries of `hardware.yaml` by name."""
    table = yaml.safe_load(Path(__file__).with_name("hardware.yaml").read_text(encoding="utf-8"))
    return {name: Hardware(name, **values) for name, values in table.items()}


def choose_hardware(name: str | None, labeler: LanguageModel) -> Hardware:
    """The hardware of that name; by default what `cpmi run` labels with here, an H100 for an unknown card.

    Raises:
        UsageError: the table has no such name.
    """
    import torch

    is_on_cpu = labeler.device == "cpu" or labeler.name.startswith(MINIATURE) or not torch.cuda.is_available()
    if name is None and not is_on_cpu:
        return _card(torch.cuda.get_device_name()) or known_hardware()["h100-80gb"]
    if (hardware := known_hardware().get(name or CPU)) is None:
        raise UsageError(f"there is no hardware `{name}`; give one of {', '.join(known_hardware())}")
    return hardware


def _card(device: str) -> Hardware | None:
    words = re.split(r"[\s-]+", device.lower().replace("rtx ", "rtx"))
    cards = (card for name, card in known_hardware().items() if name != CPU and name.partition("-")[0] in words)
    return next(cards, None)


def planned_model(model: LanguageModel, card: Hardware) -> PlannedModel:
    """Read a model's config and tokenizer; its parameters are counted without memory for them.

    Raises:
        ModelError: its config or tokenizer cannot be read or fetched.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    place, revision = model_folder(model.name), model.revision
    check_hub(place, revision)
    with reading_model(f"the config of model `{model.name}`"), torch.device("meta"):
        config = AutoConfig.from_pretrained(place, revision=revision or "main", **DATA_ONLY)
        weights = AutoModelForCausalLM.from_config(config, **DATA_ONLY).named_parameters()
    text = config.get_text_config()
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    experts = next(filter(None, (getattr(text, name, None) for name in names)), 1)
    share = getattr(text, "num_experts_per_tok", experts) / experts
    return PlannedModel(
        load_tokenizer(place, revision),
        context_length=getattr(text, "max_position_embeddings", 1 << 30),
        parameters=round(sum(each.numel() * (share if ".experts." in key else 1) for key, each in weights)),
        dtype=str(text.dtype or "float32").removeprefix("torch.") if model.dtype == "auto" else model.dtype,
        card=card,
        config=config,
    )
