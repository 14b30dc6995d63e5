"""Values of each step of a solution by a reward model: its probability to be right, or the hidden state at its end.

in   benchmark         problem_id  question       steps
     processbench_math math-3      What is ...    [First, ..., Then ...]
out  benchmark         problem_id  step_index  probability
     processbench_math math-3      0           0.93
     processbench_math math-3      1           0.21

Hidden states of a frozen backbone are read once, and every head learns from them and scores them:

     trajectory_id     step_index  feature
     t000000017        0           [0.31, -1.20, …]     (hidden size)
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import torch
from torch import Tensor

from cpmi_dagster.contracts.seeded import uniform_number
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.prm.inputs import encode_solutions, validation_questions
from cpmi_dagster.prm.model import LoadedRewardModel, RewardHead, decoder_of, load_reward_head, load_reward_model
from cpmi_dagster.prm.settings import Training
from cpmi_dagster.prm.step_reader import StepReader, read_steps

STATES = "hidden states"
"""Key in `LoadedModel.cache` of the decoder and of what is known about reading it."""
MOST_SCORED = 2_000
"""Most solutions of a training set that are scored, as a large one takes long: those held out, then a random draw."""


def score_steps(
    model: LoadedRewardModel,
    solutions: pl.DataFrame,
    batch_tokens: int,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """Score every step of every solution; a common beginning of solutions is read once.

    Args:
        solutions: columns that identify a solution, `question` and `steps` (list of strings).
        batch_tokens: most tokens read at once; a longer solution is read alone.
        progress: called with the number of solutions just scored.

    Returns:
        The other columns of `solutions` in their order, `step_index` (from 0) and `probability` (in [0, 1]); one row
        per step, solutions in the order given. A solution without steps has no rows.

    Raises:
        ScoringError: a solution is longer than the model's context, or a score is not a finite number.
    """
    head = model.model.head

    def read(ends: Tensor) -> Tensor:
        return probabilities(head(ends.to(head.output.weight.dtype)))

    reader = StepReader(
        model.model.backbone, model.encode, model.identity, model.context_length, model.mark, model.cache
    )
    return read_steps(reader, solutions, "probability", read, batch_tokens, progress)


def probabilities(logits: Tensor) -> Tensor:
    """Convert logits to probabilities, float64."""
    return logits.float().double().sigmoid()


def step_features(
    model: LoadedModel,
    solutions: pl.DataFrame,
    batch_tokens: int,
    max_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """The last hidden state of a model's decoder at the last token of every step.

    Args:
        solutions: as for `score_steps`.
        batch_tokens: most tokens read at once, padding included.
        max_tokens: whole steps beyond this or the model's context are dropped, as in training; if None, a longer
            solution is an error.
        progress: called with the number of solutions just read.

    Returns:
        The other columns of `solutions`, `step_index` and `feature`, a list of float32.

    Raises:
        ModelError: the model has no decoder, or the decoder is not causal.
        ScoringError: a solution is longer than the model's context, or a state is not finite.
    """
    if STATES not in model.cache:
        model.cache[STATES] = decoder_of(model), {}
    decoder, cache = model.cache[STATES]
    limit = None if max_tokens is None else min(max_tokens, model.context_length)
    encode = partial(encode_solutions, model.tokenizer, max_tokens=limit)
    reader = StepReader(decoder, encode, model.identity, model.context_length, cache=cache)
    return read_steps(reader, solutions, "feature", Tensor.float, batch_tokens, progress)


@torch.inference_mode()
def score_features(head: RewardHead, features: pl.DataFrame) -> pl.DataFrame:
    """The probability that each step is right: rows of `step_features`, with `probability` for `feature`."""
    states = _states(features) if features.height else torch.empty(0, head.output.in_features)
    return features.drop("feature").with_columns(probability=pl.Series(probabilities(head(states)).numpy()))


def states_of(examples: pl.DataFrame, features: pl.DataFrame) -> list[Tensor]:
    """Hidden states of each example, (steps that fit, hidden size)."""
    wanted = features.join(examples, on="trajectory_id", how="semi").sort("trajectory_id", "step_index")
    states, counts = _states(wanted), wanted.group_by("trajectory_id", maintain_order=True).len()
    known = dict(zip(counts["trajectory_id"], states.split(counts["len"].to_list()), strict=True))
    return [known.get(name, states[:0]) for name in examples["trajectory_id"]]


def _states(features: pl.DataFrame) -> Tensor:
    """The hidden states of a frame, (rows, hidden size)."""
    width = len(features["feature"][0]) if features.height else 0
    return torch.tensor(features["feature"].explode().to_numpy()).reshape(features.height, width)


def training_set_scores(
    model: Path,
    examples: pl.DataFrame,
    training: Training,
    seed: int,
    features: pl.DataFrame | None,
    batch_tokens: int,
    device: str,
) -> pl.DataFrame:
    """Step probabilities of at most `MOST_SCORED` solutions, beside their soft labels.

    Args:
        model: folder of the trained model.
        examples, features: as for `train_reward_model`.
        seed: seed of the validation split, and of the draw.
        batch_tokens: most tokens read at once.

    Returns:
        trajectory_id, step_index, probability, label, held_out; without steps beyond `training.max_tokens`.
    """
    held_out = validation_questions(examples["question_id"], training.validation_share, seed)
    drawn = [uniform_number(seed, ["own_scores", name]) for name in examples["trajectory_id"]]
    marked = examples.with_columns(held_out=pl.col("question_id").is_in(list(held_out)), drawn=pl.Series(drawn))
    chosen = marked.sort(~pl.col("held_out"), "drawn").head(MOST_SCORED).sort("trajectory_id")
    if features is None:
        loaded = load_reward_model(model, device=device)
        limit = min(training.max_tokens, loaded.context_length)
        fitting = replace(loaded, encoder=partial(encode_solutions, max_tokens=limit))
        scores = score_steps(fitting, chosen.select("trajectory_id", "question", "steps"), batch_tokens)
    else:
        known = features.select("trajectory_id", "step_index", "feature")
        scores = score_features(load_reward_head(model), known.join(chosen, on="trajectory_id", how="semi"))
    labelled = scores.join(
        chosen.select("trajectory_id", "labels", "held_out"), on="trajectory_id", maintain_order="left"
    )
    return labelled.select(
        "trajectory_id",
        "step_index",
        "probability",
        pl.col("labels").list.get(pl.col("step_index")).alias("label"),
        "held_out",
    )
