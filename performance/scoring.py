"""The token-tree scorer beside four other ways to score the same trajectories with the same model, in one run.

    python performance/scoring.py                                   a few minutes on two cores
    python performance/scoring.py --trajectories 6 --repeats 3
    python performance/scoring.py --throughput --device cuda --shape qwen3-8b --dtype bfloat16 --trajectories 2000

Questions and steps are real (ProcessBench-GSM8K and -MATH, gold answers from GSM8K and MATH), four hard negatives each,
four templates; the model is a randomly initialised Qwen3, for speed does not depend on what the weights are. Without
`--data` and without the folder of shared data beside the repository, problems of the embedded world take their place.
"""

import argparse
import logging
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import torch
from scoring_comparison import (
    CLOCKS,
    TEMPLATES,
    Measured,
    Workload,
    compare,
    comparison_table,
    largest_difference,
    plain_table,
)
from scoring_contestants import dense
from scoring_growth import growth, plot
from scoring_models import QWEN_VOCABULARY, SHAPES, random_model
from scoring_sample import load_workload, representative
from scoring_sequences import averages_of
from scoring_throughput import report
from scoring_workload import several_a_question
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.contracts.contexts import Conditioning
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.settings import Scoring

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
PLOT = REPOSITORY / "docs" / "scoring_cost.png"
MEMORY_SCRIPT = Path(__file__).with_name("scoring_memory.py")
MEMORY_ROW = 4096
DENSE_ROW = 512
ATTEMPTS = 5
THREE: tuple[Conditioning, ...] = ("marginal", "incremental", "prefix")
MARGINAL: tuple[Conditioning, ...] = ("marginal",)
FULL_SIZE = "qwen3-8b"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Figure:
    """A row of the last table: what was measured, and what it should be."""

    name: str
    value: float
    target: str

    def row(self) -> tuple[str, str, str]:
        """Texts of the row."""
        return self.name, f"{self.value:.3g}", self.target


def round_of(
    title: str, workload: Workload, names: tuple[str, ...], options: argparse.Namespace
) -> dict[str, Measured]:
    """Run contestants on a workload, log their table, and return what was measured."""
    averages = averages_of(workload.pieces)
    logger.info(
        "%s: %d trajectories; on average %.0f tokens of template and question, %.1f steps of %.0f tokens, targets of "
        "%.1f; %d sequences, %d distinct tokens, %.1f times fewer than one sequence each",
        title,
        averages.trajectories,
        averages.prompt,
        averages.steps,
        averages.step,
        averages.target,
        len(workload.requests),
        workload.distinct,
        workload.unpadded()["released"] / workload.distinct,
    )
    measured = compare(workload.model, workload.contestants(*names), options.repeats, options.clock)
    logger.info("%s", comparison_table(title, measured, workload.reference(), workload.unpadded()))
    return measured


def fastest(measured: dict[str, Measured], name: str) -> str:
    """The fastest contestant whose name starts so."""
    return min((key for key in measured if key.startswith(name)), key=lambda key: measured[key].best)


def times(measured: dict[str, Measured], name: str) -> float:
    """Its seconds in units of the tree's."""
    return measured[fastest(measured, name)].best / measured["tree"].best


def dense_ratio(workload: Workload, measured: dict[str, Measured], options: argparse.Namespace) -> float:
    """The tree's seconds per token in units of a dense pass's, in rows as long as its longest or in short ones."""
    now, meter = CLOCKS[options.clock], measured["tree"].meter
    seconds: list[float] = []
    for longest in (max(tokens for _, tokens in meter.rows), DENSE_ROW):
        for _ in range(options.repeats):
            began = now()
            dense(workload.model, meter, longest)
            seconds.append(now() - began)
            logger.info("  dense, rows of %d tokens: %.2f s", longest, seconds[-1])
    return measured["tree"].best / min(seconds)


def comparisons(
    model: LoadedModel, trajectories: pl.DataFrame, few: pl.DataFrame, options: argparse.Namespace
) -> list[Figure]:
    """The rounds and the figures that follow from them; `few` are those that get more attempts."""
    three = Workload(model, trajectories, THREE, options.seed)
    marginal = Workload(model, trajectories, MARGINAL, options.seed)
    several = Workload(model, several_a_question(few, ATTEMPTS, options.seed), THREE, options.seed)
    everyone = ("tree", "released", "harness", "cached")
    Workload(model, trajectories.head(1), MARGINAL, options.seed).tree()  # tries its readers once; not counted
    together = round_of("three conditionings together", three, everyone, options)
    ratio = dense_ratio(three, together, options)
    harness, cached = fastest(together, "harness"), fastest(together, "cached")
    alone = round_of("marginal alone", marginal, ("tree", "released", harness, cached), options)
    five = round_of(f"{ATTEMPTS} trajectories a question", several, ("tree", harness), options)
    differences = [
        largest_difference(one["tree"].logprobs or {}, workload.reference())
        for workload, one in ((three, together), (marginal, alone), (several, five))
    ]
    return [
        Figure("tokens computed / distinct tokens", together["tree"].meter.tokens / three.distinct, "<= 1.05"),
        Figure("released / tree, three together", times(together, "released"), ">= 18"),
        Figure("released / tree, marginal alone", times(alone, "released"), ">= 11"),
        Figure("harness / tree, three together", times(together, "harness"), ">= 7.5"),
        Figure(f"harness / tree, {ATTEMPTS} trajectories a question", times(five, "harness"), ">= 8.5"),
        Figure("cached prefix / tree, three together", times(together, "cached"), ">= 1.7"),
        Figure("seconds a token, tree / dense", ratio, "<= 1.25"),
        Figure("largest difference from the reference scorer, nats", max(differences), "<= 1e-4"),
        Figure("outside the model / total", 1 - together["tree"].forward_share, "<= 0.05"),
    ]


def measure_growth(trajectories: pl.DataFrame, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace) -> None:
    """Growth along each axis, and its plot."""
    shape = options.growth_shape
    logger.info("growth of one trajectory's cost (seconds: shape %s)", shape)
    counter, timed = (random_model(name, tokenizer, len(tokenizer)) for name in ("tiny", shape))
    points = growth(trajectories.head(1), counter, timed, options.clock, options.seed)
    plot(points, options.plot, f"Cost of labelling one trajectory (seconds: random Qwen3 of shape {shape}, CPU)")
    logger.info("plot: %s", options.plot)


def measure_memory(data: Path | None, options: argparse.Namespace) -> None:
    """Peak memory of a long row, measured in a process of its own."""
    place = ["--data", str(data)] if data else []
    sizes = ["--row-tokens", str(MEMORY_ROW), "--vocabulary", str(options.vocabulary)]
    subprocess.run([sys.executable, str(MEMORY_SCRIPT), *place, *sizes], check=True)


def throughput(trajectories: pl.DataFrame, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace) -> None:
    """The report of one device."""
    vocabulary = QWEN_VOCABULARY if options.shape == FULL_SIZE else len(tokenizer)
    model = random_model(options.shape, tokenizer, vocabulary, options.device, options.dtype)
    attempts = -(-options.trajectories // trajectories.height)
    drawn = several_a_question(trajectories, attempts, options.seed).head(options.trajectories)
    scoring = Scoring(templates=TEMPLATES, conditionings=THREE)
    report(model, drawn, options.released_trajectories, scoring, options.seed)


def parse_arguments() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with GSM8K, MATH and ProcessBench")
    parser.add_argument("--trajectories", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2, help="rounds; the fastest of each contestant counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vocabulary", type=int, default=4096, help="tokens of the trained byte-level BPE")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="25m")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    parser.add_argument("--only", choices=("comparison", "growth", "memory"), help="one part instead of all")
    parser.add_argument("--growth-shape", choices=sorted(SHAPES), default="1m")
    parser.add_argument("--plot", type=Path, default=PLOT)
    parser.add_argument("--throughput", action="store_true", help="one device at full size instead")
    parser.add_argument("--released-trajectories", type=int, default=16, help="of --throughput, the released way")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    return parser.parse_args()


def main() -> None:
    """Print the comparison, or the throughput of one device."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    data = options.data or (SHARED_DATA if SHARED_DATA.is_dir() else None)
    logger.info("problems of %s", data or "the embedded world, for there is no --data: shorter than real ones")
    trajectories, tokenizer = load_workload(data, options.vocabulary)
    if options.throughput:
        throughput(trajectories, tokenizer, options)
        return
    chosen = representative(trajectories, tokenizer, options.trajectories, options.seed)
    if options.only in (None, "memory"):
        measure_memory(data, options)
    if options.only in (None, "comparison"):
        model = random_model(options.shape, tokenizer, len(tokenizer), options.device, options.dtype)
        few = representative(trajectories, tokenizer, max(1, options.trajectories // 2), options.seed)
        figures = comparisons(model, chosen, few, options)
        logger.info("%s", plain_table("figures", ("figure", "measured", "target"), [one.row() for one in figures]))
    if options.only in (None, "growth"):
        measure_growth(chosen, tokenizer, options)


if __name__ == "__main__":
    main()
