"""Candidate solutions of a question set, from which best-of-N chooses.

question "What is 2 + 3?"  →  "2 + 3 = 5\\nThe answer is: 5\\n"
steps ["2 + 3 = 5", "The answer is: 5"], answer "5", correct
"""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.benchmarks.choices import grade_answer
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.contracts.tables import CandidateSolutions
from cpmi_dagster.generation.engine import Generation, RolloutEngine, timed_generate
from cpmi_dagster.generation.monte_carlo import graded
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.trajectories.templates import render_question

PROBLEMS_PER_CALL = 128
SCHEMA = CandidateSolutions.create_empty().schema


def sample_candidates(
    problems: pl.DataFrame,
    engine: RolloutEngine,
    count: int,
    sampling: Sampling,
    seed: int,
    progress: Callable[[int], None] | None = None,
    comparison: Comparison = BUILT_IN,
) -> tuple[pl.DataFrame, Cost]:
    """Sample `count` solutions of every problem and grade their answers.

    Args:
        problems: rows of `sources.benchmark_problems` of one question set; `question` includes the choices.
        count: N.
        seed: same problems in the same order and same seed, same candidates.
        progress: called with the number of problems just finished.
        comparison: says which answers to open questions are the gold answer.

    Returns:
        Columns of `benchmarks.candidate_solutions`, ordered as the problems, then by candidate; and their cost. Steps
        are the solution's lines that are not empty.
    """
    candidates, cost = [pl.DataFrame(schema=SCHEMA)], Cost.zero()
    for part in problems.iter_slices(PROBLEMS_PER_CALL):
        prompts = [render_question(question) for question in part["question"]]
        part_seed = derived_seed(seed, [*part["benchmark"].unique(), *part["problem_id"]])
        generations, spent = timed_generate(engine, prompts, sampling, count, part_seed)
        candidates.append(_graded_candidates(part.to_dicts(), generations, comparison))
        cost += spent
        if progress:
            progress(part.height)
    return pl.concat(candidates), cost


def _graded_candidates(
    problems: Sequence[dict[str, Any]], generations: Sequence[Sequence[Generation]], comparison: Comparison
) -> pl.DataFrame:
    pairs = [(problem, one) for problem, group in zip(problems, generations, strict=True) for one in group]
    answers = [extract_answer(one.text, not one.truncated) for _, one in pairs]
    rows = [(each["choices"], each["answer"], answer) for (each, _), answer in zip(pairs, answers, strict=True)]
    # open questions are graded together, those with choices by the option meant
    open_rows = [(gold, answer) for choices, gold, answer in rows if not choices]
    verdicts = iter(graded([gold for gold, _ in open_rows], [answer for _, answer in open_rows], comparison))
    lines = [[line.strip() for line in one.text.splitlines()] for _, one in pairs]
    return pl.DataFrame(
        {
            "benchmark": [problem["benchmark"] for problem, _ in pairs],
            "problem_id": [problem["problem_id"] for problem, _ in pairs],
            "candidate": [number for group in generations for number in range(len(group))],
            "steps": [[line for line in own if line] for own in lines],
            "answer": answers,
            "correct": [
                grade_answer(gold, answer, choices) if choices else next(verdicts) for choices, gold, answer in rows
            ],
            "generated_tokens": [one.tokens for _, one in pairs],
            "truncated": [one.truncated for _, one in pairs],
        },
        schema=SCHEMA,
    )
