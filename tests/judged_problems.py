"""Problems in their published forms and a judge's step probabilities, both from hashes: the same on every machine.

    probabilities("gsm8k-3", [False, True])  ->  [0.775, 0.225]     a right step, then a wrong one

Every probability is an odd multiple of 1/40, so the 21 multiples of 1/20 are all the thresholds there are.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from cpmi_dagster.benchmarks.processbench import AVERAGED
from cpmi_dagster.benchmarks.readers import CLASSIFICATIONS

LEVELS = 20
THRESHOLDS = tuple(level / LEVELS for level in range(LEVELS + 1))
Row = dict[str, Any]


def draw(*names: object, below: int) -> int:
    """A number from 0, the same for the same names."""
    digest = hashlib.sha256("\n".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:8], "big") % below


def probabilities(problem_id: str, wrong: Sequence[bool]) -> list[float]:
    """The higher of two draws for a right step, the lower for a wrong one."""
    levels = [
        (min if is_wrong else max)(draw(problem_id, step, "a", below=LEVELS), draw(problem_id, step, "b", below=LEVELS))
        for step, is_wrong in enumerate(wrong)
    ]
    return [(2 * level + 1) / (2 * LEVELS) for level in levels]


def processbench_probabilities(row: Row) -> list[float]:
    """Of a row in ProcessBench's published form."""
    return probabilities(row["id"], [0 <= row["label"] <= step for step in range(len(row["steps"]))])


def prmbench_id(row: Row) -> str:
    """Of a row in PRMBench's published form."""
    return f"{row['idx']}:{row['classification']}"


def prmbench_probabilities(row: Row) -> list[float]:
    """Of a row in PRMBench's published form, whose steps count from 1."""
    steps = range(1, len(row["modified_process"]) + 1)
    return probabilities(prmbench_id(row), [step in row["error_steps"] for step in steps])


def only_first_errors(row: Row) -> list[float]:
    """A judge of PRMBench rows that passes the first wrong step and flags all others."""
    first = min(row["error_steps"], default=0)
    return [0.9 if step == first else 0.1 for step in range(1, len(row["modified_process"]) + 1)]


def as_predictions(benchmark: str, names: Iterable[str], scores: Iterable[list[float]]) -> pl.DataFrame:
    """A judge's probabilities of named problems, as the metrics take them."""
    steps = [
        (name, index, value) for name, values in zip(names, scores, strict=True) for index, value in enumerate(values)
    ]
    frame = pl.DataFrame(steps, schema=["problem_id", "step_index", "probability"], orient="row")
    return frame.select(pl.lit(benchmark).alias("benchmark"), pl.all())


def made_up_processbench(count: int) -> dict[str, list[Row]]:
    """By subset of ProcessBench, solutions of 2 to 7 steps; half have an error."""
    return {subset: [_solution(f"{subset}-{number}") for number in range(count)] for subset in AVERAGED}


def made_up_prmbench(count: int) -> list[Row]:
    """Solutions of 3 to 8 steps in every category; some `error_steps` point past the end."""
    names = [(f"made_up_{number}", kind) for number in range(count) for kind in CLASSIFICATIONS]
    return [_modified(index, kind) for index, kind in names]


def _solution(name: str) -> Row:
    steps = 2 + draw(name, "steps", below=6)
    label = draw(name, "label", below=steps) if draw(name, "error", below=2) else -1
    return {"id": name, "problem": f"problem of {name}", "steps": ["step"] * steps, "label": label}


def _modified(index: str, kind: str) -> Row:
    steps = 3 + draw(index, kind, "steps", below=6)
    first = 1 + draw(index, kind, "first", below=steps)
    wrong = [] if kind == "multi_solutions" else [first, *range(first + 1, first + draw(index, kind, "more", below=4))]
    return {
        "idx": index,
        "classification": kind,
        "modified_question": f"question of {index}",
        "modified_process": ["step"] * steps,
        "error_steps": wrong,
    }
