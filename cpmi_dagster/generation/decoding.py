"""Sample continuations of many prompts in one batch; a row whose text has ended is reused for another prompt.

A text is read once. Each prompt that is a prefix of it starts from a copy of the keys and values up to the last token
of the prompt, which is read with the first draw:

    text  q s1 s2 s3        prompts  q s1 s2 s3,  q s1 s2,  q s1

All rows end in the same column, so the next token of each is the next column. Columns before a row's text are masked,
and dropped if no row needs them:

    . . q q q a a a  ended                     . q q q q a a a
    . q q q q a a a           new row r        . . . q q q q a
    . . . q q q q a                            . . . . r r r r
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.functional import pad
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import StopRule, draw_tokens
from cpmi_dagster.models.attention import layer_windows
from cpmi_dagster.models.tokens import TokenIds, find_longest_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# keys and values by layer, of one text, (heads, length, width) each
States = list[tuple[torch.Tensor, torch.Tensor]]

ROOM = 32
READ_TOKENS = 4_096
REFILL_SHARE = 1 / 8
SHRINK_SHARE = 1 / 2


class Continuation(NamedTuple):
    """Sampled token ids of continuation number `owner`; `ended` is False if the limit cut it off."""

    owner: int
    tokens: list[int]
    ended: bool


class RoomyLayer(DynamicLayer):
    """Keys and values of one layer, (rows, heads, length, width), in buffers with free columns."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self._buffers = tuple(pad(states, (0, 0, 0, ROOM)) for states in (keys, values))
        self._show(keys.shape[2])

    @property
    def is_full(self) -> bool:
        """Whether there is no free column."""
        return self.keys.shape[2] == self._buffers[0].shape[2]

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Append the states of one token to every row; returns the states of all tokens."""
        length = self.keys.shape[2]
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, length : length + 1] = states
        self._show(length + 1)
        return self.keys, self.values

    def overwrite(self, rows: torch.Tensor, text: tuple[torch.Tensor, torch.Tensor], length: int) -> None:
        """Overwrite rows with the first `length` tokens of a text, (heads, tokens, width), in the last columns."""
        start = self.keys.shape[2] - length
        for states, tokens in zip((self.keys, self.values), text, strict=True):
            states[rows.to(self.device), :, start:] = tokens[:, :length]

    def select(self, rows: torch.Tensor, length: int) -> "RoomyLayer":
        """Copy the last columns of some rows into new buffers."""
        start, rows = self.keys.shape[2] - length, rows.to(self.device)
        return RoomyLayer(self.keys[rows, :, start:], self.values[rows, :, start:])

    def _show(self, length: int) -> None:
        self.keys, self.values = (buffer[:, :, :length] for buffer in self._buffers)


class Texts:
    """Keys and values of the longest texts of one call, read on demand.

    Args:
        model: attention layers only.
        prompts: token ids of each continuation's prompt, none empty.
    """

    def __init__(self, model: "PreTrainedModel", prompts: Sequence[TokenIds]) -> None:
        self._model = model
        self._text_of = find_longest_texts(prompts)
        self._waiting = Counter(self._text_of[prompt] for prompt in prompts)
        self._states: dict[TokenIds, States] = {}

    def take(self, prompts: Sequence[TokenIds]) -> list[States]:
        """The states of the text of each prompt; states that no later prompt needs are released."""
        texts = [self._text_of[prompt] for prompt in prompts]
        unread = sorted(set(texts) - set(self._states), key=len)
        while unread:
            rows = max(1, READ_TOKENS // len(unread[-1]))
            self._read(unread[-rows:])
            del unread[-rows:]
        states = [self._states[text] for text in texts]
        self._waiting.subtract(texts)
        self._states = {text: states for text, states in self._states.items() if self._waiting[text]}
        return states

    def _read(self, texts: Sequence[TokenIds]) -> None:
        """Read texts in one batch, padded on the right."""
        longest, cache = len(texts[-1]), DynamicCache()
        ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts], device=self._model.device)
        self._model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        layers: Any = cache.layers
        for row, text in enumerate(texts):
            self._states[text] = [(layer.keys[row], layer.values[row]) for layer in layers]


class Batch:
    """The continuations of one call, and the rows of those in progress.

    Args:
        model: attention layers only.
        prompts: token ids of each continuation's prompt.
        numbers: uniform random numbers, (continuations, limit).
        most_rows: most rows in the batch.
    """

    def __init__(
        self, model: "PreTrainedModel", prompts: Sequence[TokenIds], numbers: torch.Tensor, most_rows: int
    ) -> None:
        self._model, self._prompts, self._texts = model, prompts, Texts(model, prompts)
        # longest prompt first, so that later ones fit beside the rows of the batch
        self._waiting = sorted(range(len(prompts)), key=lambda owner: len(prompts[owner]))
        # by continuation: random numbers, tokens, newest token, length before it, tokens drawn, whether it goes on
        self._numbers = numbers.to(model.device)
        self._tokens = torch.zeros_like(self._numbers, dtype=torch.long)
        self._newest = torch.tensor([prompt[-1] for prompt in prompts], device=model.device)
        self._lengths = torch.tensor([len(prompt) - 1 for prompt in prompts], device=model.device)
        self._counts, self._active = torch.zeros_like(self._lengths), torch.ones_like(self._lengths, dtype=torch.bool)
        # the continuation of each row; rows whose continuation has ended
        self._owners = self._lengths[:most_rows].clone()
        self._idle = list(range(len(self._owners)))
        self._layers: list[RoomyLayer] = []

    def fill(self) -> bool:
        """Reuse ended rows for waiting prompts, or drop them; returns whether any row is in progress."""
        if self._waiting and len(self._idle) >= REFILL_SHARE * len(self._owners):
            self._admit()
        if len(self._idle) == len(self._owners):
            return False
        if self._layers[0].is_full or (not self._waiting and len(self._idle) > SHRINK_SHARE * len(self._owners)):
            going = self._active[self._owners]
            length = int(self._lengths[self._owners[going]].max())
            rows = (going | bool(self._waiting)).nonzero()[:, 0]
            # layer by layer, so that only one is in memory twice
            for depth, layer in enumerate(self._layers):
                self._layers[depth] = layer.select(rows, length)
            self._owners, self._idle = self._owners[rows], self._idle if self._waiting else []
        return True

    def draw(self, sampling: Sampling, stop_rule: StopRule) -> Iterator[Continuation]:
        """Draw a token for every row; yields the continuations that end."""
        owners, limit = self._owners, sampling.max_new_tokens
        logits = self._next_logits()
        going, places = self._active[owners], self._counts[owners].clamp(max=limit - 1)
        drawn = draw_tokens(logits, self._numbers[owners, places], sampling)
        self._newest[owners] = torch.where(going, drawn, self._newest[owners])
        self._tokens[owners, places] = torch.where(going, drawn, self._tokens[owners, places])
        self._lengths[owners] += going
        self._counts[owners] += going
        ended = stop_rule.ended(self._tokens[owners], self._counts[owners], going)
        finished = ended | (going & (self._counts[owners] >= limit))
        self._active[owners] = going & ~finished
        for row in finished.nonzero()[:, 0].tolist():
            self._idle.append(row)
            tokens = self._tokens[owners[row], : int(self._counts[owners[row]])].tolist()
            yield Continuation(int(owners[row]), tokens, bool(ended[row]))

    def _admit(self) -> None:
        rows = self._owners.new_tensor(self._idle[: len(self._waiting)])
        self._idle = self._idle[len(rows) :]
        fresh = [self._waiting.pop() for _ in rows]
        self._owners[rows] = self._owners.new_tensor(fresh)
        prompts = [self._prompts[owner] for owner in fresh]
        texts = self._texts.take(prompts)
        if not self._layers:  # start with copies of the longest text, which are then overwritten
            length, shape = len(prompts[0]) - 1, (len(rows), -1, -1, -1)
            pairs = ([states[None, :, :length].expand(shape) for states in pair] for pair in texts[0])
            self._layers = [RoomyLayer(*pair) for pair in pairs]
        first = 0
        for prompt, group in groupby(prompts):
            last = first + len(list(group))
            for layer, states in zip(self._layers, texts[first], strict=True):
                layer.overwrite(rows[first:last], states, len(prompt) - 1)
            first = last

    def _next_logits(self) -> torch.Tensor:
        """Read the newest token of every row; returns the next logits, (rows, vocabulary)."""
        lengths = self._lengths[self._owners, None]
        columns = torch.arange(self._layers[0].keys.shape[2] + 1, device=lengths.device)
        return self._model(
            input_ids=self._newest[self._owners, None],
            attention_mask=(columns >= columns[-1] - lengths).long(),
            position_ids=lengths,
            past_key_values=Cache(layers=list(self._layers)),
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]


@torch.inference_mode()
def decode(
    model: "PreTrainedModel",
    prompts: Sequence[TokenIds],
    numbers: torch.Tensor,
    sampling: Sampling,
    stop_rule: StopRule,
    most_rows: int,
) -> Iterator[Continuation]:
    """Continue every prompt; yields continuations in the order they end.

    Args:
        prompts: token ids of each continuation's prompt, none empty.
        numbers: uniform random numbers, (continuations, limit).
        most_rows: most rows in the batch.

    Raises:
        ModelError: the model has layers with a state other than keys and values.
    """
    other = sorted(kind for kind, window in layer_windows(model).items() if window is None)
    if other:
        raise ModelError(
            f"model type `{model.config.model_type}` has {', '.join(other)} layers, which batched decoding does not "
            "support; use a model of attention layers only, or another generation engine"
        )
    batch = Batch(model, prompts, numbers, most_rows)
    while batch.fill():
        yield from batch.draw(sampling, stop_rule)
