"""Hidden states of a frozen backbone at the end of each step: read once, and every reward head learns from them.

in   trajectory_id  question       steps
     t000000017     What is ...    [First, ..., Then ...]
out  trajectory_id  step_index  feature
     t000000017     0           [0.31, -1.20, …]     as many numbers as the backbone is wide
     t000000017     1           [0.28, 0.44, …]

A head on these states gives what the whole reward model would: only the head is trained.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoConfig

from cpmi_dagster.errors import ModelError, ScoringError
from cpmi_dagster.models.attention import check_causal
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.safe_loading import DATA_ONLY, reading_model
from cpmi_dagster.prm.inputs import EncodedSolution, encode_solutions
from cpmi_dagster.prm.model import RewardHead, RewardModelConfig, StepLogits
from cpmi_dagster.prm.scoring import StepReader, probabilities, read_steps

SMALLEST_DEVIATION = 1e-6


def step_features(
    model: LoadedModel,
    solutions: pl.DataFrame,
    batch_tokens: int,
    max_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """The backbone's last hidden state at the last token of every step.

    Args:
        model: a language model; its decoder is read, not its language-model head.
        solutions: as for `scoring.score_steps`.
        batch_tokens: most tokens that are read at once, padding included.
        max_tokens: whole steps past this many tokens, or past the model's context, are left out, as in training;
            without it a longer solution is an error.
        progress: called with the number of solutions just read.

    Returns:
        The other columns of `solutions`, `step_index` and `feature`, a list of float32.

    Raises:
        ModelError: the model has no decoder, or one that reads later tokens at earlier ones.
        ScoringError: a solution is longer than the model's context, or a state is not finite.
    """
    decoder: Any = model.model.base_model
    if decoder is model.model:
        raise ModelError(f"{model.identity} has no decoder that a reward head fits on; choose another models.backbone")
    check_causal(decoder, model.identity)
    limit = None if max_tokens is None else min(max_tokens, model.context_length)
    encode = partial(encode_solutions, model.tokenizer, max_tokens=limit)
    reader = StepReader(decoder, encode, model.identity, model.context_length)
    return read_steps(reader, solutions, "feature", Tensor.float, batch_tokens, progress)


def encoded_features(examples: pl.DataFrame, features: pl.DataFrame) -> list[EncodedSolution]:
    """Solutions whose steps have been read already, one for each example in its order.

    Args:
        examples: trajectory_id, steps.
        features: trajectory_id, step_index, feature; steps that did not fit are not there, and count as truncated.

    """
    own = features.join(examples, on="trajectory_id", how="semi").sort("trajectory_id", "step_index")
    if own.is_empty():
        return [EncodedSolution([], [], count, torch.empty(0, 0)) for count in examples["steps"].list.len()]
    states, counts = _states(own), own.group_by("trajectory_id", maintain_order=True).len()
    known = dict(zip(counts["trajectory_id"], states.split(counts["len"].to_list()), strict=True))
    solutions = []
    for name, count in examples.select("trajectory_id", pl.col("steps").list.len()).iter_rows():
        kept = known.get(name, states[:0])
        solutions.append(EncodedSolution([], list(range(len(kept))), count - len(kept), kept))
    return solutions


def check_read(solutions: pl.DataFrame, features: pl.DataFrame, key: list[str], table: str) -> None:
    """Refuse hidden states that do not cover the solutions.

    Args:
        solutions: the key's columns, steps.
        features: the key's columns, and a row a step.
        table: what is computed again.

    Raises:
        ScoringError: none of a solution's steps has been read.
    """
    has_steps = solutions.filter(pl.col("steps").list.len() > 0)
    missing = has_steps.join(features, on=key, how="anti", nulls_equal=True, maintain_order="left")
    if not missing.is_empty():
        name = " ".join(str(part) for part in missing.select(key).row(0) if part is not None)
        raise ScoringError(
            f"`{name}` and {missing.height - 1:,} other solutions have no hidden states; run `cpmi run --only {table} "
            "--force`"
        )


class HeadOnStates(nn.Module):
    """A reward head that learns from hidden states, standardised by what it trains on.

    Backbones differ in how large their states are; with this one learning rate suits them all. `folded` puts the
    standardisation into the head's first layer.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, head: RewardHead, examples: list[EncodedSolution]) -> None:
        super().__init__()
        states = torch.cat(
            [example.states for example in examples if example.states is not None and len(example.states)]
        )
        self.head = head
        self.register_buffer("mean", states.mean(0))
        self.register_buffer("deviation", states.std(0, correction=0).clamp_min(SMALLEST_DEVIATION))

    def forward(self, states: Tensor) -> StepLogits:
        """Hidden states (solutions, steps, hidden size) -> logits (solutions, steps)."""
        return StepLogits(logits=self.head((states - self.mean) / self.deviation).float())

    @torch.no_grad()
    def folded(self) -> RewardHead:
        """The head that gives the same logits for states as they are; the head is changed in place."""
        first = self.head.output if self.head.is_linear else self.head.hidden
        first.weight.div_(self.deviation)
        first.bias.sub_(first.weight @ self.mean)
        return self.head


def load_reward_head(folder: Path) -> RewardHead:
    """The head of a trained reward model, without its backbone.

    Raises:
        ModelError: the folder holds no reward model.
    """
    with reading_model(f"the reward model in {folder}"):
        config = AutoConfig.from_pretrained(folder, **DATA_ONLY)
        if not isinstance(config, RewardModelConfig):
            raise ModelError(f"{folder} holds no reward model as training writes it")
        weights: dict[str, Tensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as stored:
                names = [name for name in stored.keys() if name.startswith("head.")]  # noqa: SIM118
                weights |= {name.removeprefix("head."): stored.get_tensor(name) for name in names}
        head = RewardHead(config).to(next(iter(weights.values())).dtype)
        head.load_state_dict(weights)
    return head.eval()


@torch.inference_mode()
def score_features(head: RewardHead, features: pl.DataFrame) -> pl.DataFrame:
    """The probability that each step is right: the rows of `step_features`, with `probability` for `feature`."""
    if features.is_empty():
        return features.select(pl.exclude("feature"), probability=pl.lit(None, pl.Float64))
    scores = probabilities(head(_states(features).to(head.output.weight.dtype)))
    return features.drop("feature").with_columns(probability=pl.Series(scores.numpy()))


def _states(features: pl.DataFrame) -> Tensor:
    """The hidden states of a frame that has rows, (rows, hidden size)."""
    width = features["feature"].list.len()[0]
    return torch.tensor(features["feature"].list.to_array(width).to_numpy())
