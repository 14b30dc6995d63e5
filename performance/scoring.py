"""The token-tree scorer beside the reference scorer, in one run: tokens, seconds, ratios, largest difference.

Workload: questions with 6 steps, the gold answer and 4 negatives, K = 4 templates, the three conditionings that come
from one pass; a context and its answer have 450 tokens on average. The model is a randomly initialised Qwen3 of the
size asked for: speed does not depend on what the weights are.

    python performance/scoring.py --trajectories 1 --parameters 25
"""

import argparse
import logging
import time
from dataclasses import dataclass

import polars as pl
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from cpmi_dagster.language_models import LoadedModel, load_tokenizer, model_folder
from cpmi_dagster.scoring import answer_logprobs
from cpmi_dagster.settings import Scoring

QUESTION_WORDS, STEPS, STEP_WORDS = 40, 6, 13
SHAPES = {1: (128, 4), 25: (512, 8)}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Timing:
    """One scorer on the workload."""

    seconds: float
    tokens: int
    logprobs: pl.DataFrame


def workload(count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Trajectories and their negatives, each with a question of its own."""
    names = [f"t{number}" for number in range(count)]
    trajectories = pl.DataFrame(
        {
            "trajectory_id": names,
            "question_id": names,
            "question": [" ".join(f"apples {n}{word}" for word in range(QUESTION_WORDS)) for n in range(count)],
            "steps": [[" ".join(f"{s}{w} + {w}" for w in range(STEP_WORDS)) for s in range(STEPS)]] * count,
            "gold_answer": ["1234567"] * count,
        }
    )
    answers = ["1234568", "1234577", "1234667", "7654321"]
    rows = [(name, rank, answer, "given") for name in names for rank, answer in enumerate(answers, start=1)]
    return trajectories, pl.DataFrame(rows, schema=["trajectory_id", "rank", "answer", "source"], orient="row")


def random_model(millions: int) -> LoadedModel:
    """A Qwen3 of about that many million parameters with the miniature's tokenizer."""
    width, layers = SHAPES[millions]
    tokenizer = load_tokenizer(model_folder("miniature:labeler"))
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 64,
        head_dim=32,
    )
    torch.manual_seed(0)
    return LoadedModel(Qwen3ForCausalLM(config).eval(), tokenizer, "random", 32_768)


def measure(model: LoadedModel, scoring: Scoring, count: int) -> Timing:
    """Score the workload once."""
    trajectories, negatives = workload(count)
    began = time.perf_counter()
    scored = answer_logprobs(trajectories, negatives, model, scoring)
    return Timing(time.perf_counter() - began, scored.cost.forward_tokens, scored.logprobs)


def main() -> None:
    """Print the comparison."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=1)
    parser.add_argument("--parameters", type=int, choices=sorted(SHAPES), default=1, help="millions")
    arguments = parser.parse_args()
    model = random_model(arguments.parameters)
    measure(model, Scoring(), 1)
    tree = measure(model, Scoring(), arguments.trajectories)
    reference = measure(model, Scoring(scorer="reference"), arguments.trajectories)
    difference = (tree.logprobs["logprob_sum"] - reference.logprobs["logprob_sum"]).abs().max()
    for name, timing in (("tree", tree), ("reference", reference)):
        logger.info("%-10s %9d tokens %8.2f s", name, timing.tokens, timing.seconds)
    tokens, seconds = reference.tokens / tree.tokens, reference.seconds / tree.seconds
    logger.info(
        "reference / tree: %.1f x tokens, %.1f x seconds; largest difference %.1e nats", tokens, seconds, difference
    )


if __name__ == "__main__":
    main()
