"""Heads on a frozen backbone: hidden states at the ends of steps are computed once, and every head learns from them.

in   trajectory_id  question       steps
     t000000017     What is ...    [First, ..., Then ...]
out  trajectory_id  step_index  feature
     t000000017     0           [0.31, -1.20, …]     (hidden size)
     t000000017     1           [0.28, 0.44, …]
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl
import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoConfig

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.safe_loading import DATA_ONLY, reading_model
from cpmi_dagster.prm.examples import LabelledSolution
from cpmi_dagster.prm.inputs import encode_solutions, pad_rows
from cpmi_dagster.prm.model import RewardHead, RewardModelConfig, decoder_of
from cpmi_dagster.prm.scoring import StepReader, probabilities, read_steps

STATES = "hidden states"
"""Key in `LoadedModel.remembered` of the decoder and of what is known about reading it."""
SMALLEST_DEVIATION = 1e-6


def step_features(
    model: LoadedModel,
    solutions: pl.DataFrame,
    batch_tokens: int,
    max_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> pl.DataFrame:
    """The last hidden state of a model's decoder at the last token of every step.

    Args:
        solutions: as for `scoring.score_steps`.
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
    if STATES not in model.remembered:
        model.remembered[STATES] = decoder_of(model), {}
    decoder, remembered = model.remembered[STATES]
    limit = None if max_tokens is None else min(max_tokens, model.context_length)
    encode = partial(encode_solutions, model.tokenizer, max_tokens=limit)
    reader = StepReader(decoder, encode, model.identity, model.context_length, remembered=remembered)
    return read_steps(reader, solutions, "feature", Tensor.float, batch_tokens, progress)


def states_of(examples: pl.DataFrame, features: pl.DataFrame) -> list[Tensor]:
    """Hidden states of each example, (steps that fit, hidden size)."""
    wanted = features.join(examples, on="trajectory_id", how="semi").sort("trajectory_id", "step_index")
    states, counts = _states(wanted), wanted.group_by("trajectory_id", maintain_order=True).len()
    known = dict(zip(counts["trajectory_id"], states.split(counts["len"].to_list()), strict=True))
    return [known.get(name, states[:0]) for name in examples["trajectory_id"]]


class StateScale(NamedTuple):
    """Mean and standard deviation of hidden states, (hidden size): standardised, one learning rate fits all backbones.

    At the end of a training, `fold_into` has the head read states as they are.
    """

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, examples: Sequence[LabelledSolution]) -> "StateScale":
        """The scale of all steps of some examples."""
        states = torch.cat([example.encoded for example in examples])
        return cls(states.mean(0), states.std(0, correction=0).clamp_min(SMALLEST_DEVIATION))

    def collate(self, examples: Sequence[LabelledSolution]) -> dict[str, Tensor]:
        """Pad standardised states to a batch of a head's input, `step_mask` and `labels`."""
        states = pad_sequence([(each.encoded - self.mean) / self.deviation for each in examples], batch_first=True)
        labels, step_mask = pad_rows([example.labels for example in examples], torch.float32)
        return {"states": states, "step_mask": step_mask, "labels": labels}

    @torch.no_grad()
    def fold_into(self, head: RewardHead) -> None:
        """Change the first layer of a head in place, so that it standardises."""
        first = head.output if head.is_linear else head.hidden
        first.weight.div_(self.deviation.to(first.weight.device))
        first.bias.sub_(first.weight @ self.mean.to(first.weight.device))


def load_reward_head(folder: Path) -> RewardHead:
    """Load the head of a trained reward model without its backbone.

    Raises:
        ModelError: the folder holds no reward model.
    """
    with reading_model(f"the reward model in {folder}"):
        config = AutoConfig.from_pretrained(folder, **DATA_ONLY)
        if not isinstance(config, RewardModelConfig):
            raise ModelError(f"{folder} holds no reward model as training writes it")
        head = RewardHead(config)  # float32, as saved
        weights: dict[str, Tensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as stored:
                names = [name for name in stored.keys() if name.startswith("head.")]  # noqa: SIM118
                weights |= {name.removeprefix("head."): stored.get_tensor(name) for name in names}
        head.load_state_dict(weights)
    return head.eval()


@torch.inference_mode()
def score_features(head: RewardHead, features: pl.DataFrame) -> pl.DataFrame:
    """The probability that each step is right: rows of `step_features`, with `probability` for `feature`."""
    states = _states(features) if features.height else torch.empty(0, head.output.in_features)
    return features.drop("feature").with_columns(probability=pl.Series(probabilities(head(states)).numpy()))


def _states(features: pl.DataFrame) -> Tensor:
    """The hidden states of a frame, (rows, hidden size)."""
    width = len(features["feature"][0]) if features.height else 0
    return torch.tensor(features["feature"].explode().to_numpy()).reshape(features.height, width)
