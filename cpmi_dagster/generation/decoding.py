"""Sample continuations of many prompts in one batch; the row of a finished text is given to a waiting prompt.

The model reads a prompt once, and what it shares with an earlier prompt not again (see `prompt_reading`); its samples
start from copies of its keys and values (`kv_cache`) or read them together (`shared_prompts`). Where they are copied,
prompts come longest first, so that a new prompt always fits beside the rows in the batch (see `kv_cache`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import torch

from cpmi_dagster.generation.kv_cache import CopiedPrompts
from cpmi_dagster.generation.prompt_reading import PromptReader
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.shared_beginnings import Beginning
from cpmi_dagster.generation.shared_prompts import SharedPrompts
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
RowStates = CopiedPrompts | SharedPrompts


class Continuation(NamedTuple):
    """Sampled token ids of the sample `owner`; `ended` is false where the limit cut it off."""

    owner: int
    tokens: list[int]
    ended: bool


@dataclass
class Batch:
    """Rows being decoded; first dimension of every tensor: rows.

    Attributes:
        logits: of each row's next token, (rows, vocabulary).
        owners: sample each row belongs to.
        numbers: uniform numbers, (rows, limit).
        tokens: sampled tokens, (rows, limit).
        counts: how many of `tokens` are sampled.
        lengths: tokens of the row's text that the model has read.
        active: rows that have not ended.
    """

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
        """Replace some rows by those of `source`."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(source, field.name)


@dataclass(frozen=True)
class Decoder:
    """Draws continuations from one model.

    Attributes:
        model: attention layers only.
        sampling: how tokens are drawn.
        stop_rule: when a continuation ends.
        batch_sequences: most rows at once.
        states: how rows keep their prompts.
    """

    model: "PreTrainedModel"
    sampling: Sampling
    stop_rule: StopRule
    batch_sequences: int
    states: type[RowStates] = CopiedPrompts

    @torch.inference_mode()
    def run(self, starts: Sequence[Start], beginnings: Sequence[Beginning | None] = ()) -> Iterator[Continuation]:
        """Continue every prompt; continuations come in the order they end.

        Args:
            starts: prompts none of which has more samples than the batch has rows; by falling length where they are
                copied, else as `by_text` orders them.
            beginnings: what each prompt takes from an earlier one (`shared_beginnings`); nothing when empty.
        """
        prompts = [start.prompt for start in starts]
        reader = PromptReader(self.model, prompts, beginnings or [None] * len(starts))
        waiting = list(reversed(list(enumerate(starts))))
        batch, states = self._admit(reader, waiting, self.batch_sequences)
        while True:
            yield from self._draw(batch)
            if not bool(batch.active.any()):
                if not waiting:
                    return
                batch, states = self._admit(reader, waiting, self.batch_sequences)
                continue
            self._forward(batch, states)
            idle = (~batch.active).nonzero()[:, 0]
            if waiting and len(idle) >= max(len(waiting[-1][1].owners), REFILL_SHARE * len(batch.active)):
                # the rows of ended texts go to waiting prompts
                fresh, fresh_states = self._admit(reader, waiting, len(idle))
                rows = idle[: len(fresh.active)]
                states.overwrite(rows, fresh_states, batch.active)  # pyright: ignore[reportArgumentType] - same type
                batch.overwrite(rows, fresh)
            if not states.has_room() or (not waiting and len(idle) > SHRINK_SHARE * len(batch.active)):
                rows = (batch.active | bool(waiting)).nonzero()[:, 0]  # idle rows only where there is a use for them
                batch, states = batch.select(rows), states.kept(rows, batch.active)

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

    def _forward(self, batch: Batch, states: RowStates) -> None:
        """Read the newest token of every row; ended rows are computed too, at the same position."""
        newest = batch.tokens.gather(1, (batch.counts - 1)[:, None])
        batch.logits = states.read(self.model, newest, batch.lengths[:, None])
        batch.lengths += batch.active

    def _admit(self, reader: PromptReader, waiting: Waiting, places: int) -> tuple[Batch, RowStates]:
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
            logits=logits[rows],
            owners=owners,
            numbers=numbers,
            tokens=torch.zeros_like(numbers, dtype=torch.long),
            counts=torch.zeros_like(owners),
            lengths=mask.sum(dim=1)[rows],
            active=torch.ones_like(owners, dtype=torch.bool),
        )
        return batch, self.states.of(cache, mask, [start.prompt for start in starts], rows)
