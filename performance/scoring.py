"""Compares the token-tree scorer with lm-evaluation-harness and the released procedure on the same answers.

    python performance/scoring.py                                   some minutes on two cores
    python performance/scoring.py --trajectories 6 --repeats 3
    python performance/scoring.py --throughput --device cuda --shape qwen3-8b --dtype bfloat16 --trajectories 400

    three conditionings          tokens   seconds       seconds / tree   largest difference
    tree                          7,708   8.2, 8.1                1.00              4.3e-06
    released                    298,012   155.0                   19.0              5.1e-06

Questions and steps are ProcessBench's (GSM8K and MATH), with four hard negatives and four templates. Without `--data`
and without a folder `shared/data` beside the repository, they are of the embedded world. Differences are from the
reference scorer, on the first trajectory.
"""

import argparse
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import torch
from rich.console import Console
from rich.table import Table
from scoring_contestants import (
    RELEASED_BATCH,
    Harness,
    Logprobs,
    TokenMeter,
    distinct_tokens,
    released,
    requests_of,
    tree,
)
from scoring_workload import (
    NEGATIVES,
    QWEN_VOCABULARY,
    SHAPES,
    byte_level_bpe,
    negatives_of,
    random_model,
    read_trajectories,
    representative,
)

from cpmi_dagster.contracts.contexts import Conditioning
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.settings import Scoring

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
ROUNDS: dict[str, tuple[Conditioning, ...]] = {
    "three conditionings": ("marginal", "incremental", "prefix"),
    "marginal alone": ("marginal",),
}
TEMPLATES, HARNESS_BATCHES = 4, (4, RELEASED_BATCH)
QUICK_SECONDS, QUICK_REPEATS = 20.0, 2
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
FULL_SET, WARM_UP, MATRIX_RUNS = 80_000, 16, 20
MATRIX = {"cuda": 8192, "cpu": 1024}
logger = logging.getLogger(__name__)


@dataclass
class Measured:
    """A contestant's runs: seconds of each, what went through the model in the last, and its values."""

    meter: TokenMeter
    seconds: list[float] = field(default_factory=list)
    logprobs: Logprobs = field(default_factory=dict)

    @property
    def best(self) -> float:
        """Seconds of the fastest run."""
        return min(self.seconds)


def compare(
    model: LoadedModel, contestants: dict[str, Callable[[], Logprobs]], repeats: int, clock: str
) -> dict[str, Measured]:
    """Run the contestants in turn for some rounds, and quick ones a few times more.

    Args:
        clock: key of `CLOCKS`; processor seconds are steadier on a busy machine, with one thread.
    """
    now, measured = CLOCKS[clock], {name: Measured(TokenMeter(model.model)) for name in contestants}
    for turn in range(repeats + QUICK_REPEATS):
        for name, run in contestants.items():
            result = measured[name]
            if turn >= repeats and result.best > QUICK_SECONDS:
                continue
            with TokenMeter(model.model) as result.meter:
                began = now()
                result.logprobs = run()
                wait(model.device)
                result.seconds.append(now() - began)
            logger.info("  %-20s run %d: %8.2f s, %9d tokens", name, turn + 1, result.seconds[-1], result.meter.tokens)
    return measured


def largest_difference(values: Logprobs, other: Logprobs) -> float:
    """Largest difference of two values with the same key, in nats, over the keys of `other`."""
    return max(abs(values[key] - value) for key, value in other.items())


def round_of(title: str, model: LoadedModel, trajectories: pl.DataFrame, options: argparse.Namespace) -> Table:
    """A round of every contestant, as a table."""
    scoring = Scoring(templates=TEMPLATES, conditionings=ROUNDS[title])
    negatives = negatives_of(trajectories, NEGATIVES, options.seed)
    requests = requests_of(trajectories, negatives, model.tokenizer, scoring)
    reference = tree(model, trajectories.head(1), negatives, scoring.model_copy(update={"scorer": "reference"}))
    tree(model, trajectories.head(1), negatives, scoring)  # tries its readers, once a model
    harnesses = {f"harness, batch {batch}": Harness(model, batch) for batch in HARNESS_BATCHES}
    contestants: dict[str, Callable[[], Logprobs]] = {
        "tree": lambda: tree(model, trajectories, negatives, scoring),
        "released": lambda: released(model, requests),
        **{name: lambda harness=harness: harness(requests) for name, harness in harnesses.items()},
    }
    measured = compare(model, contestants, options.repeats, options.clock)
    ours, distinct = measured["tree"], distinct_tokens(requests)
    over = f"the tree computes {ours.meter.tokens / distinct:.3f} times its {distinct:,} distinct tokens"
    table = Table(title=f"{title}, {trajectories.height} trajectories: {over}", title_justify="left")
    for heading in ("scorer", "tokens", "seconds", "seconds / tree", "largest difference"):
        table.add_column(heading, justify="left" if heading == "scorer" else "right")
    for name, result in measured.items():
        seconds, times = ", ".join(f"{each:.2f}" for each in result.seconds), f"{result.best / ours.best:.2f}"
        table.add_row(
            name,
            f"{result.meter.tokens:,}",
            seconds,
            times,
            f"{largest_difference(result.logprobs, reference):.1e} nats",
        )
    return table


def wait(device: torch.device) -> None:
    """Wait until the device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def matrix_rate(model: LoadedModel) -> float:
    """Operations per second of a large matrix product in the model's precision."""
    size = MATRIX[model.device.type]
    left, right = (torch.randn(size, size, device=model.device, dtype=model.model.dtype) for _ in range(2))
    torch.matmul(left, right)
    wait(model.device)
    began = time.perf_counter()
    for _ in range(MATRIX_RUNS):
        torch.matmul(left, right)
    wait(model.device)
    return MATRIX_RUNS * 2 * size**3 / (time.perf_counter() - began)


def operations(model: LoadedModel, meter: TokenMeter) -> float:
    """Two operations for each parameter and token, and for each weight of the projection and projected position.

    Attention is left out, so that a share of the matrix rate is a lower bound.
    """
    outer: tuple[Any, Any] = model.model.get_input_embeddings(), model.model.get_output_embeddings()
    embedding, projection = (layer.weight.numel() for layer in outer)
    body = sum(weight.numel() for weight in model.model.parameters()) - embedding - projection
    return 2.0 * (body * meter.tokens + projection * meter.projected)


def throughput(model: LoadedModel, trajectories: pl.DataFrame, options: argparse.Namespace) -> None:
    """Log the tree scorer's share of the matrix rate and hours for 80,000; the released procedure on a few."""
    scoring, rate = Scoring(templates=TEMPLATES, conditionings=ROUNDS["three conditionings"]), matrix_rate(model)
    logger.info("matrix rate of %s in %s: %.1f TFLOP/s", model.device, model.model.dtype, rate / 1e12)
    few, values = trajectories.head(options.released_trajectories), []
    runs = (("warm-up", trajectories.head(WARM_UP)), ("tree", trajectories), ("tree, few", few), ("released", few))
    for name, rows in runs:
        negatives = negatives_of(rows, NEGATIVES, options.seed)
        requests = requests_of(rows, negatives, model.tokenizer, scoring)
        with TokenMeter(model.model) as meter:
            began = time.perf_counter()
            values.append(released(model, requests) if name == "released" else tree(model, rows, negatives, scoring))
            wait(model.device)
            seconds = time.perf_counter() - began
        logger.info(
            "%s: %d trajectories, %d tokens, %.1f s, %.2f trajectories/s, %.0f %% of the matrix rate, %.2f h for all",
            name, rows.height, meter.tokens, seconds, rows.height / seconds,
            100 * operations(model, meter) / seconds / rate, FULL_SET / rows.height * seconds / 3600,
        )  # fmt: skip
    logger.info("largest difference of the last two: %.1e nats", largest_difference(values[-1], values[-2]))


def main() -> None:
    """Print the rounds, or the throughput of one device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with GSM8K, MATH and ProcessBench")
    parser.add_argument("--trajectories", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2, help="rounds; the fastest of each contestant counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vocabulary", type=int, default=4096, help="tokens of the trained byte-level BPE")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="25m")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    parser.add_argument("--throughput", action="store_true", help="one device at full size instead")
    parser.add_argument("--released-trajectories", type=int, default=16, help="of --throughput, the released way")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    torch.set_num_threads(options.threads)
    data = options.data or (SHARED_DATA if SHARED_DATA.is_dir() else None)
    logger.info("problems of %s", data or "the embedded world, for there is no --data: shorter than real ones")
    trajectories, texts = read_trajectories(data)
    tokenizer = byte_level_bpe(texts, options.vocabulary, "gsm8k+math" if data else "embedded world")
    vocabulary = QWEN_VOCABULARY if options.shape == "qwen3-8b" else len(tokenizer)
    model = random_model(options.shape, tokenizer, vocabulary, options.device, options.dtype)
    if options.throughput:
        throughput(
            model, trajectories.sample(min(options.trajectories, trajectories.height), seed=options.seed), options
        )
        return
    chosen = representative(trajectories, tokenizer, options.trajectories, options.seed)
    for title in ROUNDS:
        Console(width=140).print(round_of(title, model, chosen, options))


if __name__ == "__main__":
    main()
