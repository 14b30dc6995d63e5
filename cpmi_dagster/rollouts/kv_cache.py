"""Keys and values of the rows being decoded, in buffers that new tokens are written into.

`DynamicCache` copies the whole cache for every token; a `RoomyLayer` keeps room for tokens to come. All rows end in the
same column, so a row that has ended can be overwritten with a shorter text, and columns no row uses can be dropped:

    . . q q q a a a  ended                         . . . . r r r r
    . q q q q a a a            overwrite row 0     . q q q q a a a
    . . . q q q q a                                . . . q q q q a
"""

from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from cpmi_dagster.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ROOM = 64
ATTENTION_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}


class RoomyLayer(DynamicLayer):
    """Keys and values of one layer, (rows, heads, length, width), with room for tokens to come."""

    keys: torch.Tensor
    values: torch.Tensor

    def adopt(self, keys: torch.Tensor, values: torch.Tensor, length: int) -> None:
        """Use buffers whose first `length` columns are filled."""
        self.key_buffer, self.value_buffer = keys, values
        self.keys, self.values = keys[:, :, :length], values[:, :, :length]
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens; returns the states of all tokens so far."""
        if not self.is_initialized:
            self.adopt(with_room(key_states), with_room(value_states), key_states.shape[2])
            return self.keys, self.values
        past, length = self.keys.shape[2], self.keys.shape[2] + key_states.shape[2]
        if length > self.key_buffer.shape[2]:
            self.adopt(with_room(self.keys), with_room(self.values), past)
        self.key_buffer[:, :, past:length] = key_states
        self.value_buffer[:, :, past:length] = value_states
        self.adopt(self.key_buffer, self.value_buffer, length)
        return self.keys, self.values


def with_room(states: torch.Tensor) -> torch.Tensor:
    """A copy of states (rows, heads, length, width) with `ROOM` more columns."""
    rows, heads, length, width = states.shape
    buffer = states.new_empty((rows, heads, length + ROOM, width))
    buffer[:, :, :length] = states
    return buffer


def empty_cache(model: "PreTrainedModel") -> Cache:
    """A cache for the first forward pass of a model.

    Raises:
        ModelError: the model keeps a state other than keys and values, which rows cannot be packed with.
    """
    config = model.config.get_text_config()
    odd = set(getattr(config, "layer_types", None) or ()) - ATTENTION_LAYERS
    if odd or getattr(model, "_is_stateful", False):
        kind = ", ".join(sorted(odd)) or "recurrent"
        raise ModelError(
            f"model type `{config.model_type}` has {kind} layers, which batched decoding does not support; "
            "use a model of attention layers only, or another generation engine"
        )
    return Cache(layer_class_to_replicate=RoomyLayer)


def has_room(cache: Cache) -> bool:
    """Whether another token fits without a copy."""
    return all(layer.keys.shape[2] < layer.key_buffer.shape[2] for layer in _layers(cache))


def repack(cache: Cache, rows: torch.Tensor, length: int) -> Cache:
    """A cache of the last `length` columns of some rows, in the order and as often as they are named."""
    packed = []
    for layer in _layers(cache):
        start = layer.keys.shape[2] - length
        fresh = RoomyLayer()
        fresh.adopt(with_room(layer.keys[rows, :, start:]), with_room(layer.values[rows, :, start:]), length)
        packed.append(fresh)
    return Cache(layers=packed)


def overwrite(cache: Cache, rows: torch.Tensor, source: Cache) -> None:
    """Put the rows of `source`, no longer than those of `cache`, in the place of some of its rows."""
    for layer, other in zip(_layers(cache), _layers(source), strict=True):
        start = layer.keys.shape[2] - other.keys.shape[2]
        layer.keys[rows, :, start:] = other.keys
        layer.values[rows, :, start:] = other.values


def _layers(cache: Cache) -> list[RoomyLayer]:
    return [layer for layer in cache.layers if isinstance(layer, RoomyLayer)]
