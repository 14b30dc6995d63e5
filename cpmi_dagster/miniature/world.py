"""The embedded world: problems, attempts and benchmarks in the formats of the real sources, written to one folder.

    write_world(Path("world"), seed=0)
    world/math_shepherd.jsonl   world/gsm8k_train.jsonl   world/processbench_math.jsonl   …

The same seed and size give the same bytes. No question of the world occurs in its models' training text (held_out.py),
and no question occurs in two of its files, except that Math-Shepherd's are among the references, where they belong.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from cpmi_dagster.files.whole_files import write_whole
from cpmi_dagster.miniature.held_out import QuestionPool
from cpmi_dagster.miniature.logic_rows import VERDICTS, Verdict, folio_row, logicnli_row, logiqa2_row
from cpmi_dagster.miniature.question_rows import JsonRow, gsm8k_row, math500_row, math_row, mmlu_stem_row, omni_math_row
from cpmi_dagster.miniature.shepherd import all_attempts, shepherd_files
from cpmi_dagster.miniature.step_benchmarks import prmbench_rows, processbench_row
from cpmi_dagster.miniature.word_problems import HARD, LARGE, LONG

_NAMES = """
    math_shepherd step_truth gsm8k_train math_train
    gsm8k_test math500_test omni_math_test mmlu_stem_test
    folio_validation logiqa2_test logicnli_test
    processbench_gsm8k processbench_math processbench_olympiadbench processbench_omnimath prmbench
"""
WORLD_FILES: dict[str, str] = {name: f"{name}.jsonl" for name in _NAMES.split()}
WORLD_VERSION = 3
"""Raised where the same seed gives another world, so that a home does not keep the old one."""


@dataclass(frozen=True)
class WorldSize:
    """How much of everything the world holds.

    Attributes:
        shepherd_questions: Questions with attempts, half of each task.
        attempts: Attempts at each of them.
        too_hard: How many of those questions nobody solves.
        references: Reference problems, half of each task, Math-Shepherd's questions among them.
        processbench: Rows of each ProcessBench subset.
        prmbench: Rows of each PRMBench category, and a third of its questions.
        test_questions: Problems of each question set for best-of-N.
        logic_stories: Stories of LogicNLI, with eight statements each.
    """

    shepherd_questions: int = 160
    attempts: int = 5
    too_hard: int = 6
    references: int = 240
    processbench: int = 100
    prmbench: int = 20
    test_questions: int = 70
    logic_stories: int = 9


def world_rows(seed: int = 0, size: WorldSize | None = None) -> dict[str, list[JsonRow]]:
    """Every file's rows, by the keys of `WORLD_FILES`; the seed decides everything."""
    size = size or WorldSize()
    pool, rng = QuestionPool(seed), random.Random(seed + 1)
    # references, and Math-Shepherd's attempts at some of them
    gsm8k = pool.draw("GSM8K", size.references // 2)
    math = pool.draw("MATH", size.references - len(gsm8k))
    half = size.shepherd_questions // 2
    questions = rng.sample(gsm8k, half) + rng.sample(math, size.shepherd_questions - half)
    rows, truth = shepherd_files(all_attempts(questions, size.too_hard, size.attempts, rng), rng)
    # question sets
    count = size.test_questions
    words = pool.draw("GSM8K", count // 2) + pool.draw("GSM8K", count - count // 2, LONG)
    expressions, hard = pool.draw("MATH", count), pool.draw("MATH", count, HARD)
    mmlu = [mmlu_stem_row(problem, rng) for problem in rng.sample(pool.draw_both(count), count)]
    # step benchmarks
    subsets = {
        "gsm8k": pool.draw("GSM8K", size.processbench),
        "math": pool.draw("MATH", size.processbench),
        "olympiadbench": pool.draw("MATH", size.processbench, LARGE),
        "omnimath": pool.draw_both(size.processbench, LARGE),
    }
    processbench = {
        f"processbench_{subset}": [
            processbench_row(subset, number, problem, rng) for number, problem in enumerate(drawn)
        ]
        for subset, drawn in subsets.items()
    }
    prmbench = prmbench_rows(pool, size.prmbench, rng)
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
        "logicnli_test": [logicnli_row(number, logic) for number in range(size.logic_stories)],
    }


def write_world(folder: Path, seed: int = 0, size: WorldSize | None = None) -> None:
    """Write every file of the world into a folder, which is made if absent; the same seed and size, the same bytes."""
    for name, rows in world_rows(seed, size).items():
        write_whole(folder / WORLD_FILES[name], "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
