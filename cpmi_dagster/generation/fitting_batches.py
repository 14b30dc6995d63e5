"""Decode as many continuations at once as there is memory for.

    256 at once    a b c d    memory runs out when a has ended
    128 at once    b c d      start again with their own random numbers, so their texts do not change

The number that fits is kept with the loaded model, for later calls; twice as many are tried again after a while.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cpmi_dagster.errors import ModelError, first_line
from cpmi_dagster.generation.decoding import Continuation, Decoder, Start
from cpmi_dagster.generation.engine import Stop
from cpmi_dagster.generation.kv_cache import CopiedPrompts
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.shared_beginnings import Beginning, shared_beginnings
from cpmi_dagster.generation.shared_prompts import SharedPrompts, by_text, worth_sharing
from cpmi_dagster.generation.stopping import StopRule
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.memory import is_out_of_memory, release_memory, remember_size, size_that_fits

logger = logging.getLogger(__name__)

FITTING_SEQUENCES = "fitting sequences"
"""Key of `LoadedModel.remembered`: how many continuations fit."""


@dataclass(frozen=True)
class Drawn:
    """What has been decoded so far.

    Attributes:
        continuations: in the order they ended.
        read: prompt tokens that the model read, by one owner of each start.
    """

    continuations: list[Continuation] = field(default_factory=list)
    read: Counter[int] = field(default_factory=Counter)


def decode_fitting(
    loaded: LoadedModel, starts: Sequence[Start], sampling: Sampling, stop: Stop, batch_sequences: int
) -> Drawn:
    """Continue every prompt, with half as many continuations at once whenever memory runs out.

    Args:
        loaded: attention layers only.
        starts: prompts by falling length.

    Returns:
        A continuation for every owner. A prompt read twice counts twice, unless no continuation ended the first time.

    Raises:
        ModelError: there is no memory for a single continuation.
    """
    drawn, rule = Drawn(), StopRule(loaded, stop)
    while True:
        rows = size_that_fits(loaded.remembered, FITTING_SEQUENCES, batch_sequences)
        # without the samples that have ended; a prompt with more samples than rows is read several times
        finished = {one.owner for one in drawn.continuations}
        left = []
        for start in starts:
            numbers = [number for number, owner in enumerate(start.owners) if owner not in finished]
            for first in range(0, len(numbers), rows):
                turn = numbers[first : first + rows]
                left.append(Start(start.prompt, [start.owners[number] for number in turn], start.numbers[turn]))
        if not left:
            return drawn
        states = SharedPrompts if worth_sharing(loaded, [start.prompt for start in left]) else CopiedPrompts
        if states is SharedPrompts:
            left = [left[number] for number in by_text([start.prompt for start in left])]
        prompts = [start.prompt for start in left]
        beginnings = shared_beginnings(prompts, rows * len(prompts[0]))
        shortage = _decode(Decoder(loaded.model, sampling, rule, rows, states), left, beginnings, drawn)
        if shortage is not None:
            release_memory(loaded.device)
            tried = min(rows, sum(len(start.owners) for start in left))
            if tried == 1:
                raise ModelError(
                    f"{loaded.identity} has too little memory for a single continuation of a prompt of "
                    f"{len(prompts[0])} tokens at most ({shortage}); lower `max_new_tokens`, use a smaller "
                    "dtype or `device_map: auto` over several GPUs, or sample with another engine (docs/engines.md)"
                )
            message = "%s: no memory for %d continuations at once (%s); going on with %d"
            logger.warning(message, loaded.identity, tried, shortage, tried // 2)
            remember_size(loaded.remembered, FITTING_SEQUENCES, tried // 2)


def _decode(
    decoder: Decoder, starts: Sequence[Start], beginnings: Sequence[Beginning | None], drawn: Drawn
) -> str | None:
    """Add continuations to `drawn` until all have ended or memory runs out; then what torch says about it.

    The error itself is dropped here: its traceback would keep the batch in memory.
    """
    ended: set[int] = set()
    shortage = None
    try:
        for continuation in decoder.run(starts, beginnings):
            drawn.continuations.append(continuation)
            ended.add(continuation.owner)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        shortage = first_line(error)
    for start, beginning in zip(starts, beginnings, strict=True):
        if not ended.isdisjoint(start.owners):
            drawn.read[start.owners[0]] += len(start.prompt) - (beginning.length if beginning else 0)
    return shortage
