"""The embedded world: problems, attempts and benchmarks in the formats of the real sources.

    python -m scripts.miniature_world.world cpmi_dagster/miniature/data
    math_shepherd.jsonl.gz   gsm8k_train.jsonl.gz   processbench_math.jsonl.gz   …

The seed decides every row. No question occurs in the training text of the world's models (held_out.py), and none in two
files, except that Math-Shepherd's questions are among the references.
"""

import argparse
import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

from cpmi_dagster.miniature.names import SUFFIX
from scripts.miniature_world.held_out import QuestionPool
from scripts.miniature_world.logic_rows import VERDICTS, Verdict, folio_row, logicnli_row, logiqa2_row
from scripts.miniature_world.question_rows import (
    JsonRow,
    gsm8k_row,
    math500_row,
    math_row,
    mmlu_stem_row,
    omni_math_row,
)
from scripts.miniature_world.shepherd import all_attempts, shepherd_files
from scripts.miniature_world.step_benchmarks import prmbench_rows, processbench_row
from scripts.miniature_world.word_problems import HARD, LARGE, LONG

SEED = 0
REFERENCES = 240
"""Half of each task, Math-Shepherd's questions among them."""
SHEPHERD_QUESTIONS = 160
"""Half of each task."""
TOO_HARD = 6
"""How many of those questions nobody solves."""
ATTEMPTS = 5
"""At each of them."""
TEST_QUESTIONS = 70
"""Of each question set for best-of-N."""
PROCESSBENCH = 100
"""Rows of each subset."""
PRMBENCH = 20
"""Rows of each category, and a third of its questions."""
LOGIC_STORIES = 9
"""Of LogicNLI, with eight statements each."""


def world_rows(seed: int = SEED) -> dict[str, list[JsonRow]]:
    """Every file's rows, by its name."""
    pool, rng = QuestionPool(seed), random.Random(seed + 1)
    # references, and Math-Shepherd's attempts at some of them
    gsm8k, math = (pool.draw(task, REFERENCES // 2) for task in ("GSM8K", "MATH"))
    questions = [problem for drawn in (gsm8k, math) for problem in rng.sample(drawn, SHEPHERD_QUESTIONS // 2)]
    rows, truth = shepherd_files(all_attempts(questions, TOO_HARD, ATTEMPTS, rng), rng)
    # question sets
    count = TEST_QUESTIONS
    words = pool.draw("GSM8K", count // 2) + pool.draw("GSM8K", count - count // 2, LONG)
    expressions, hard = pool.draw("MATH", count), pool.draw("MATH", count, HARD)
    mmlu = [mmlu_stem_row(problem, rng) for problem in rng.sample(pool.draw_both(count), count)]
    # step benchmarks
    subsets = {
        "gsm8k": pool.draw("GSM8K", PROCESSBENCH),
        "math": pool.draw("MATH", PROCESSBENCH),
        "olympiadbench": pool.draw("MATH", PROCESSBENCH, LARGE),
        "omnimath": pool.draw_both(PROCESSBENCH, LARGE),
    }
    processbench = {
        f"processbench_{subset}": [
            processbench_row(subset, number, problem, rng) for number, problem in enumerate(drawn)
        ]
        for subset, drawn in subsets.items()
    }
    prmbench = prmbench_rows(pool, PRMBENCH, rng)
    # logic sets, FOLIO and LogiQA 2.0 with the three verdicts in turn
    logic = random.Random(seed + 2)
    turns: list[Verdict] = [VERDICTS[number % len(VERDICTS)] for number in range(count)]
    return {
        "math_shepherd": rows,
        "step_truth": truth,
        "gsm8k_train": [gsm8k_row(problem) for problem in gsm8k],
        "math_train": [math_row(problem) for problem in math],
        "gsm8k_test": [gsm8k_row(problem) for problem in words],
        "math500_test": [math500_row(problem, number) for number, problem in enumerate(expressions)],
        "omni_math_test": [omni_math_row(problem) for problem in hard],
        "mmlu_stem_test": mmlu,
        **processbench,
        "prmbench": prmbench,
        "folio_validation": [folio_row(verdict, logic) for verdict in turns],
        "logiqa2_test": [logiqa2_row(number, verdict, logic) for number, verdict in enumerate(turns)],
        "logicnli_test": [logicnli_row(number, logic) for number in range(LOGIC_STORIES)],
    }


def json_lines(rows: Sequence[JsonRow]) -> bytes:
    """Rows as the text of a file."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def main() -> None:
    """Write every file; the same seed gives the same bytes."""
    parser = argparse.ArgumentParser(description="Write the files of the embedded world.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED, help="the package has the world of seed 0")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for name, rows in world_rows(chosen.seed).items():
        (chosen.folder / f"{name}{SUFFIX}").write_bytes(gzip.compress(json_lines(rows), mtime=0))


if __name__ == "__main__":
    main()
