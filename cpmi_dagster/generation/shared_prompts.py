"""Keys and values of prompts, read by all rows whose prompt is, or begins, the same text, instead of a copy in each.

A row attends to its prompt, the first tokens of a text that lies in a slot, and to its own tokens. Each part's weights
are those of a softmax of its own, and the parts are merged by the sums before normalisation: nothing is approximated.

    slot 0   q s1 s2 s3      row 0   q s1 s2 s3 + a a a      row 2   q s1 + c
    slot 1   p p             row 1   q s1 s2 s3 + b b b      row 3   p p + d d

On a CPU, reading the keys of long prompts takes most of the time of decoding, and copies of them most of its memory.
"""

import logging
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface
from transformers.cache_utils import Cache

from cpmi_dagster.errors import ModelError, first_line
from cpmi_dagster.generation.kv_cache import CopiedPrompts, States, has_room, repack, stacked, text_states
from cpmi_dagster.generation.prompt_reading import PromptReader
from cpmi_dagster.models.attention import (
    UNKNOWN_TERMS,
    attention_implementation,
    check_terms,
    layer_windows,
    shown_mask,
)
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.memory import is_out_of_memory
from cpmi_dagster.models.tokens import TokenIds, prompt_ids

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IMPLEMENTATION = "cpmi_shared_prompts"
LONG_PROMPT = 256
"""Tokens from which on the copies cost more than the merging."""
SHARES = "shares prompts"
"""Key of `LoadedModel.remembered`: whether the model can read shared prompts."""
LIKELIEST = 5
ROUNDING = 0.05
"""Largest difference by rounding, as a share of that between two prompts."""
PROBE = ("Ana has 48 shells and finds half as many. 48 / 2 = 24", "Ben has 3 books. ", "\n")
logger = logging.getLogger(__name__)


class Seats(NamedTuple):
    """Where the queries of rows meet their prompts.

    Attributes:
        states: keys and values of the texts by layer, (slots, groups, length, width) each.
        added: to scores of seats, minus infinity beyond the row's prompt, (slots, 1, seats, 1, length), float32.
        rows: row in each seat, 0 where nobody sits, (slots, seats).
        seats: number of each row's seat, slots one after the other, (rows,).
        own: added to scores of own tokens, minus infinity where a column is not the row's, (rows, 1, 1, 1, length).
    """

    states: States
    added: torch.Tensor
    rows: torch.Tensor
    seats: torch.Tensor
    own: torch.Tensor


@dataclass
class SharedPrompts:
    """States of rows whose prompts lie in slots; `CopiedPrompts` has the same methods.

    Attributes:
        cache: keys and values of sampled tokens.
        mask: columns of the cache that hold the row's own tokens, (rows, length).
        texts: token ids in each slot.
        prompts: keys and values of the texts by layer, (slots, groups, length, width) each.
        slots: slot of each row's prompt, (rows,).
        lengths: tokens of each row's prompt, (rows,).
    """

    cache: Cache
    mask: torch.Tensor
    texts: list[TokenIds]
    prompts: States
    slots: torch.Tensor
    lengths: torch.Tensor
    _seating: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = field(default=None, init=False)

    @classmethod
    def of(cls, cache: Cache, mask: torch.Tensor, prompts: Sequence[TokenIds], rows: torch.Tensor) -> "SharedPrompts":
        """Rows that begin behind the prompts that `rows` names; arguments as `CopiedPrompts.of`."""
        homes, roots = _homes(prompts, [])
        ends = mask.shape[1]
        states = [text_states(cache, number, slice(ends - len(prompts[number]), ends)) for number in roots]
        return cls(
            cache=repack(cache, torch.zeros_like(rows), 0),
            mask=mask.new_zeros((len(rows), 0)),
            texts=[prompts[number] for number in roots],
            prompts=stacked(states),
            slots=rows.new_tensor(homes)[rows],
            lengths=mask.sum(dim=1)[rows],
        )

    def read(self, model: "PreTrainedModel", newest: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Append a token to every row; returns the logits behind it, (rows, vocabulary)."""
        AttentionInterface.register(IMPLEMENTATION, shared_attention)
        self.mask = pad(self.mask, (0, 1), value=True)
        if self._seating is None:
            rows, seats = seating(self.slots, len(self.texts))
            columns = torch.arange(max(map(len, self.texts)), device=rows.device)
            seen = columns < self.lengths[rows][..., None]
            self._seating = _added(seen)[:, None, :, None], rows, seats
        own = _added(self.mask)[:, None, None, None]
        with attention_implementation(model, IMPLEMENTATION):
            output = model(
                input_ids=newest,
                attention_mask=shown_mask(1, newest.device),
                position_ids=positions,
                past_key_values=self.cache,
                use_cache=True,
                shared_prompts=Seats(self.prompts, *self._seating, own),
            )
        return output.logits[:, -1]

    def overwrite(self, rows: torch.Tensor, fresh: "SharedPrompts", active: torch.Tensor) -> None:
        """Replace some rows, none of them active, by those of `fresh`."""
        self._drop_unused(active)
        homes, roots = _homes(fresh.texts, self.texts)
        added = fresh._text_states()
        self.prompts = stacked([*self._text_states(), *(added[number] for number in roots)])
        self.texts = [*self.texts, *(fresh.texts[number] for number in roots)]
        self.slots[rows] = rows.new_tensor(homes)[fresh.slots]
        self.lengths[rows] = fresh.lengths
        self.mask[rows] = False
        self._seating = None

    def has_room(self) -> bool:
        """Whether another token fits without a copy."""
        return has_room(self.cache)

    def kept(self, rows: torch.Tensor, active: torch.Tensor) -> "SharedPrompts":
        """Some rows, without the columns and texts that no active row uses; as `CopiedPrompts.kept`."""
        self._drop_unused(active)
        own = int(self.mask[active].sum(dim=1).max())
        mask = self.mask[rows][:, self.mask.shape[1] - own :]
        cache = repack(self.cache, rows, own)
        return SharedPrompts(cache, mask, self.texts, self.prompts, self.slots[rows], self.lengths[rows])

    def _drop_unused(self, active: torch.Tensor) -> None:
        """Drop the texts, and the ends of texts, that no active row reads."""
        used, numbers = self.slots[active].unique(return_inverse=True)
        longest = [int(self.lengths[active][numbers == number].max()) for number in range(len(used))]
        self.texts = [self.texts[slot][:length] for slot, length in zip(used.tolist(), longest, strict=True)]
        self.prompts = stacked(self._text_states(used.tolist()))
        # rows that have ended sit with the first text, and see one token of it
        self.slots, self.lengths = torch.zeros_like(self.slots), self.lengths * active + ~active
        self.slots[active] = numbers

    def _text_states(self, slots: Sequence[int] | None = None) -> list[States]:
        """Keys and values of each text, which lies in the slot of its number or in that of `slots`."""
        places = range(len(self.texts)) if slots is None else slots
        return [
            [(keys[slot, :, : len(text)], values[slot, :, : len(text)]) for keys, values in self.prompts]
            for slot, text in zip(places, self.texts, strict=True)
        ]


def shared_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    shared_prompts: Seats | None = None,
    **terms: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function of transformers, for one query a row.

    Args:
        query: (rows, heads, 1, width).
        key: of the row's own tokens, (rows, groups, length, width).
        value: likewise.

    Raises:
        ModelError: the model did not pass the prompts on, or its attention has a term that is not computed here.
    """
    check_terms(module, shared_prompts, terms, UNKNOWN_TERMS)
    assert shared_prompts is not None
    prompt_keys, prompt_values = shared_prompts.states[int(module.layer_idx)]  # pyright: ignore[reportArgumentType]
    _, added, rows, seats, own = shared_prompts
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    groups, width, heads = key.shape[1], query.shape[-1], query.shape[1] // key.shape[1]
    queries = query.reshape(-1, groups, heads, width)
    slots, most = rows.shape
    seated = queries[rows].transpose(1, 2).reshape(slots, groups, most * heads, width)
    parts = [
        one.view(slots, groups, most, heads, -1).transpose(1, 2).reshape(slots * most, groups, heads, -1)[seats]
        for one in _attended(seated, prompt_keys, prompt_values, added, scale)
    ]
    own_output, own_total = _attended(queries, key, value, own, scale)
    merged = torch.lerp(own_output, parts[0], torch.sigmoid(parts[1] - own_total))
    return merged.to(query.dtype).reshape(-1, 1, groups * heads, width), None


def _attended(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, added: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (batch, groups, queries, width) and log of the sums of weights (batch, groups, queries, 1), float32.

    Few queries on few keys: plain products take half the time of torch's fused attention.
    """
    scores = torch.matmul(queries, keys.transpose(2, 3)).float().mul_(scale)
    scores.view(len(scores), scores.shape[1], added.shape[2], -1, scores.shape[3]).add_(added)
    weights = scores.softmax(dim=-1)
    # the largest weight is exp(highest score) / sum of weights
    total = scores.amax(dim=-1, keepdim=True) - weights.amax(dim=-1, keepdim=True).log()
    return torch.matmul(weights.to(values.dtype), values).float(), total


def _added(seen: torch.Tensor) -> torch.Tensor:
    """0 where a score counts, minus infinity elsewhere."""
    return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, -torch.inf)


def _homes(prompts: Sequence[TokenIds], texts: Sequence[TokenIds]) -> tuple[list[int], list[int]]:
    """Slot of each prompt, and the prompts that need a new one; a prompt lies in the slot of a text it begins.

    Args:
        texts: token ids in the slots that there are.
    """
    known = sorted((text, slot) for slot, text in enumerate(texts))
    roots: list[int] = []
    homes = [0] * len(prompts)
    for number in sorted(range(len(prompts)), key=lambda number: -len(prompts[number])):
        prompt = prompts[number]
        # in sorted order a text that begins with the prompt follows it at once
        place = bisect_left(known, (prompt, -1))
        if place == len(known) or known[place][0][: len(prompt)] != prompt:
            known.insert(place, (prompt, len(known)))
            roots.append(number)
        homes[number] = known[place][1]
    return homes, roots


def by_text(prompts: Sequence[TokenIds]) -> list[int]:
    """Numbers of the prompts, those that begin the same text side by side: the longest text first, then by length."""
    homes, _ = _homes(prompts, [])
    return sorted(range(len(prompts)), key=lambda number: (homes[number], -len(prompts[number])))


def seating(slots: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`rows` and `seats` of `Seats`, for rows in these slots of `count`."""
    sizes = torch.bincount(slots, minlength=count)
    order = slots.argsort(stable=True)
    within = torch.arange(len(slots), device=slots.device) - (sizes.cumsum(0) - sizes)[slots[order]]
    most = int(sizes.max())
    seats = torch.empty_like(slots)
    seats[order] = slots[order] * most + within
    rows = slots.new_zeros(count * most)
    rows[seats] = torch.arange(len(slots), device=slots.device)
    return rows.view(count, most), seats


def worth_sharing(loaded: LoadedModel, prompts: Sequence[TokenIds]) -> bool:
    """Whether to decode with `SharedPrompts`: long prompts on a CPU, and a model that reads them so (tried once)."""
    long = sum(map(len, prompts)) >= LONG_PROMPT * len(prompts)
    if not long or loaded.device.type != "cpu" or layer_windows(loaded.model):
        return False
    if SHARES not in loaded.remembered:
        loaded.remembered[SHARES] = _reads_as_usual(loaded)
    return loaded.remembered[SHARES]


@torch.inference_mode()
def _reads_as_usual(loaded: LoadedModel) -> bool:
    """Whether the likeliest next tokens of small texts are as likely as without sharing, but for rounding."""
    *prompts, line = prompt_ids(loaded.tokenizer, PROBE)
    rows = torch.tensor([0, 1, 1], device=loaded.device)
    lengths = torch.tensor([len(prompts[row]) for row in rows], device=loaded.device)
    newest = torch.tensor(line[-1:], device=loaded.device).expand(len(rows), 1)
    found: list[torch.Tensor] = []
    for states in (CopiedPrompts, SharedPrompts):
        _, mask, cache = PromptReader(loaded.model, prompts, [None] * len(prompts)).read(range(len(prompts)))
        try:
            logits = states.of(cache, mask, prompts, rows).read(loaded.model, newest, lengths[:, None])
        except (ModelError, RuntimeError, TypeError, AttributeError) as error:
            if is_out_of_memory(error):
                raise
            logger.info("%s copies its prompts: %s", loaded.identity, first_line(error))
            return False
        found.append(logits.float().log_softmax(dim=-1))
    tokens = found[0].topk(LIKELIEST).indices
    difference = float((found[0] - found[1]).gather(1, tokens).abs().mean())
    apart = float((found[0][:1] - found[0][1:2]).gather(1, tokens[:1]).abs().mean())
    agrees = difference <= ROUNDING * apart
    if not agrees:
        logger.info("%s copies its prompts: log-probabilities are off by %.2g", loaded.identity, difference)
    return agrees
