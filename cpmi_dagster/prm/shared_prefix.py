"""Run the tokens that all solutions of a batch begin with only once.

Every solution begins with the words of the same template, so a batch computes that part 16 times for one result:

    row 0   You are a careful math solver. ... Problem:\\n | Weng earns $12 ...
    row 1   You are a careful math solver. ... Problem:\\n | Betty is saving ...
            <-------------- once --------------------->   | <-- per row -->

The states, and the gradients through them, are those of the plain computation. Training on 200-token solutions takes a
quarter less time.
"""

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from cpmi_dagster.errors import ModelError

FULL_ATTENTION = {"full_attention"}
TOLERANCE = 1e-4
"""Of a state, relative to its largest number: what rounding may change in it."""


def hidden_states(backbone: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Last hidden states of right-padded rows, (rows, tokens, hidden size)."""
    shared = shared_prefix_length(input_ids, attention_mask) if can_share_prefix(backbone) else 0
    if shared == 0:
        return backbone(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
    cache = DynamicCache(config=backbone.config)
    prefix = backbone(
        input_ids=input_ids[:1, :shared],
        attention_mask=attention_mask[:1, :shared],
        past_key_values=cache,
        use_cache=True,
    ).last_hidden_state
    cache.batch_repeat_interleave(len(input_ids))
    rest = backbone(
        input_ids=input_ids[:, shared:], attention_mask=attention_mask, past_key_values=cache, use_cache=True
    ).last_hidden_state
    return torch.cat([prefix.expand(len(input_ids), -1, -1), rest], dim=1)


def end_states(backbone: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor, step_positions: Tensor) -> Tensor:
    """Last hidden states of right-padded rows at the ends of their steps, (rows, steps, hidden size)."""
    states = hidden_states(backbone, input_ids, attention_mask)
    return states[torch.arange(len(states), device=states.device).unsqueeze(1), step_positions]


def shared_prefix_length(input_ids: Tensor, attention_mask: Tensor) -> int:
    """Tokens that all rows begin with, at least one short of the whole; 0 for a single row."""
    if len(input_ids) == 1:
        return 0
    same = (input_ids == input_ids[:1]).all(dim=0) & attention_mask.bool().all(dim=0)
    return min(int(same.long().cumprod(dim=0).sum()), input_ids.shape[1] - 1)


@torch.inference_mode()
def check_causal(backbone: PreTrainedModel, identity: str) -> None:
    """Refuse a backbone that reads later tokens at earlier ones: the state of a step would depend on those after it.

    Raises:
        ModelError: it does, or its states are not finite, of which nothing can be said.
    """
    one = torch.arange(1, 5, device=backbone.device)[None] % backbone.config.get_text_config().vocab_size
    other = torch.cat([one[:, :-1], one[:, :1]], dim=1)
    states = [backbone(input_ids=ids, use_cache=False).last_hidden_state[0].float() for ids in (one, other)]
    if not torch.stack(states).isfinite().all():
        raise ModelError(
            f"{identity} gives values that are not finite (NaN or infinite), as after a training that diverged; choose "
            "another model, or read it in float32 if that was half precision"
        )
    before, after = (state[0] for state in states)
    if not (before - after).abs().max() <= TOLERANCE * before.abs().max():
        raise ModelError(f"{identity} reads later tokens at earlier ones; choose a causal language model")


def can_share_prefix(backbone: PreTrainedModel) -> bool:
    """Whether a cache of keys and values is all that the backbone keeps of what it has read.

    Processes that hold parts of one model must call it equally often, whatever their batches: they share nothing.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return False
    config = backbone.config.get_text_config()
    checkpointed = backbone.training and backbone.is_activation_checkpointing
    # private in transformers 5.23: whether layers keep a recurrent state
    if backbone._is_stateful or checkpointed:
        return False
    layer_types = getattr(config, "layer_types", None)
    if layer_types is None:
        return getattr(config, "sliding_window", None) is None
    return set(layer_types) <= FULL_ATTENTION
