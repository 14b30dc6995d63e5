"""The speed of the labeler on this machine, measured for about ten seconds, in the form of an entry of `hardware.yaml`.

    8 trees of 3 trajectories     5,100 tokens in 2.9 s      1,760 tokens read a second
    4 prompts, 8 texts of 16      512 tokens in 3.1 s        165 tokens generated a second

Sizes double until half of the time is over, and the last, the largest, counts. The first warms up. A machine that is
busy with other work is measured as it is.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import polars as pl

from cpmi_dagster.contracts.contexts import PAPERS
from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.engine import Draws, timed_generate
from cpmi_dagster.generation.monte_carlo import prefixes_of
from cpmi_dagster.models.language_models import LoadedModel, load_language_model, weights_here
from cpmi_dagster.models.memory import free_bytes
from cpmi_dagster.models.processors import resolve_device
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning.hardware import FLOPS_PER_PARAMETER, Hardware, PlannedModel
from cpmi_dagster.profiles.settings import Settings
from cpmi_dagster.scoring.answer_trees import trees_of
from cpmi_dagster.scoring.scorers import labeler_reader
from cpmi_dagster.scoring.tokenization import join_negatives, render_trajectories, tokenize_trajectories

SECONDS = 5.0
"""Of reading, and again of sampling; the last size may take as long again."""
SHORT_TEXT = 16
"""Tokens of a sampled text."""
MEMORY_SHARE, GIB = 1.3, 2**30
"""Free memory in sizes of the weights, with which they are loaded."""
Clock = Callable[[], float]


def load_here(planned: PlannedModel, name: str, revision: str | None, dtype: str, device: str) -> LoadedModel:
    """Load a model whose files are on this disk, if memory for it is free.

    Raises:
        ModelError: it has not been downloaded, is too large for the free memory, or cannot be loaded.
    """
    import torch

    place = torch.device(resolve_device(device))
    itemsize = 4 if planned.dtype == "float32" else 2
    needed = max(sum(file.stat().st_size for file in weights_here(name, revision)), planned.parameters * itemsize)
    if (free := free_bytes(place)) < MEMORY_SHARE * needed:
        raise ModelError(f"its weights of {needed / GIB:.1f} GiB do not fit the {free / GIB:.1f} GiB of free memory")
    return load_language_model(name, revision, dtype, device)


def measure_speed(
    model: LoadedModel,
    planned: PlannedModel,
    trajectories: pl.DataFrame,
    settings: Settings,
    clock: Clock = time.perf_counter,
) -> Hardware:
    """The card of `planned` with the rates at which the model reads token trees and samples here.

    Args:
        model: the labeler, loaded.
        trajectories: some of the profile's: columns trajectory_id, question, steps, gold_answer.

    Raises:
        ModelError: the model cannot read token trees, or sample.
    """
    reading = read_rate(model, trajectories, settings, clock)
    share = planned.card.sampling / planned.card.reading
    rollouts = settings.models.of("rollouts") or settings.models.labeler
    if rollouts.engine == "transformers":
        share = _sample_rate(model, trajectories, settings, reading, clock) / reading
    teraflops = FLOPS_PER_PARAMETER * planned.parameters * reading / 1e12
    return replace(planned.card, teraflops={"float32": teraflops}, reading=1.0, sampling=share)


def read_rate(model: LoadedModel, trajectories: pl.DataFrame, settings: Settings, clock: Clock) -> float:
    """Tokens of packed token trees that the model reads a second, as `answer_logprobs` packs them."""
    trajectories = trajectories.drop_nulls("gold_answer")
    scoring = settings.scoring.model_copy(update={"conditionings": settings.demand.conditionings or (PAPERS,)})
    negatives = hard_negatives(trajectories, None, settings.negatives, settings.seed).negatives
    rendered, _ = render_trajectories(join_negatives(trajectories, negatives), scoring)
    tokenized = tokenize_trajectories(rendered, model.tokenizer, model.context_length, scoring.layout)
    reader, trees = labeler_reader(model, scoring), [answers.tree for answers in trees_of(tokenized.trajectories)]
    if not trees:
        raise ModelError(f"none of the first {trajectories.height:,} trajectories with a gold answer can be read")

    def read(size: int) -> float:
        return sum(values.forward_tokens for values in reader.read([(trees[:size], 0)]))

    return rate(read, len(trees), clock)


def _sample_rate(
    model: LoadedModel, trajectories: pl.DataFrame, settings: Settings, reading: float, clock: Clock
) -> float:
    """Tokens that the model samples a second after prefixes, without the time of reading these."""
    from cpmi_dagster.generation.transformers_engine import TransformersEngine

    rollouts = settings.rollouts
    engine, count = TransformersEngine(model, rollouts.batch_sequences), rollouts.policy_count
    prompts = list(dict.fromkeys(prefix.prompt for prefix in prefixes_of(trajectories, 1)))
    sampling = rollouts.sampling.model_copy(update={"max_new_tokens": SHORT_TEXT})
    spent = 0.0

    def sample(size: int) -> float:
        nonlocal spent
        _, cost = timed_generate(engine, prompts[:size], Draws(sampling, count, settings.seed))
        spent = (cost.forward_tokens - cost.generated_tokens) / reading
        return cost.generated_tokens

    engine.prepare()
    return rate(sample, min(len(prompts), max(1, rollouts.batch_sequences // count)), clock, lambda: spent)


def rate(
    work: Callable[[int], float], most: int, clock: Clock = time.perf_counter, other: Callable[[], float] = lambda: 0.0
) -> float:
    """The tokens a second of the largest size that is reached in `SECONDS`; sizes are 1, 2, 4, …, at most `most`.

    Args:
        work: does work of a size, and returns its tokens.
        other: seconds of the last work that were spent on something else; at most half of them are left out.
    """
    size, began = 1, clock()
    while True:
        start = clock()
        tokens = work(size)
        taken, over = clock() - start, clock() - began >= SECONDS
        if over or size >= most:
            return max(tokens, 1.0) / max(taken - min(other(), taken / 2), 1e-9)
        size = min(2 * size, most)
