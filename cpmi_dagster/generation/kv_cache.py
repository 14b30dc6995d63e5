"""Keys and values of the rows being decoded, in buffers that new tokens are written into.

`DynamicCache` copies the whole cache for every token; a `RoomyLayer` has free columns for further tokens, on the device
of its layer. All rows end in the same column, so a row that has ended can be overwritten with a shorter text, and
columns that no row uses can be dropped:

    . . q q q a a a  ended                         . . . . r r r r
    . q q q q a a a            overwrite row 0     . q q q q a a a
    . . . q q q q a                                . . . q q q q a
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import pad
from transformers.cache_utils import Cache, DynamicLayer

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.tokens import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# keys and values by layer, of one text (heads, length, width) or of rows (rows, heads, length, width)
States = list[tuple[torch.Tensor, torch.Tensor]]

ROOM = 64
ATTENTION_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}


class RoomyLayer(DynamicLayer):
    """Keys and values of one layer, (rows, heads, length, width), with free columns for further tokens."""

    keys: torch.Tensor
    values: torch.Tensor

    def adopt(self, keys: torch.Tensor, values: torch.Tensor, length: int) -> "RoomyLayer":
        """This layer, with buffers whose first `length` columns are filled."""
        self.key_buffer, self.value_buffer = keys, values
        self.keys, self.values = keys[:, :, :length], values[:, :, :length]
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True
        return self

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens; returns the states of all tokens so far."""
        if not self.is_initialized:
            self.adopt(with_room(key_states), with_room(value_states), key_states.shape[2])
            return self.keys, self.values
        past, length = self.keys.shape[2], self.keys.shape[2] + key_states.shape[2]
        if length > self.key_buffer.shape[2]:
            room = ROOM + key_states.shape[2]
            self.adopt(with_room(self.keys, room), with_room(self.values, room), past)
        self.key_buffer[:, :, past:length] = key_states
        self.value_buffer[:, :, past:length] = value_states
        self.adopt(self.key_buffer, self.value_buffer, length)
        return self.keys, self.values


def with_room(states: torch.Tensor, room: int = ROOM) -> torch.Tensor:
    """A copy of states (rows, heads, length, width) with `room` more columns."""
    return pad(states, (0, 0, 0, room))


def empty_cache(model: "PreTrainedModel") -> Cache:
    """A cache for the first forward pass of a model.

    Raises:
        ModelError: the model keeps a state other than keys and values, which cannot be selected by row.
    """
    config = model.config.get_text_config()
    other = set(getattr(config, "layer_types", None) or ()) - ATTENTION_LAYERS
    # private in transformers 5.23: whether layers keep a recurrent state
    if other or getattr(model, "_is_stateful", False):
        kind = ", ".join(sorted(other)) or "recurrent"
        raise ModelError(
            f"model type `{config.model_type}` has {kind} layers, which batched decoding does not support; "
            "use a model of attention layers only, or another generation engine"
        )
    return Cache(layer_class_to_replicate=RoomyLayer)


def text_states(cache: Cache, row: int, columns: slice) -> States:
    """A copy of the keys and values of some columns of a row."""
    return [(layer.keys[row, :, columns].clone(), layer.values[row, :, columns].clone()) for layer in _layers(cache)]


def texts_cache(texts: Sequence[States], lengths: Sequence[int]) -> Cache:
    """A cache of one row per text, which holds the text's first tokens in its last columns.

    Args:
        texts: keys and values; empty where the length is 0, but not all of them.
        lengths: how many tokens of each text.
    """
    longest = max(lengths)
    layers = []
    for depth, pair in enumerate(next(filter(None, texts))):
        keys, values = (some.new_zeros((len(texts), len(some), longest + ROOM, some.shape[2])) for some in pair)
        for row, (text, length) in enumerate(zip(texts, lengths, strict=True)):
            if length:
                keys[row, :, longest - length : longest] = text[depth][0][:, :length]
                values[row, :, longest - length : longest] = text[depth][1][:, :length]
        layers.append(RoomyLayer().adopt(keys, values, longest))
    return Cache(layers=layers)


def stacked(texts: Sequence[States]) -> States:
    """Texts side by side, (texts, heads, longest, width) by layer, each from the first column on."""
    layers = []
    for pairs in zip(*texts, strict=True):
        longest = max(keys.shape[1] for keys, _ in pairs)
        keys, values = (some.new_zeros((len(pairs), len(some), longest, some.shape[2])) for some in pairs[0])
        for row, pair in enumerate(pairs):
            for states, own in zip((keys, values), pair, strict=True):
                states[row, :, : own.shape[1]] = own
        layers.append((keys, values))
    return layers


def has_room(cache: Cache) -> bool:
    """Whether another token fits without a copy."""
    return all(layer.keys.shape[2] < layer.key_buffer.shape[2] for layer in _layers(cache))


def repack(cache: Cache, rows: torch.Tensor, length: int) -> Cache:
    """A cache of the last `length` columns of some rows, in the order and as often as they are named."""
    packed = []
    for layer in _layers(cache):
        start = layer.keys.shape[2] - length
        own = rows.to(layer.keys.device)
        keys, values = (with_room(states[own, :, start:]) for states in (layer.keys, layer.values))
        packed.append(RoomyLayer().adopt(keys, values, length))
    return Cache(layers=packed)


def next_logits(
    model: "PreTrainedModel", ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Cache
) -> torch.Tensor:
    """Logits behind the last column, (rows, vocabulary); appends the columns to the cache."""
    output = model(
        input_ids=ids,
        attention_mask=mask.long(),
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1]


@dataclass
class CopiedPrompts:
    """States of rows that share nothing; `SharedPrompts` has the same methods.

    Attributes:
        cache: keys and values of prompts and sampled tokens.
        mask: columns of the cache that hold the row's text, (rows, length).
    """

    cache: Cache
    mask: torch.Tensor

    @classmethod
    def of(cls, cache: Cache, mask: torch.Tensor, prompts: Sequence[TokenIds], rows: torch.Tensor) -> "CopiedPrompts":
        """Rows that begin with the prompts that `rows` names.

        Args:
            cache: keys and values of the prompts, a row each, in its last columns.
            mask: columns that hold them, (prompts, length).
            prompts: token ids.
        """
        return cls(repack(cache, rows, mask.shape[1]), mask[rows])

    def read(self, model: "PreTrainedModel", newest: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Append a token to every row; returns the logits behind it, (rows, vocabulary).

        Args:
            newest: token ids, (rows, 1).
            positions: tokens before them in their texts, (rows, 1).
        """
        self.mask = pad(self.mask, (0, 1), value=True)
        return next_logits(model, newest, self.mask, positions, self.cache)

    def overwrite(self, rows: torch.Tensor, fresh: "CopiedPrompts", active: torch.Tensor) -> None:
        """Replace some rows, none of them active, by those of `fresh`, whose texts are no longer."""
        self.mask[rows] = pad(fresh.mask, (self.mask.shape[1] - fresh.mask.shape[1], 0))
        for layer, other in zip(_layers(self.cache), _layers(fresh.cache), strict=True):
            start = layer.keys.shape[2] - other.keys.shape[2]
            own = rows.to(layer.keys.device)
            layer.keys[own, :, start:] = other.keys
            layer.values[own, :, start:] = other.values

    def has_room(self) -> bool:
        """Whether another token fits without a copy."""
        return has_room(self.cache)

    def kept(self, rows: torch.Tensor, active: torch.Tensor) -> "CopiedPrompts":
        """Some rows, without the columns that no active row uses; `active` is True for the active ones of all rows."""
        length = int(self.mask[active].sum(dim=1).max())
        return CopiedPrompts(repack(self.cache, rows, length), self.mask[rows][:, self.mask.shape[1] - length :])


def _layers(cache: Cache) -> list[RoomyLayer]:
    return [layer for layer in cache.layers if isinstance(layer, RoomyLayer)]
