"""Peak memory of a packed row above the weights, in a process of its own; Linux.

    python performance/scoring_memory.py --row-tokens 4096 --vocabulary 4096

The model has the 25m shape and a vocabulary of 151,936. The peak is the process's largest resident set while it
scores, less its resident set with the model loaded.
"""

import argparse
import gc
import logging
import re
from pathlib import Path

from scoring_contestants import tree
from scoring_meter import ForwardMeter
from scoring_models import QWEN_VOCABULARY, random_model
from scoring_sample import load_workload
from scoring_workload import negatives_of, several_a_question

from cpmi_dagster.scoring.settings import Scoring

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
ATTEMPTS = 8
logger = logging.getLogger(__name__)


def resident_bytes(name: str) -> int:
    """VmRSS (now) or VmHWM (largest so far) of this process."""
    found = re.search(rf"^{name}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    if not found:
        raise SystemExit(f"{STATUS} has no {name}; memory is measured on Linux only")
    return int(found[1]) * 1024


def main() -> None:
    """Score attempts at one question in a row of the size asked for and print the peak."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--row-tokens", type=int, default=4096)
    parser.add_argument("--shape", default="25m")
    arguments = parser.parse_args()
    trajectories, tokenizer = load_workload(arguments.data, arguments.vocabulary)
    attempts = several_a_question(trajectories.head(1), ATTEMPTS, 0)
    negatives = negatives_of(attempts, 4, 0)
    model = random_model(arguments.shape, tokenizer, QWEN_VOCABULARY)
    gc.collect()
    RESET.write_text(RESET_PEAK)
    before = resident_bytes("VmRSS")
    with ForwardMeter(model.model) as meter:
        tree(model, attempts, negatives, Scoring(row_tokens=arguments.row_tokens))
    peak = resident_bytes("VmHWM") - before
    longest = max(tokens * sequences for sequences, tokens in meter.rows)
    logger.info(
        "longest row %d tokens, vocabulary %d: peak above the weights %.2f GiB", longest, QWEN_VOCABULARY, peak / 2**30
    )


if __name__ == "__main__":
    main()
