"""Read prompts into keys and values, what they share with an earlier prompt only once (see `shared_beginnings`).

All but the last tokens are read first: those of prompts without a donor, then those of prompts that begin like one of
them. The last tokens of all prompts follow in one pass, so that only the logits behind them are computed.

    q s1 s2 s3       q s1 takes the keys and values of q and of all of s1 but its last token, and is read on from there
    p                q s4 takes those of q
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad
from transformers.cache_utils import Cache

from cpmi_dagster.generation.kv_cache import States, empty_cache, next_logits, text_states, texts_cache
from cpmi_dagster.generation.shared_beginnings import Beginning
from cpmi_dagster.models.tokens import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedModel

READ_TOKENS = 16_384


class PromptReader:
    """Reads the prompts of one call, a few at a time.

    Args:
        model: attention layers only.
        prompts: token ids of all prompts, none empty.
        beginnings: what each prompt takes from an earlier one.
    """

    def __init__(
        self, model: "PreTrainedModel", prompts: Sequence[TokenIds], beginnings: Sequence[Beginning | None]
    ) -> None:
        self._model = model
        self._prompts = prompts
        self._beginnings = beginnings
        self._waiting = Counter(beginning.donor for beginning in beginnings if beginning)
        self._states: dict[int, States] = {}

    def read(self, numbers: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor, Cache]:
        """Read some prompts.

        Args:
            numbers: which; their donors are among them or were read before.

        Returns:
            Logits behind each prompt (prompts, vocabulary), columns of the cache that hold it (prompts, length), and
            the cache.
        """
        left = list(numbers)
        while left:
            donors = {number: beginning.donor for number in left if (beginning := self._beginnings[number])}
            ready = [number for number in left if donors.get(number) not in left]
            left = [number for number in left if number not in ready]
            rows = max(1, READ_TOKENS // max(len(self._prompts[number]) for number in ready))
            for first in range(0, len(ready), rows):
                self._read_on(ready[first : first + rows])
        lengths = [len(self._prompts[number]) - 1 for number in numbers]
        mask = pad(self._right_aligned(lengths), (0, 1), value=True)
        last = self._tensor([self._prompts[number][-1:] for number in numbers])
        cache = self._cache(numbers, lengths)
        logits = next_logits(self._model, last, mask, self._tensor(lengths)[:, None], cache)
        self._states = {number: states for number, states in self._states.items() if self._waiting[number] > 0}
        return logits, mask, cache

    def _read_on(self, numbers: Sequence[int]) -> None:
        """Read prompts from the end of what their donors gave them, right-padded: the text of a row has no gaps."""
        begun = [self._beginnings[number] or Beginning(number, 0) for number in numbers]
        lengths = [beginning.length for beginning in begun]
        cache, mask = self._cache([beginning.donor for beginning in begun], lengths), self._right_aligned(lengths)
        self._waiting.subtract(beginning.donor for beginning in begun if beginning.length)
        tails = [self._prompts[number][length:-1] for number, length in zip(numbers, lengths, strict=True)]
        if any(tails):
            unread = self._right_aligned([len(tail) for tail in tails]).flip(1)
            ids = self._tensor([[*tail, *[0] * (unread.shape[1] - len(tail))] for tail in tails])
            positions = self._tensor(lengths)[:, None] + torch.arange(ids.shape[1], device=ids.device)
            next_logits(self._model, ids, torch.cat([mask, unread], dim=1), positions, cache)
        for row, (number, length, tail) in enumerate(zip(numbers, lengths, tails, strict=True)):
            start = max(lengths) - length
            self._states[number] = text_states(cache, row, slice(start, max(lengths) + len(tail)))

    def _cache(self, numbers: Sequence[int], lengths: Sequence[int]) -> Cache:
        """The first tokens of texts that have been read, in the last columns of a row each."""
        if not any(lengths):
            return empty_cache(self._model)
        return texts_cache([self._states.get(number, []) for number in numbers], lengths)

    def _right_aligned(self, lengths: Sequence[int]) -> torch.Tensor:
        """True in the last `length` columns of each row, (rows, longest)."""
        columns = torch.arange(max(lengths), device=self._model.device)
        return columns >= max(lengths) - self._tensor(lengths)[:, None]

    def _tensor(self, values: Sequence[object]) -> torch.Tensor:
        return torch.tensor(values, device=self._model.device)
