"""The contestant with a prefix cache: what a careful user of `past_key_values` would write.

A trajectory of question q, steps s0 s1 and answers a, b; a row is a template, all templates side by side:

    chain      q s0 s1                     once; its first columns are the cache of q, of q s0 and of q s0 s1
    branches   q | s1                      contexts that leave the chain, read behind the cache of what they share
    answers    q | a   q | b   q s0 | a    behind copies of the cache of their context; the last token is not read

A context's first token of an answer is predicted by the context's own last token, so nothing is read twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple

import torch
from scoring_contestants import Logprobs, batches
from scoring_sequences import Key, Pieces, TokenIds
from transformers import DynamicCache

from cpmi_dagster.contracts.contexts import Context
from cpmi_dagster.models.language_models import LoadedModel


@dataclass(frozen=True)
class Reading:
    """Texts the model has read side by side.

    Attributes:
        layers: keys and values of each layer, [rows, heads, columns, head width].
        filled: columns that hold text, [rows, columns].
        hidden: last hidden states of the columns read last, [rows, new columns, width].
    """

    layers: list[tuple[torch.Tensor, torch.Tensor]]
    filled: torch.Tensor
    hidden: torch.Tensor

    def beginnings(self, rows: list[int], columns: list[int]) -> "Reading":
        """The first so many columns of some rows; a row may be taken more than once."""
        width = max(columns)
        kept = torch.tensor(columns, device=self.filled.device)[:, None]
        inside = torch.arange(width, device=self.filled.device) < kept
        layers = [(keys[rows, :, :width], values[rows, :, :width]) for keys, values in self.layers]
        return Reading(layers, self.filled[rows, :width] & inside, self.hidden[:0])


class Place(NamedTuple):
    """A context that has been read: where it stands, the keys that share it, and the state that predicts behind it."""

    reading: Reading
    row: int
    columns: int
    end: torch.Tensor
    template: int
    contexts: list[Context]


def cached_prefix(model: LoadedModel, pieces: Sequence[Pieces], contexts_a_batch: int) -> Logprobs:
    """log p of every target, trajectory by trajectory.

    Args:
        model: the labeler.
        pieces: trajectories.
        contexts_a_batch: contexts whose answers are read together, each answer a row.
    """
    scored: dict[Key, float] = {}
    with torch.inference_mode():
        for one in pieces:
            places = sorted(_places(model, one), key=lambda place: (id(place.reading), place.columns))
            for reading in {id(place.reading): place.reading for place in places}.values():
                own = [place for place in places if place.reading is reading]
                for part in batches(own, contexts_a_batch):
                    scored |= _answers(model, one, part)
    return scored


def _places(model: LoadedModel, one: Pieces) -> list[Place]:
    """Every distinct context of a trajectory under every template, read."""
    shared: dict[TokenIds, list[Context]] = {}
    for context in one.contexts:
        shared.setdefault(one.context_ids(context), []).append(context)
    groups = list(shared.values())
    longest = max(_on_chain(one, group[0]) for group in groups)
    steps = tuple(chain.from_iterable(one.steps[:longest]))
    trunk = _read(model, [prompt + steps for prompt in one.prompts])
    places, leaving = [], []
    for template, group in product(range(len(one.prompts)), groups):
        common = _on_chain(one, group[0])
        columns = len(one.prompts[template]) + sum(map(len, one.steps[:common]))
        rest = one.context_ids(group[0])[sum(map(len, one.steps[:common])) :]
        if rest:
            leaving.append((rest, template, columns, group))
        else:
            places.append(Place(trunk, template, columns, trunk.hidden[template, columns - 1], template, group))
    return places + (_branches(model, trunk, leaving) if leaving else [])


def _on_chain(one: Pieces, context: Context) -> int:
    """First steps that a context has in common with the whole trajectory."""
    steps = context.steps(len(one.steps))
    return next((index for index, step in enumerate(steps) if step != index), len(steps))


def _branches(
    model: LoadedModel, trunk: Reading, leaving: Sequence[tuple[TokenIds, int, int, list[Context]]]
) -> list[Place]:
    before = trunk.beginnings([row for _, row, _, _ in leaving], [columns for _, _, columns, _ in leaving])
    reading = _read(model, [rest for rest, *_ in leaving], before)
    width = reading.filled.shape[1]
    return [
        Place(reading, row, width, reading.hidden[row, len(rest) - 1], template, group)
        for row, (rest, template, _, group) in enumerate(leaving)
    ]


def _read(model: LoadedModel, texts: Sequence[TokenIds], before: Reading | None = None) -> Reading:
    """Read texts, padded on the right, each behind its row of an earlier reading."""
    longest = max(map(len, texts))
    device = model.device
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts], device=device)
    lengths = torch.tensor([len(text) for text in texts], device=device)
    filled = torch.arange(longest, device=device) < lengths[:, None]
    start = torch.zeros_like(lengths)
    cache = DynamicCache()
    if before:
        start = before.filled.sum(dim=1)
        filled = torch.cat([before.filled, filled], dim=1)
        for layer, (keys, values) in enumerate(before.layers):
            cache.update(keys, values, layer)
    hidden = model.model.base_model(
        input_ids=ids,
        attention_mask=filled.long(),
        position_ids=start[:, None] + torch.arange(longest, device=device),
        past_key_values=cache,
        use_cache=True,
    ).last_hidden_state
    layers: list[Any] = cache.layers
    return Reading([(layer.keys, layer.values) for layer in layers], filled, hidden)


def _answers(model: LoadedModel, one: Pieces, places: Sequence[Place]) -> dict[Key, float]:
    """log p of all answers behind contexts of one reading."""
    rows = [(place, rank) for place in places for rank in range(len(one.targets))]
    before = places[0].reading.beginnings([place.row for place, _ in rows], [place.columns for place, _ in rows])
    targets = [one.targets[rank] for _, rank in rows]
    hidden = _read(model, [target[:-1] for target in targets], before).hidden
    states = torch.cat([torch.stack([place.end for place, _ in rows])[:, None], hidden], dim=1)
    projection: Any = model.model.get_output_embeddings()
    logprobs = projection(states).float().log_softmax(-1)
    sums = [float(logprobs[row, range(len(target)), list(target)].double().sum()) for row, target in enumerate(targets)]
    return {
        (one.trajectory_id, place.template, context.kind, context.step_index, rank): value
        for (place, rank), value in zip(rows, sums, strict=True)
        for context in place.contexts
    }
