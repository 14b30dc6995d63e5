"""The decoder that `decoding.py` measures ours against: `model.generate`, with our uniform numbers and our stop rule.

Both decoders have the interface of `generation.decoding.Decoder`, so that an engine can run on any of the three.

    one call   q a a a . .     a row that has ended runs on until the longest of its batch has
               r b b b b b

    rounds     q a a a         a call ends once a share of its rows has; the next goes on from the keys and values of
               r b b b|b b     the others, prompts are read once for all their samples, what they share once at all
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, LogitsProcessor, LogitsProcessorList, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.generation.stopping_criteria import StoppingCriteria, StoppingCriteriaList

from cpmi_dagster.generation.decoding import Continuation, Start
from cpmi_dagster.generation.kv_cache import RoomyLayer
from cpmi_dagster.generation.prompt_reading import PromptReader
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.shared_beginnings import Beginning
from cpmi_dagster.generation.stopping import StopRule
from cpmi_dagster.generation.token_sampling import draw_tokens

KEPT_SHARE = 15 / 16
# rows so few that a call for each of them would cost more than it saves
FEW_ROWS = 8


class DrawnToken(LogitsProcessor):
    """Leaves of the scores the token alone that a row's uniform number decides.

    Args:
        numbers: (rows, limit).
        begin: column of the first sampled token.
        sampling: how tokens are drawn.
    """

    def __init__(self, numbers: torch.Tensor, begin: int, sampling: Sampling) -> None:
        self._numbers = numbers
        self._begin = begin
        self._sampling = sampling

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores (rows, vocabulary), minus infinity but for one token a row."""
        tokens = draw_tokens(scores, self._numbers[:, input_ids.shape[1] - self._begin], self._sampling)
        scores.fill_(-torch.inf).scatter_(1, tokens[:, None], 0.0)
        return scores


class RuleStops(StoppingCriteria):
    """Ends rows by our stop rule, and all of them once no more than `kept_share` are left.

    Attributes:
        active: rows that have not ended, (rows,).
        counts: sampled tokens of each row, (rows,).
        ended: rows that the rule ended, (rows,).
    """

    def __init__(self, rule: StopRule, counts: torch.Tensor, begin: int, limit: int, kept_share: float) -> None:
        self._rule = rule
        self._begin = begin
        self._limit = limit
        self._fewest = kept_share * len(counts)
        self.counts = counts
        self.active = torch.ones_like(counts, dtype=torch.bool)
        self.ended = torch.zeros_like(self.active)

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs: Any) -> torch.Tensor:
        """Which rows `generate` need not continue, (rows,)."""
        self.counts += self.active
        sampled = input_ids[:, self._begin :]
        made = torch.full_like(self.counts, sampled.shape[1])
        self.ended |= self._rule.ended(sampled, made, self.active)
        self.active &= ~self.ended & (made < self._limit)
        enough = int(self.active.sum()) <= self._fewest
        return torch.ones_like(self.active) if enough else ~self.active


class OneCallDecoder:
    """A batch after another, each one call of `generate`; beginnings are not shared.

    Args:
        model: attention layers only.
        sampling: how tokens are drawn.
        stop_rule: when a continuation ends.
        batch_sequences: most rows at once.
        states: of our decoder; `generate` keeps its own.
    """

    kept_share = 0.0

    def __init__(
        self,
        model: PreTrainedModel,
        sampling: Sampling,
        stop_rule: StopRule,
        batch_sequences: int,
        states: object = None,
    ) -> None:
        self._model: Any = model
        self._sampling = sampling
        self._stop_rule = stop_rule
        self._batch_sequences = batch_sequences

    @torch.inference_mode()
    def run(self, starts: Sequence[Start], beginnings: Sequence[Beginning | None] = ()) -> Iterator[Continuation]:
        """Continue every prompt; arguments are those of `Decoder.run`."""
        prompts = [start.prompt for start in starts]
        reader = PromptReader(self._model, prompts, beginnings or [None] * len(starts))
        left = list(range(len(starts)))
        while left:
            places = self._batch_sequences
            taken: list[int] = []
            while left and len(starts[left[0]].owners) <= places:
                places -= len(starts[left[0]].owners)
                taken.append(left.pop(0))
            yield from self._batch(reader, taken, [starts[number] for number in taken])

    def _batch(self, reader: PromptReader, numbers: Sequence[int], starts: Sequence[Start]) -> Iterator[Continuation]:
        """Continue the prompts of one batch."""
        device = self._model.device
        longest = max(len(start.prompt) for start in starts)
        samples = torch.tensor([len(start.owners) for start in starts], device=device)
        rows = torch.arange(len(starts), device=device).repeat_interleave(samples)
        ids = torch.tensor([[*[0] * (longest - len(one.prompt)), *one.prompt] for one in starts], device=device)[rows]
        lengths = torch.tensor([len(start.prompt) for start in starts], device=device)[rows]
        mask = torch.arange(longest, device=device) >= longest - lengths[:, None]
        uniform = torch.cat([start.numbers for start in starts]).to(device)
        owners = torch.tensor([owner for start in starts for owner in start.owners], device=device)
        cache = self._read(reader, numbers, rows)
        while len(owners):
            stops = self._stops(ids, longest)
            ids, cache = self._generate(ids, mask, cache, DrawnToken(uniform, longest, self._sampling), stops)
            for row in (~stops.active).nonzero()[:, 0].tolist():
                tokens = ids[row, longest : longest + int(stops.counts[row])].tolist()
                yield Continuation(int(owners[row]), tokens, bool(stops.ended[row]))
            kept = stops.active.nonzero()[:, 0]
            if not len(kept):
                return
            ids, uniform, owners = ids[kept], uniform[kept], owners[kept]
            mask = pad(mask, (0, ids.shape[1] - mask.shape[1]), value=True)[kept]
            cache.batch_select_indices(kept)

    def _stops(self, ids: torch.Tensor, begin: int) -> RuleStops:
        counts = torch.full((len(ids),), ids.shape[1] - begin, device=ids.device)
        share = self.kept_share if len(ids) > FEW_ROWS else 0.0
        return RuleStops(self._stop_rule, counts, begin, self._sampling.max_new_tokens, share)

    def _generate(
        self, ids: torch.Tensor, mask: torch.Tensor, cache: Cache, drawn: DrawnToken, stops: RuleStops
    ) -> tuple[torch.Tensor, Cache]:
        """One call: token ids, and keys and values of all but the last."""
        output = self._model.generate(
            inputs=ids,
            attention_mask=mask.long(),
            past_key_values=cache,
            max_new_tokens=self._sampling.max_new_tokens - int(stops.counts[0]),
            logits_processor=LogitsProcessorList([drawn]),
            stopping_criteria=StoppingCriteriaList([stops]),
            return_dict_in_generate=True,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            eos_token_id=None,
            pad_token_id=0,
        )
        return output.sequences, output.past_key_values

    def _read(self, reader: PromptReader, numbers: Sequence[int], rows: torch.Tensor) -> Cache:
        """Keys and values of the prompts but for their last tokens: none, so that `generate` reads every row."""
        return DynamicCache()


class RoundsDecoder(OneCallDecoder):
    """A batch in several calls, each with the rows that the one before left."""

    kept_share = KEPT_SHARE

    def _read(self, reader: PromptReader, numbers: Sequence[int], rows: torch.Tensor) -> Cache:
        _, _, cache = reader.read(numbers)
        layers = [layer for layer in cache.layers if isinstance(layer, RoomyLayer)]
        return DynamicCache([(layer.keys[rows, :, :-1], layer.values[rows, :, :-1]) for layer in layers])
