"""The size of a model, from its config alone: parameters are counted without memory for them (torch's meta device).

    Qwen3-8B   body 6,946,075,648   head 622,329,856   held 8,190,735,360   147,456 bytes of keys and values a token

Config and tokenizer are read from a folder or from the hub's cache; nothing is downloaded.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.gguf import hub_file
from cpmi_dagster.models.language_models import load_tokenizer, model_folder
from cpmi_dagster.models.safe_loading import DATA_ONLY, reading_model
from cpmi_dagster.models.settings import Dtype, LanguageModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UNLIMITED_CONTEXT = 1 << 30
BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True)
class ModelShape:
    """What a token costs in a model.

    Attributes:
        body: parameters that every token is multiplied with; of a mixture of experts, those of the chosen ones.
        head: parameters of the projection to the vocabulary.
        held: all parameters, as stored in memory.
        cache_width: numbers in the cache of keys and values per token, in all layers.
        dtype: of the weights.
        context_length: most tokens the model reads.
    """

    body: int
    head: int
    held: int
    cache_width: int
    dtype: Dtype
    context_length: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights."""
        return self.held * BYTES[self.dtype]

    @property
    def cache_bytes(self) -> int:
        """Bytes of the keys and values of one token."""
        return self.cache_width * BYTES[self.dtype]


@dataclass(frozen=True)
class PlannedModel:
    """A model of the plan, not loaded; `shares_prompts` where its engine reads what prompts share once."""

    name: str
    shape: ModelShape
    tokenizer: "PreTrainedTokenizerBase"
    shares_prompts: bool = True


def planned_model(
    role: str,
    model: LanguageModel,
    revision: str | None = None,
    parameters: int | None = None,
    otherwise: str = "",
) -> PlannedModel:
    """Read a model's shape and tokenizer from this disk.

    Args:
        role: labeler, rollouts or prover; named in errors.
        revision: hub commit; ignored for local folders.
        parameters: parameters per token, instead of counting them.
        otherwise: what else to do where its config is not on this disk; by default what `cpmi plan` takes.

    Raises:
        ModelError: its config (unless parameters are given) or tokenizer is not on this disk, or cannot be read.
    """
    from transformers import AutoConfig, AutoTokenizer

    place, name = model_folder(model.name), model.name
    if (on_hub := hub_file(name)) and place == name:
        fetch, otherwise = " ".join(on_hub), otherwise or f"or give its path as models.{role}.name"
        raise ModelError(f"the {role} `{name}` is not on this disk; fetch it with `hf download {fetch}`, {otherwise}")
    config = _cached(AutoConfig, f"the config of model `{name}`", place, revision)
    what = f"the tokenizer of model `{name}`"
    tokenizer = load_tokenizer(place) if Path(place).is_dir() else _cached(AutoTokenizer, what, place, revision)
    if tokenizer is None or (config is None and parameters is None):
        otherwise = otherwise or f"name a local folder as models.{role}.name, or say `--parameters {role}=8.2e9`"
        lacking = "parameters" if parameters is None else "tokens"
        raise ModelError(
            f"the {role} `{name}` is not on this disk, so its {lacking} cannot be counted; fetch its config and "
            f"tokenizer (`hf download {name} --include '*.json' '*.txt'`, no weights), {otherwise}"
        )
    shape = ModelShape(0, 0, 0, 0, _dtype(model.dtype, "bfloat16"), UNLIMITED_CONTEXT)
    if config is not None:
        with reading_model(f"the config of model `{name}`"):
            shape = _shape(config, model.dtype)
    if parameters is not None:
        shape = replace(shape, body=parameters, head=0, held=parameters)
    return PlannedModel(name, shape, tokenizer, shares_prompts=model.engine == "transformers")


def _cached(kind: Any, what: str, place: str, revision: str | None) -> Any:
    """A config or tokenizer; None for a hub id that is not in the cache."""
    try:
        with reading_model(what):
            return kind.from_pretrained(place, revision=revision or "main", local_files_only=True, **DATA_ONLY)
    except ModelError as error:
        if isinstance(error.__cause__, OSError) and not Path(place).is_dir() and not place.startswith((".", "/", "~")):
            return None
        raise


def _shape(config: Any, dtype: str) -> ModelShape:
    import torch
    from transformers import AutoModelForCausalLM

    text = config.get_text_config()
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, **DATA_ONLY)
    head = model.get_output_embeddings().weight
    apart = {id(parameter) for parameter in (head, model.get_input_embeddings().weight)}
    experts = next((count for name in EXPERT_COUNTS if (count := getattr(text, name, None))), None)
    chosen = getattr(text, "num_experts_per_tok", None)
    share = chosen / experts if experts and chosen else 1
    sizes = {name: weights.numel() for name, weights in model.named_parameters() if id(weights) not in apart}
    body = sum(size * (share if ".experts." in name else 1) for name, size in sizes.items())
    heads = text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // heads
    return ModelShape(
        body=round(body),
        head=head.numel(),
        held=model.num_parameters(),
        cache_width=2 * text.num_hidden_layers * (getattr(text, "num_key_value_heads", None) or heads) * width,
        dtype=_dtype(dtype, str(text.dtype or "float32").removeprefix("torch.")),
        context_length=int(getattr(text, "max_position_embeddings", UNLIMITED_CONTEXT)),
    )


def _dtype(chosen: str, own: str) -> Dtype:
    """The dtype the model is loaded in; `auto` is its own."""
    name = own if chosen == "auto" else chosen
    return next((known for known in get_args(Dtype) if known == name), "float32")
