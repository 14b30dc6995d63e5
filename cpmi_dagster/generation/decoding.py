"""Sample continuations of many prompts in one batch; the row of a finished text is given to a waiting prompt.

The model reads a prompt once, and what it shares with an earlier prompt not again (see `prompt_reading`); its samples
start from copies of its keys and values. Prompts come longest first, so that a new prompt always fits beside the rows
in the batch (see `kv_cache`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from transformers.cache_utils import Cache

from cpmi_dagster.generation.kv_cache import has_room, overwrite, repack
from cpmi_dagster.generation.prompt_reading import PromptReader, next_logits
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.shared_beginnings import Beginning
from cpmi_dagster.generation.stopping import StopRule
from cpmi_dagster.generation.token_sampling import draw_tokens
from cpmi_dagster.models.tokens import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REFILL_SHARE = 1 / 8
SHRINK_SHARE = 1 / 2


@dataclass(frozen=True)
class Start:
    """A prompt and the samples to draw from it.

    Attributes:
        prompt: token ids.
        owners: one number a sample, which identifies its continuation.
        numbers: uniform numbers that decide the tokens, (samples, limit).
    """

    prompt: TokenIds
    owners: Sequence[int]
    numbers: torch.Tensor


# numbered starts, the next one last
Waiting = list[tuple[int, Start]]


@dataclass(frozen=True)
class Continuation:
    """Sampled token ids of the sample `owner`; `ended` is false where the limit cut it off."""

    owner: int
    tokens: list[int]
    ended: bool


@dataclass
class Batch:
    """Rows being decoded; first dimension of every tensor: rows.

    Attributes:
        mask: columns of the cache that hold the row's text, (rows, length).
        logits: of each row's next token, (rows, vocabulary).
        owners: sample each row belongs to.
        numbers: uniform numbers, (rows, limit).
        tokens: sampled tokens, (rows, limit).
        counts: how many of `tokens` are sampled.
        lengths: tokens of the row's text that the model has read.
        active: rows that have not ended.
    """

    mask: torch.Tensor
    logits: torch.Tensor
    owners: torch.Tensor
    numbers: torch.Tensor
    tokens: torch.Tensor
    counts: torch.Tensor
    lengths: torch.Tensor
    active: torch.Tensor

    def select(self, rows: torch.Tensor) -> "Batch":
        """Some rows."""
        return Batch(*(getattr(self, field.name)[rows] for field in fields(self)))

    def overwrite(self, rows: torch.Tensor, source: "Batch") -> None:
        """Replace some rows by those of `source`, whose mask may be narrower."""
        for field in fields(self):
            own, other = getattr(self, field.name), getattr(source, field.name)
            if field.name == "mask":
                other = torch.nn.functional.pad(other, (own.shape[1] - other.shape[1], 0))
            own[rows] = other


@dataclass(frozen=True)
class Decoder:
    """Draws continuations from one model.

    Attributes:
        model: attention layers only.
        sampling: how tokens are drawn.
        stop_rule: when a continuation ends.
        batch_sequences: most rows at once.
    """

    model: "PreTrainedModel"
    sampling: Sampling
    stop_rule: StopRule
    batch_sequences: int

    @torch.inference_mode()
    def run(self, starts: Sequence[Start], beginnings: Sequence[Beginning | None] = ()) -> Iterator[Continuation]:
        """Continue every prompt; continuations come in the order they end.

        Args:
            starts: prompts by falling length, none with more samples than the batch has rows.
            beginnings: what each prompt takes from an earlier one (`shared_beginnings`); nothing when empty.
        """
        prompts = [start.prompt for start in starts]
        reader = PromptReader(self.model, prompts, beginnings or [None] * len(starts))
        waiting = list(reversed(list(enumerate(starts))))
        batch, cache = self._admit(reader, waiting, self.batch_sequences)
        while True:
            yield from self._draw(batch)
            if not bool(batch.active.any()):
                if not waiting:
                    return
                batch, cache = self._admit(reader, waiting, self.batch_sequences)
                continue
            self._forward(batch, cache)
            idle = (~batch.active).nonzero()[:, 0]
            if waiting and len(idle) >= max(len(waiting[-1][1].owners), REFILL_SHARE * len(batch.active)):
                # the rows of ended texts go to waiting prompts
                fresh, fresh_cache = self._admit(reader, waiting, len(idle))
                rows = idle[: len(fresh.active)]
                batch.overwrite(rows, fresh)
                overwrite(cache, rows, fresh_cache)
            if not has_room(cache) or (not waiting and len(idle) > SHRINK_SHARE * len(batch.active)):
                batch, cache = self._tighten(batch, cache, keep_idle=bool(waiting))

    def _draw(self, batch: Batch) -> Iterator[Continuation]:
        """Draw a token for every active row; yields the rows that end with it."""
        limit = self.sampling.max_new_tokens
        slots = batch.counts.clamp(max=limit - 1)[:, None]
        drawn = draw_tokens(batch.logits, batch.numbers.gather(1, slots)[:, 0], self.sampling)
        kept = torch.where(batch.active, drawn, batch.tokens.gather(1, slots)[:, 0])
        batch.tokens.scatter_(1, slots, kept[:, None])
        batch.counts += batch.active
        ended = self.stop_rule.ended(batch.tokens, batch.counts, batch.active)
        finished = ended | (batch.active & (batch.counts >= limit))
        for row in finished.nonzero()[:, 0].tolist():
            tokens = batch.tokens[row, : int(batch.counts[row])].tolist()
            yield Continuation(int(batch.owners[row]), tokens, bool(ended[row]))
        batch.active &= ~finished

    def _forward(self, batch: Batch, cache: Cache) -> None:
        """Read the newest token of every row; ended rows are computed too, at the same position."""
        batch.mask = torch.nn.functional.pad(batch.mask, (0, 1), value=True)
        newest = batch.tokens.gather(1, (batch.counts - 1)[:, None])
        batch.logits = next_logits(self.model, newest, batch.mask, batch.lengths[:, None], cache)
        batch.lengths += batch.active

    def _admit(self, reader: PromptReader, waiting: Waiting, places: int) -> tuple[Batch, Cache]:
        """Take prompts off the waiting list and read them; one row for each of their samples."""
        taken: list[tuple[int, Start]] = []
        while waiting and len(waiting[-1][1].owners) <= places:
            places -= len(waiting[-1][1].owners)
            taken.append(waiting.pop())
        logits, mask, cache = reader.read([number for number, _ in taken])
        starts = [start for _, start in taken]
        samples = torch.tensor([len(start.owners) for start in starts])
        rows = torch.arange(len(starts)).repeat_interleave(samples).to(mask.device)
        numbers = torch.cat([start.numbers for start in starts]).to(mask.device)
        owners = torch.tensor([owner for start in starts for owner in start.owners], device=mask.device)
        batch = Batch(
            mask=mask[rows],
            logits=logits[rows],
            owners=owners,
            numbers=numbers,
            tokens=torch.zeros_like(numbers, dtype=torch.long),
            counts=torch.zeros_like(owners),
            lengths=mask.sum(dim=1)[rows],
            active=torch.ones_like(owners, dtype=torch.bool),
        )
        return batch, repack(cache, rows, mask.shape[1])

    def _tighten(self, batch: Batch, cache: Cache, keep_idle: bool) -> tuple[Batch, Cache]:
        """Drop the columns no active row uses, and the rows that have ended unless their places are needed."""
        length = int((batch.lengths * batch.active).max())
        rows = (batch.active | keep_idle).nonzero()[:, 0]
        kept = batch.select(rows)
        kept.mask = kept.mask[:, -length:]
        return kept, repack(cache, rows, length)
