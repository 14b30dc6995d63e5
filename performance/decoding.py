"""Compares our decoder with `model.generate` on rollouts of a finished run: seconds, forward passes, other texts.

    cpmi run
    python performance/decoding.py --shards 000 001

Trajectories are those that the run selected; model, T and sampling are the profile's. `one call` calls `generate` for
each batch, with our uniform numbers and stop rule, so that only rounding can change its texts:

    one call   q a a a . .     a row that has ended is padded until the longest of its batch has; every prompt is read
               r b b b b b     from its first token

Contestants take turns, after a warm-up.
"""

import argparse
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import torch
from scoring_contestants import TokenMeter
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedModel
from transformers.generation.stopping_criteria import StoppingCriteria, StoppingCriteriaList

from cpmi_dagster.generation import decoding
from cpmi_dagster.generation.decoding import Continuation, decode
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import StopRule, draw_tokens
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.models.language_models import load_language_model
from cpmi_dagster.models.tokens import TokenIds
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.stage_run import in_labeling_order
from cpmi_dagster.resources.lake.lake import Lake

WARM_UP = 4
logger = logging.getLogger(__name__)


class DrawnToken(LogitsProcessor):
    """Masks all scores but that of the token which a row's uniform number, (rows, limit), selects."""

    def __init__(self, numbers: torch.Tensor, begin: int, sampling: Sampling) -> None:
        self._numbers, self._begin, self._sampling = numbers, begin, sampling

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores (rows, vocabulary) with one finite score a row."""
        tokens = draw_tokens(scores, self._numbers[:, input_ids.shape[1] - self._begin], self._sampling)
        scores.fill_(-torch.inf).scatter_(1, tokens[:, None], 0.0)
        return scores


class RuleStops(StoppingCriteria):
    """Ends rows by our stop rule.

    Attributes:
        active: rows that have not ended, (rows,).
        counts: sampled tokens of each row, (rows,).
    """

    def __init__(self, rule: StopRule, rows: int, begin: int) -> None:
        self._rule, self._begin = rule, begin
        self.counts, self.active = torch.zeros(rows, dtype=torch.long), torch.ones(rows, dtype=torch.bool)

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs: Any) -> torch.Tensor:
        """Which rows `generate` need not continue, (rows,)."""
        self.counts += self.active
        sampled = input_ids[:, self._begin :]
        self.active &= ~self._rule.ended(sampled, torch.full_like(self.counts, sampled.shape[1]), self.active)
        return ~self.active


@torch.inference_mode()
def decode_in_calls(
    model: PreTrainedModel,
    prompts: Sequence[TokenIds],
    numbers: torch.Tensor,
    sampling: Sampling,
    stop_rule: StopRule,
    most_rows: int,
) -> Iterator[Continuation]:
    """`decode`, by one call of `generate` for each batch."""
    order = sorted(range(len(prompts)), key=lambda owner: -len(prompts[owner]))
    for first in range(0, len(order), most_rows):
        owners = order[first : first + most_rows]
        texts, longest = [prompts[owner] for owner in owners], len(prompts[owners[0]])
        stops, drawn = RuleStops(stop_rule, len(owners), longest), DrawnToken(numbers[owners], longest, sampling)
        generate: Any = model.generate
        output = generate(
            inputs=torch.tensor([[*[0] * (longest - len(text)), *text] for text in texts]),
            attention_mask=torch.tensor([[0] * (longest - len(text)) + [1] * len(text) for text in texts]),
            max_new_tokens=sampling.max_new_tokens,
            logits_processor=LogitsProcessorList([drawn]),
            stopping_criteria=StoppingCriteriaList([stops]),
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            eos_token_id=None,
            pad_token_id=0,
        )
        for row, owner in enumerate(owners):
            tokens = output[row, longest : longest + int(stops.counts[row])].tolist()
            yield Continuation(owner, tokens, not stops.active[row])


CONTESTANTS = {"decoder": decode, "one call": decode_in_calls}


def main() -> None:
    """Log a line for each run of each contestant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, help="of a finished run of the profile; else as `cpmi`")
    parser.add_argument("--profile", default="miniature")
    parser.add_argument("--trajectories", type=int, default=2**31, help="of each shard; all by default")
    parser.add_argument("--shards", nargs="+", default=["001"])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    settings = load_settings(options.profile, options.home)
    chosen = settings.models.rollouts or settings.models.labeler
    model = load_language_model(chosen.name, dtype=chosen.dtype, device="cpu")
    lake, rollouts = Lake.of(settings), settings.rollouts

    def roll_out(trajectories: pl.DataFrame) -> pl.DataFrame:
        engine, count = TransformersEngine(model, rollouts.batch_sequences), rollouts.policy_count
        return prefix_rollouts(trajectories, engine, None, 1, count, rollouts.sampling, settings.seed)[0]

    for shard in options.shards:
        selected = lake.read("selection/selected_trajectories", None).filter(pl.col("shard") == shard)
        trajectories = in_labeling_order(lake.read("alignment/trajectories", [shard]), selected)
        trajectories, first = trajectories.head(options.trajectories), None
        roll_out(trajectories.head(WARM_UP))
        for name, contestant in [*CONTESTANTS.items()] * options.repeats:
            with patch.object(decoding, "decode", contestant), TokenMeter(model.model) as meter:
                began = time.perf_counter()
                rows = roll_out(trajectories)
                seconds = time.perf_counter() - began
            first = rows if first is None else first
            others = sum(row != base for row, base in zip(rows.iter_rows(), first.iter_rows(), strict=True))
            logger.info(
                "shard %s, %-9s %.1f s, %d passes, %d tokens computed, %d other texts",
                shard, name, seconds, meter.passes, meter.tokens, others,
            )  # fmt: skip


if __name__ == "__main__":
    main()
