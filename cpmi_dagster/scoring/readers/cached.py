"""Stretch by stretch from the cached keys and values of the nodes before: for models that take no custom mask.

    q ──┬─ s0 ──┬─ s1 ─── "The answer is: " ──┬─ 7 2        stretches: q | s0, answers | s1, answers | ...
        │       └─ "The answer is: " ...      └─ 7 4
        └─ "The answer is: " ...

A stretch runs to the next fork; stretches that leave the same fork are read together, padded on the right, which no
node before the padding can see. Each node is read once, in many small passes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.packing import PackedRow
from cpmi_dagster.scoring.readers.projection import target_logprobs
from cpmi_dagster.scoring.transfer import upload
from cpmi_dagster.scoring.trees import ROOT, Integers

if TYPE_CHECKING:
    import torch
    from transformers.cache_utils import Cache

Stretch = range


@dataclass(frozen=True)
class CachedReader:
    """Reads stretch by stretch with any model whose cache holds keys and values only; methods as in `MaskReader`."""

    model: LoadedModel
    name: str = "cached"

    def tokens_computed(self, tokens: int) -> int:
        """Padding is left out: it depends on the row's forks."""
        return tokens

    def logprobs(self, row: PackedRow) -> "torch.Tensor":
        """See `MaskReader.logprobs`."""
        import torch

        picked = torch.empty(len(row.predicted), dtype=torch.float32, device=self.model.device)
        forks = stretches_by_fork(row.end)
        waiting: list[tuple[int, Cache | None]] = [(ROOT, None)]
        with torch.inference_mode():
            while waiting:
                fork, cache = waiting.pop()
                stretches = forks[fork]
                grown = self._read(row, stretches, cache, picked)
                for place, stretch in enumerate(stretches):
                    if stretch[-1] in forks:
                        waiting.append((stretch[-1], _one_row(grown, place, int(row.depth[stretch[-1]]) + 1)))
        return picked

    def _read(
        self, row: PackedRow, stretches: Sequence[Stretch], cache: "Cache | None", picked: "torch.Tensor"
    ) -> "Cache":
        """One pass over the stretches behind a fork; fills in their target tokens and returns the longer cache."""
        longest = max(map(len, stretches))
        tokens = np.zeros((len(stretches), longest), np.int64)
        place = np.full(len(row), -1)
        for number, stretch in enumerate(stretches):
            tokens[number, : len(stretch)] = row.tokens[stretch.start : stretch.stop]
            place[stretch.start : stretch.stop] = number * longest + np.arange(len(stretch))
        grown = _cache_of(cache, lambda states: states.expand(len(stretches), -1, -1, -1))
        inputs = {"input_ids": upload(tokens, self.model.device), "past_key_values": grown, "use_cache": True}
        targets = np.flatnonzero(place[row.predictors] >= 0)
        logprobs = target_logprobs(self.model, inputs, place[row.predictors[targets]], row.predicted[targets])
        picked.index_copy_(0, upload(targets, picked.device), logprobs.to(picked.device))
        return grown


def stretches_by_fork(end: Integers) -> dict[int, list[Stretch]]:
    """The stretches that leave each fork; those from the beginning under `ROOT`.

    Args:
        end: index after each node's last descendant, nodes in preorder, [nodes].
    """
    children: dict[int, list[int]] = defaultdict(list)
    for node, parent in enumerate(_parents(end)):
        children[parent].append(node)
    starts = [(fork, node) for fork, nodes in children.items() if fork == ROOT or len(nodes) > 1 for node in nodes]
    forks: dict[int, list[Stretch]] = defaultdict(list)
    for fork, start in starts:
        last = start
        while len(children.get(last, ())) == 1:
            last = children[last][0]
        forks[fork].append(range(start, last + 1))
    return dict(forks)


def _parents(end: Integers) -> Iterator[int]:
    branch: list[int] = []
    for node in range(len(end)):
        while branch and end[branch[-1]] <= node:
            branch.pop()
        yield branch[-1] if branch else ROOT
        branch.append(node)


def _one_row(cache: "Cache", row: int, length: int) -> "Cache":
    """The first `length` columns of one row."""
    return _cache_of(cache, lambda states: states[row : row + 1, :, :length])


def _cache_of(cache: "Cache | None", part: Callable[["torch.Tensor"], "torch.Tensor"]) -> "Cache":
    """A new cache with a part of every layer's keys and values."""
    from transformers import DynamicCache

    layers: Any = cache.layers if cache else ()
    return DynamicCache([(part(layer.keys), part(layer.values)) for layer in layers])
