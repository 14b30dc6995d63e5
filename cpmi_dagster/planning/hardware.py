"""Seconds that a card takes for a model's tokens, from its data sheet (`hardware.yaml`) and the model's config alone.

Qwen3-8B in bfloat16 (body P = 6.95e9, head H = 0.62e9, keys and values of 147,456 bytes a token) on an H100:

    1e6 tokens read, 1e5 of them projected     (2 P 1e6 + 2 H 1e5) FLOP / (989e12 x 0.4)             = 35 s
    1e5 tokens generated, 256 side by side,    2 (P + H) 1e5 FLOP / 989e12                           = 1.5 s
    each attending to 300                      (16.4e9 x 1e5 / 256 + 147,456 x 3e7) B / 3.35e12      = 3.2 s
                                               the larger of the two / 0.25                          = 13 s
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cpmi_dagster.errors import ModelError, SettingsError
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.gguf import hub_file
from cpmi_dagster.models.language_models import load_tokenizer, model_folder
from cpmi_dagster.models.safe_loading import DATA_ONLY, reading_model
from cpmi_dagster.models.settings import LanguageModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CPU = "laptop-cpu"
FLOPS_PER_PARAMETER = 2
"""Of a token: one multiplication and one addition."""


@dataclass(frozen=True)
class PlannedModel:
    """A model that is not loaded, and what a token costs in it.

    Attributes:
        body: parameters that every token is multiplied with; of a mixture of experts, those of the chosen ones.
        head: parameters of the projection to the vocabulary.
        weight_bytes: bytes of all parameters.
        cache_bytes: bytes of one token's keys and values in all layers.
    """

    name: str
    tokenizer: "PreTrainedTokenizerBase"
    context_length: int
    body: int
    head: int
    weight_bytes: int
    cache_bytes: int
    dtype: str


@dataclass(frozen=True)
class Hardware:
    """An entry of `hardware.yaml`, which explains the fields."""

    name: str
    teraflops: Mapping[str, float]
    bandwidth_gb_per_s: float
    forward_utilisation: float
    generation_utilisation: float

    def seconds(self, model: PlannedModel, read: int, projected: int) -> float:
        """Seconds of reading tokens many at a time, of which `projected` get logits; attention is left out."""
        work = FLOPS_PER_PARAMETER * (model.body * read + model.head * projected)
        return work / (self.teraflops[model.dtype] * 1e12 * self.forward_utilisation)

    def sampling_seconds(self, model: PlannedModel, generated: int, attended: float, batch: int) -> float:
        """Seconds of sampling tokens for `batch` texts side by side, which attend to so many positions together."""
        work = FLOPS_PER_PARAMETER * (model.body + model.head) * generated / (self.teraflops[model.dtype] * 1e12)
        moved = model.weight_bytes * generated / batch + model.cache_bytes * attended
        return max(work, moved / (self.bandwidth_gb_per_s * 1e9)) / self.generation_utilisation


@cache
def known_hardware() -> Mapping[str, Hardware]:
    """The entries of `hardware.yaml` by name."""
    table = yaml.safe_load(Path(__file__).with_name("hardware.yaml").read_text(encoding="utf-8"))
    return {name: Hardware(name, **values) for name, values in table.items()}


def choose_hardware(name: str | None, labeler: LanguageModel) -> Hardware:
    """The hardware of that name; by default what `cpmi run` labels with here, `h100-80gb` for an unknown card.

    Raises:
        SettingsError: the table has no such name.
    """
    import torch

    known = known_hardware()
    if name is None and (
        labeler.name.startswith(MINIATURE) or labeler.device == "cpu" or not torch.cuda.is_available()
    ):
        return known[CPU]
    if name is None:
        return _card(torch.cuda.get_device_name()) or known["h100-80gb"]
    if name not in known:
        raise SettingsError(f"there is no hardware `{name}`; give one of {', '.join(known)}")
    return known[name]


def peak_flops(device: str, dtype: str) -> float | None:
    """Dense matrix rate of a card of the table in FLOP/s, by its driver's name: `NVIDIA H100 80GB HBM3`."""
    card = _card(device)
    return card.teraflops[dtype] * 1e12 if card and dtype in card.teraflops else None


def _card(device: str) -> Hardware | None:
    words = re.split(r"[\s-]+", device.lower().replace("rtx ", "rtx"))
    known = known_hardware().items()
    return next((card for name, card in known if name != CPU and name.partition("-")[0] in words), None)


def planned_model(role: str, model: LanguageModel, revision: str | None = None) -> PlannedModel:
    """Read a model's config and tokenizer from this disk; its parameters are counted without memory for them.

    Args:
        role: labeler, rollouts or prover; named in errors.
        revision: hub commit; ignored for local folders.

    Raises:
        ModelError: its config or tokenizer is not on this disk, or cannot be read.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    name, place = model.name, model_folder(model.name)
    options: dict[str, Any] = {"revision": revision or "main", "local_files_only": True, **DATA_ONLY}
    try:
        with reading_model(f"the config or tokenizer of model `{name}`"), torch.device("meta"):
            config = AutoConfig.from_pretrained(place, **options)
            is_here = Path(place).is_dir()
            tokenizer = load_tokenizer(place) if is_here else AutoTokenizer.from_pretrained(place, **options)
            whole: Any = AutoModelForCausalLM.from_config(config, **DATA_ONLY)
    except ModelError as error:
        if not isinstance(error.__cause__, OSError) or Path(place).exists() or place.startswith((".", "/", "~")):
            raise
        fetch = " ".join(hub_file(name) or (name, "--include '*.json' '*.txt'"))
        raise ModelError(
            f"the {role} `{name}` is not on this disk, so its tokens cannot be counted; fetch its config and tokenizer "
            f"with `hf download {fetch}`, or name a local folder as models.{role}.name"
        ) from error
    text, head = config.get_text_config(), whole.get_output_embeddings().weight
    apart = {id(head), id(whole.get_input_embeddings().weight)}
    counts = (getattr(text, key, None) for key in ("num_experts", "num_local_experts", "n_routed_experts"))
    experts = next(filter(None, counts), None)
    share = getattr(text, "num_experts_per_tok", experts) / experts if experts else 1
    sizes = [(key, weights.numel()) for key, weights in whole.named_parameters() if id(weights) not in apart]
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    width *= getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    dtype = str(text.dtype or "float32").removeprefix("torch.") if model.dtype == "auto" else model.dtype
    dtype = dtype if dtype in ("bfloat16", "float16") else "float32"
    number_bytes = 4 if dtype == "float32" else 2
    return PlannedModel(
        name,
        tokenizer,
        context_length=getattr(text, "max_position_embeddings", 1 << 30),
        body=round(sum(size * (share if ".experts." in key else 1) for key, size in sizes)),
        head=head.numel(),
        weight_bytes=whole.num_parameters() * number_bytes,
        cache_bytes=2 * text.num_hidden_layers * width * number_bytes,
        dtype=dtype,
    )
