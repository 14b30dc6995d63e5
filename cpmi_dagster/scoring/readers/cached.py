"""Stretch by stretch from the cached keys and values of the nodes before: for models that take no custom mask.

    q ──┬─ s0 ──┬─ s1 ─── "The answer is: " ──┬─ 7 2        stretches: q | s0, answers | s1, answers | ...
        │       └─ "The answer is: " ...      └─ 7 4
        └─ "The answer is: " ...

A stretch runs to the next fork; stretches that leave the same fork are read together, padded on the right, which no
node before the padding can see. Each node is read once, in many small passes.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.packing import PackedRow
from cpmi_dagster.scoring.readers.reader import target_logprobs, upload
from cpmi_dagster.scoring.trees import ROOT, Integers

if TYPE_CHECKING:
    import torch

Stretch = range
States = list[tuple["torch.Tensor", "torch.Tensor"]]
"""Keys and values of each layer up to a node."""


@dataclass(frozen=True)
class CachedReader:
    """Reads stretch by stretch with any model whose cache holds keys and values only; methods as in `MaskReader`."""

    model: LoadedModel
    name: str = "cached"

    def padded(self, tokens: int) -> int:
        """Padding is left out: it depends on the row's forks."""
        return tokens

    def logprobs(self, row: PackedRow) -> "torch.Tensor":
        """See `MaskReader.logprobs`."""
        import torch
        from transformers import DynamicCache

        picked = torch.empty(len(row.predicted), dtype=torch.float32, device=self.model.device)
        forks = stretches_by_fork(row.end)
        waiting: list[tuple[int, States]] = [(ROOT, [])]
        while waiting:
            fork, states = waiting.pop()
            stretches = forks[fork]
            longest = max(map(len, stretches))
            tokens = np.zeros((len(stretches), longest), np.int64)
            place = np.full(len(row), -1)
            for number, stretch in enumerate(stretches):
                tokens[number, : len(stretch)] = row.tokens[stretch.start : stretch.stop]
                place[stretch.start : stretch.stop] = number * longest + np.arange(len(stretch))
            shape = (len(stretches), -1, -1, -1)
            cache: Any = DynamicCache([(keys.expand(shape), values.expand(shape)) for keys, values in states])
            inputs = {"input_ids": upload(tokens, self.model.device), "past_key_values": cache, "use_cache": True}
            targets = np.flatnonzero(place[row.predictors] >= 0)
            with torch.inference_mode():
                logprobs = target_logprobs(self.model, inputs, place[row.predictors[targets]], row.predicted[targets])
                picked.index_copy_(0, upload(targets, picked.device), logprobs.to(picked.device))
            for number, stretch in enumerate(stretches):
                if (last := stretch[-1]) in forks:
                    own, length = slice(number, number + 1), int(row.depth[last]) + 1
                    layers = [(layer.keys[own, :, :length], layer.values[own, :, :length]) for layer in cache.layers]
                    waiting.append((last, layers))
        return picked


def stretches_by_fork(end: Integers) -> dict[int, list[Stretch]]:
    """The stretches that leave each fork; those from the beginning under `ROOT`.

    Args:
        end: index after each node's last descendant, nodes in preorder, [nodes].
    """
    children: dict[int, list[int]] = defaultdict(list)
    branch = [ROOT]
    for node in range(len(end)):
        while branch[-1] != ROOT and end[branch[-1]] <= node:
            branch.pop()
        children[branch[-1]].append(node)
        branch.append(node)
    starts = [(fork, node) for fork, nodes in children.items() if fork == ROOT or len(nodes) > 1 for node in nodes]
    forks: dict[int, list[Stretch]] = defaultdict(list)
    for fork, start in starts:
        last = start
        while len(children.get(last, ())) == 1:
            last = children[last][0]
        forks[fork].append(range(start, last + 1))
    return dict(forks)
