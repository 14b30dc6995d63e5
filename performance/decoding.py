"""Our decoder beside `model.generate` on the policy rollouts of a finished run: seconds, forward passes, other texts.

    cpmi run
    python performance/decoding.py --shards 000 001
    python performance/decoding.py --profile human-steps --only decoder copies --trajectories 4    after `make evidence`

The trajectories are those the run selected; model, T and sampling are those of the profile. `copies` is our decoder
with a copy of its prompt's keys in every row, as it decodes where prompts are short. All contestants draw from the same
uniform numbers, so their texts are the same but for rounding. They take turns, after a few rollouts that nobody times.
`decoding_generate.py` says what they are.
"""

import argparse
import logging
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import polars as pl
import torch
from decoding_generate import OneCallDecoder, RoundsDecoder
from scoring_meter import ForwardMeter

from cpmi_dagster.generation import fitting_batches
from cpmi_dagster.generation.decoding import Decoder
from cpmi_dagster.generation.engine import Generation, Stop
from cpmi_dagster.generation.monte_carlo import Portion, prefix_rollouts
from cpmi_dagster.generation.settings import Rollouts, Sampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.stage_run import in_labeling_order
from cpmi_dagster.resources.lake.lake import Lake

CONTESTANTS = {"decoder": Decoder, "copies": Decoder, "one call": OneCallDecoder, "rounds": RoundsDecoder}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
WARM_UP = 4
NO_LIMIT = 2**31
logger = logging.getLogger(__name__)


@dataclass
class Measured:
    """Runs of one contestant on one shard.

    Attributes:
        seconds: of each run.
        passes: forward passes of a run.
        tokens: tokens that went through the layers in a run, padding and ended rows included.
        different: rollouts that are not those of the first contestant.
    """

    seconds: list[float] = field(default_factory=list)
    passes: int = 0
    tokens: int = 0
    different: int = 0


class RecordingEngine(TransformersEngine):
    """An engine on a decoder of choice that keeps what it drew; only the one named `decoder` shares prompts."""

    def __init__(self, model: LoadedModel, batch_sequences: int, name: str) -> None:
        super().__init__(model, batch_sequences)
        self._decoder, self._shares = CONTESTANTS[name], name == "decoder"
        self.drawn: list[tuple[str, int, bool]] = []

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, samples: int, seed: int, stop: Stop = "answer", first: int = 0
    ) -> list[list[Generation]]:
        """See `RolloutEngine.generate`."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(fitting_batches, "Decoder", self._decoder))
            if not self._shares:
                stack.enter_context(patch.object(fitting_batches, "worth_sharing", lambda *_: False))
            generations = super().generate(prompts, sampling, samples, seed, stop, first)
        self.drawn += [(one.text, one.tokens, one.truncated) for group in generations for one in group]
        return generations


def selected_trajectories(home: Path | str, shard: str) -> pl.DataFrame:
    """What `labels/policy_rollouts` of a shard is made from, in its order."""
    lake = Lake(home, "miniature")
    chosen = lake.read("selection/selected_trajectories", None).filter(pl.col("shard") == shard)
    return in_labeling_order(lake.read("alignment/trajectories", [shard]), chosen)


def compare(
    model: LoadedModel,
    trajectories: pl.DataFrame,
    rollouts: Rollouts,
    seed: int,
    repeats: int,
    clock: str,
    names: Sequence[str],
) -> dict[str, Measured]:
    """Let every contestant complete every prefix, in turns."""
    measured = {name: Measured() for name in names}
    first: list[tuple[str, int, bool]] = []
    for _ in range(repeats):
        for name, one in measured.items():
            engine = RecordingEngine(model, rollouts.batch_sequences, name)
            with ForwardMeter(model.model) as meter:
                began = CLOCKS[clock]()
                prefix_rollouts(
                    trajectories, engine, [Portion(1, None, 0, rollouts.policy_count)], rollouts.sampling, seed
                )
                one.seconds.append(CLOCKS[clock]() - began)
            first = first or engine.drawn
            one.passes, one.tokens = len(meter.rows), meter.tokens
            one.different = sum(text != other for text, other in zip(engine.drawn, first, strict=True))
    return measured


def report(shard: str, measured: dict[str, Measured]) -> None:
    """Log a line for each contestant."""
    ours = next(iter(measured.values()))
    for name, one in measured.items():
        fastest = min(one.seconds) / min(ours.seconds)
        median = statistics.median(one.seconds) / statistics.median(ours.seconds)
        logger.info(
            "shard %s, %-9s %s s, x %.2f (median %.2f), %d passes, %d tokens computed, %d other texts",
            shard,
            name,
            ", ".join(f"{seconds:.1f}" for seconds in one.seconds),
            fastest,
            median,
            one.passes,
            one.tokens,
            one.different,
        )


def main() -> None:
    """Print the figures of every shard."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, help="of a finished run of the profile; else as `cpmi`")
    parser.add_argument("--profile", default="miniature")
    parser.add_argument("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--trajectories", type=int, help="of each shard; all by default")
    parser.add_argument("--shards", nargs="+", default=["001"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = load_settings(options.profile, options.home)
    own = settings.models.rollouts or settings.models.labeler
    model = load_language_model(own.name, dtype=own.dtype)
    rollouts = settings.rollouts
    engine = TransformersEngine(model, rollouts.batch_sequences)
    for shard in options.shards:
        trajectories = selected_trajectories(settings.home, shard).head(options.trajectories or NO_LIMIT)
        every = [Portion(1, None, 0, rollouts.policy_count)]
        prefix_rollouts(trajectories.head(WARM_UP), engine, every, rollouts.sampling, 0)
        measured = compare(model, trajectories, rollouts, settings.seed, options.repeats, options.clock, options.only)
        report(shard, measured)


if __name__ == "__main__":
    main()
