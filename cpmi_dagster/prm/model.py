"""A process reward model: a decoder backbone and a head that turns the end of a step into one logit (5.3).

    tokens            <question, template 0> | <step 1> | <step 2> | <step 3>
    step_positions                                    ^          ^          ^   index of each step's last token
    logits                                           2.1       -0.3       -1.7
    sigmoid                                          0.89       0.43       0.15   probability that the step is right

A saved model is a folder of `config.json`, safetensors and tokenizer files, without code:

    from cpmi_dagster.prm import load_reward_model
    reward_model = load_reward_model("models/cpmi_bce")
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.configuration_utils import SubConfigSpec
from transformers.modeling_outputs import TokenClassifierOutput

from cpmi_dagster.errors import ModelError, TrainingError, first_line
from cpmi_dagster.files.places import expanded
from cpmi_dagster.models.attention import check_causal
from cpmi_dagster.models.language_models import LoadedModel, load_tokenizer, model_identity
from cpmi_dagster.models.model_files import check_digests, check_weights_index
from cpmi_dagster.models.processors import resolve_device
from cpmi_dagster.models.safe_loading import DATA_ONLY, SAFE_WEIGHTS, check_loaded, copy_mapped, reading_model
from cpmi_dagster.prm.inputs import EncodedSolution, Encoder, encode_solutions
from cpmi_dagster.prm.settings import Lora


@strict
class RewardModelConfig(PreTrainedConfig):
    """Configuration of the backbone, and the shape of the head.

    Args:
        backbone_config: configuration of a decoder of `transformers`.
        head_layers: 2 as in the paper, or 1 for a linear head.
    """

    model_type = "cpmi_reward_model"
    sub_configs_defaults = {"backbone_config": SubConfigSpec(config_class=AutoConfig, model_type="qwen3")}  # noqa: RUF012

    backbone_config: dict | PreTrainedConfig | None = None
    head_layers: int = 2

    @property
    def decoder(self) -> PreTrainedConfig:
        """The configuration of the backbone's text decoder."""
        assert isinstance(self.backbone_config, PreTrainedConfig)
        return self.backbone_config.get_text_config()

    @property
    def context_length(self) -> int:
        """Most tokens that the backbone reads."""
        return int(getattr(self.decoder, "max_position_embeddings", 1 << 30))


class RewardHead(nn.Module):
    """Hidden state at the end of a step -> logit: linear, ReLU, linear; a linear head is the last layer alone."""

    def __init__(self, config: RewardModelConfig) -> None:
        super().__init__()
        self.is_linear = config.head_layers == 1
        width = int(config.decoder.hidden_size)
        if not self.is_linear:
            self.hidden = nn.Linear(width, width)
        self.output = nn.Linear(width, 1)

    def forward(self, states: Tensor) -> Tensor:
        """Hidden states (..., hidden size) -> logits (...)."""
        features = states if self.is_linear else self.hidden(states).relu()
        return self.output(features).squeeze(-1)

    @torch.no_grad()
    def standardise(self, mean: Tensor, deviation: Tensor) -> None:
        """Change the first layer, in place, so that the head standardises the states that it reads."""
        first = self.output if self.is_linear else self.hidden
        first.weight.div_(deviation.to(first.weight.device))
        first.bias.sub_(first.weight @ mean.to(first.weight.device))


class RewardModel(PreTrainedModel):
    """A decoder with a reward head; saved and loaded as every `transformers` model."""

    config_class = RewardModelConfig
    config: RewardModelConfig
    base_model_prefix = "backbone"
    supports_gradient_checkpointing = True
    # it standardises states, for which half precision is too coarse
    _keep_in_fp32_modules_strict = ["head"]  # noqa: RUF012
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: RewardModelConfig) -> None:
        super().__init__(config)
        self.backbone = AutoModel.from_config(config.backbone_config, **DATA_ONLY)
        self.head = RewardHead(config)
        self._no_split_modules = self.backbone._no_split_modules
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, step_positions: Tensor) -> TokenClassifierOutput:
        """Logits at the ends of steps, (solutions, steps).

        Args:
            input_ids: (solutions, tokens), padded on the right.
            attention_mask: (solutions, tokens), 0 on padding.
            step_positions: (solutions, steps), index of each step's last token; any index on padding.
        """
        states = self.backbone(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        ends = states[torch.arange(len(states), device=states.device).unsqueeze(1), step_positions]
        return TokenClassifierOutput(logits=self.head(ends.to(self.head.output.weight.dtype)).float())  # pyright: ignore[reportArgumentType]

    @classmethod
    def from_backbone(cls, backbone: PreTrainedModel, head_layers: int = 2) -> "RewardModel":
        """Put a new head on a decoder, which becomes part of the model without a copy."""
        config = RewardModelConfig(backbone_config=backbone.config, head_layers=head_layers)
        backbone.config.name_or_path = ""  # a folder of this machine means nothing on another
        with torch.device("meta"):
            model = cls(config)
        model.backbone = backbone
        model.head.to_empty(device=backbone.device).to(backbone.dtype)
        model.head.apply(model._init_weights)
        return model


def decoder_of(model: LoadedModel) -> PreTrainedModel:
    """The decoder of a language model, without its language-model head.

    Raises:
        ModelError: the model has no decoder, or the decoder is not causal.
    """
    decoder = model.model.base_model
    if decoder is model.model or not isinstance(decoder, PreTrainedModel):
        raise ModelError(f"{model.identity} has no decoder that a reward head fits on; choose another models.backbone")
    check_causal(decoder, model.identity)
    return decoder


def add_adapters(model: RewardModel, lora: Lora) -> Any:
    """Put low-rank adapters on linear layers of the backbone, in place, and freeze its weights.

    Returns:
        peft's `LoraModel`, whose `merge_and_unload` merges the adapters into the backbone.

    Raises:
        TrainingError: peft is not installed, or the backbone has no layer of these names.
    """
    try:
        from peft import LoraConfig
        from peft.tuners.lora import LoraModel
    except ImportError as error:
        raise TrainingError("training.lora needs peft; install it with `pip install cpmi-dagster[lora]`") from error
    modules = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=modules)  # pyright: ignore[reportArgumentType]
    try:
        adapters = LoraModel(model.backbone, config, "default")
    except ValueError as error:
        raise TrainingError(f"training.lora.target_modules: {first_line(error)}") from error
    for parameter in adapters.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # half precision would lose small updates
    return adapters


AutoConfig.register(RewardModelConfig.model_type, RewardModelConfig, exist_ok=True)
AutoModel.register(RewardModelConfig, RewardModel, exist_ok=True)


@dataclass(frozen=True)
class LoadedRewardModel:
    """A reward model in evaluation mode on its device.

    Args:
        identity: `folder@hash of the weights`.
        encoder: encodes solutions in the model's form.
        mark: the text at the end of a step, if the encoder finds ends by a text.
        cache: its reader of token trees, within the process.
    """

    model: RewardModel
    tokenizer: PreTrainedTokenizerBase
    identity: str
    encoder: Encoder = encode_solutions
    mark: str = ""
    cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def encode(self, questions: Sequence[str], solutions: Sequence[Sequence[str]]) -> list[EncodedSolution]:
        """Encode solutions in the model's form."""
        return self.encoder(self.tokenizer, questions, solutions)

    @property
    def context_length(self) -> int:
        """Most tokens of a solution."""
        return self.model.config.context_length


def load_reward_model(folder: str | Path, dtype: str = "auto", device: str = "auto") -> LoadedRewardModel:
    """Load a reward model that training has saved.

    Args:
        dtype: auto (as saved), float32, bfloat16 or float16.
        device: auto (CUDA if available), or a torch device.

    Raises:
        ModelError: the folder is missing, incomplete or damaged, or holds another kind of model.
    """
    place = expanded(folder)
    if not (place / "config.json").is_file():
        raise ModelError(f"there is no reward model in {place}; give one that was trained, HOME/models/RECIPE")
    check_weights_index(place)
    check_digests(place)
    identity = model_identity(str(place))
    tokenizer = load_tokenizer(str(place))
    target = resolve_device(device)
    with reading_model(f"the reward model in {place}"):
        config = AutoConfig.from_pretrained(place, **DATA_ONLY)
        if not isinstance(config, RewardModelConfig):
            raise ModelError(
                f"{place} contains a `{config.model_type}`, not a reward model as training "
                "writes it, HOME/models/RECIPE; exported ones are loaded as their README.md says"
            )
        read: Any = RewardModel.from_pretrained(place, config=config, dtype=dtype, **SAFE_WEIGHTS)
    model, report = read
    check_loaded(f"the reward model in {place}", report)
    placed = copy_mapped(model.to(target))
    return LoadedRewardModel(placed.eval(), tokenizer, identity)


def load_reward_head(folder: Path) -> RewardHead:
    """Load the head of a trained reward model without its backbone.

    Raises:
        ModelError: the folder holds no reward model.
    """
    with reading_model(f"the reward model in {folder}"):
        config = AutoConfig.from_pretrained(folder, **DATA_ONLY)
        if not isinstance(config, RewardModelConfig):
            raise ModelError(f"{folder} holds no reward model as training writes it")
        head = RewardHead(config)  # float32, as saved
        weights: dict[str, Tensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as stored:
                names = [name for name in stored.keys() if name.startswith("head.")]  # noqa: SIM118
                weights |= {name.removeprefix("head."): stored.get_tensor(name) for name in names}
        head.load_state_dict(weights)
    return head.eval()
