"""The tree scorer at full size on one device: share of its matrix rate, trajectories a second, the whole set.

    python performance/scoring.py --throughput --device cuda --shape qwen3-8b --dtype bfloat16 --trajectories 2000

The matrix rate is that of one large product in the model's type, measured first. A forward pass is counted as two
operations per parameter of the body and token, and per weight of the projection and position projected; attention is
left out, so the share errs on the low side.
"""

import logging
import time
from dataclasses import dataclass

import polars as pl
import torch
from scoring_comparison import largest_difference
from scoring_contestants import Logprobs, released, tree
from scoring_meter import ForwardMeter
from scoring_models import body_parameters, projection_parameters
from scoring_sequences import pieces_of, requests_of
from scoring_workload import negatives_of

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.settings import Scoring

FULL_SET = 80_000
MATRIX = {"cuda": 8192, "cpu": 1024}
MATRIX_RUNS = 20
WARM_UP = 16
PROFILE_LINES = 14
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Throughput:
    """One way to score on one device.

    Attributes:
        trajectories: how many were scored.
        seconds: wall time of all of it.
        forward_seconds: of that, in the model.
        tokens: through the model, padding included.
        operations: multiplications and additions of its linear layers.
        logprobs: log p of every target.
    """

    trajectories: int
    seconds: float
    forward_seconds: float
    tokens: int
    operations: float
    logprobs: Logprobs

    @property
    def full_set_hours(self) -> float:
        """Hours for the whole set at this rate."""
        return FULL_SET / self.trajectories * self.seconds / 3600


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of one large matrix product."""
    size = MATRIX[device.type]
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    torch.matmul(left, right)
    wait(device)
    began = time.perf_counter()
    for _ in range(MATRIX_RUNS):
        torch.matmul(left, right)
    wait(device)
    return MATRIX_RUNS * 2 * size**3 / (time.perf_counter() - began)


def measure(model: LoadedModel, trajectories: pl.DataFrame, scoring: Scoring, seed: int, tree_way: bool) -> Throughput:
    """Score trajectories with the tree scorer or the released procedure.

    Args:
        model: on its device.
        trajectories: columns trajectory_id, question, steps, gold_answer.
        scoring: templates and conditionings.
        seed: of the negatives.
        tree_way: which of the two.
    """
    negatives = negatives_of(trajectories, 4, seed)
    pieces = pieces_of(trajectories, negatives, model.tokenizer, scoring.templates, scoring.conditionings)
    with ForwardMeter(model.model) as meter:
        began = time.perf_counter()
        logprobs = tree(model, trajectories, negatives, scoring) if tree_way else released(model, requests_of(pieces))
        wait(model.device)
        seconds = time.perf_counter() - began
    body, projection = body_parameters(model), projection_parameters(model)
    operations = 2.0 * (body * meter.tokens + projection * meter.projected)
    return Throughput(trajectories.height, seconds, meter.seconds, meter.tokens, operations, logprobs)


def report(
    model: LoadedModel, trajectories: pl.DataFrame, released_trajectories: int, scoring: Scoring, seed: int
) -> None:
    """Log rate, share, trajectories a second, the whole set's hours, the released procedure beside it, a profile."""
    rate = matrix_rate(model.device, model.model.dtype)
    logger.info("matrix rate of %s in %s: %.1f TFLOP/s", model.device, model.model.dtype, rate / 1e12)
    few = trajectories.head(released_trajectories)
    measure(model, trajectories.head(min(WARM_UP, trajectories.height)), scoring, seed, tree_way=True)
    ours = measure(model, trajectories, scoring, seed, tree_way=True)
    ours_few = measure(model, few, scoring, seed, tree_way=True)
    theirs = measure(model, few, scoring, seed, tree_way=False)
    for name, one in (("tree", ours), ("tree, as many as released", ours_few), ("released", theirs)):
        _log_line(name, one, rate)
    times = theirs.seconds / ours_few.seconds
    difference = largest_difference(ours_few.logprobs, theirs.logprobs)
    logger.info(
        "released / tree on the same %d: %.1f x seconds; largest difference %.1e nats", few.height, times, difference
    )
    logger.info("%s", _profile(model, few, scoring, seed))


def _log_line(name: str, one: Throughput, rate: float) -> None:
    logger.info(
        "%s: %d trajectories, %d tokens, %.1f s (%.1f %% in the model), %.2f trajectories/s, %.0f %% of the matrix "
        "rate in the model, %d trajectories would take %.2f hours",
        name,
        one.trajectories,
        one.tokens,
        one.seconds,
        100 * one.forward_seconds / one.seconds,
        one.trajectories / one.seconds,
        100 * one.operations / one.forward_seconds / rate,
        FULL_SET,
        one.full_set_hours,
    )


def _profile(model: LoadedModel, trajectories: pl.DataFrame, scoring: Scoring, seed: int) -> str:
    from torch.profiler import ProfilerActivity, profile

    on_gpu = model.device.type == "cuda"
    negatives = negatives_of(trajectories, 4, seed)
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as taken:
        tree(model, trajectories, negatives, scoring)
        wait(model.device)
    order = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    return taken.key_averages().table(sort_by=order, row_limit=PROFILE_LINES, max_name_column_width=50)
