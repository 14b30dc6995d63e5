"""Candidate solutions of a question set, from which best-of-N chooses.

question "What is 2 + 3?"  →  "2 + 3 = 5\\nThe answer is: 5\\n"
steps ["2 + 3 = 5", "The answer is: 5"], answer "5", correct
"""

from itertools import compress

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison
from cpmi_dagster.answers.extraction import extract_answer
from cpmi_dagster.benchmarks.choices import grade_answer
from cpmi_dagster.contracts.chunks import growing_slices
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.contracts.seeded import derived_seed
from cpmi_dagster.contracts.tables import CandidateSolutions
from cpmi_dagster.files.time_left import Advance, unseen
from cpmi_dagster.generation.engine import RolloutEngine, SamplingWork, timed_generate
from cpmi_dagster.generation.monte_carlo import grade
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
    progress: Advance = unseen,
    comparison: Comparison = BUILT_IN,
) -> tuple[pl.DataFrame, Cost]:
    """Sample `count` solutions of every problem and grade their answers.

    Args:
        problems: rows of `sources.benchmark_problems` of one question set; `question` includes the choices.
        count: N.
        seed: same question and same seed, same candidates, whatever the other problems are.
        progress: called with the number of problems just finished, and those of solutions sampled and left.
        comparison: says which answers to open questions are the gold answer.

    Returns:
        Columns of `benchmarks.candidate_solutions`, ordered as the problems, then by candidate; and their cost. Steps
        are the solution's lines that are not empty.
    """
    candidates, cost = [pl.DataFrame(schema=SCHEMA)], Cost.zero()
    work = SamplingWork({render_question(question): 1.0 for question in problems["question"]}, count, progress)
    for part in growing_slices(problems, PROBLEMS_PER_CALL):
        prompts = [render_question(question) for question in part["question"]]
        generations, spent = timed_generate(
            engine, prompts, sampling, count, derived_seed(seed, ["candidates"]), work=work
        )
        pairs = [(problem, each) for problem, group in zip(part.to_dicts(), generations, strict=True) for each in group]
        answers = [extract_answer(each.text, not each.truncated) for _, each in pairs]
        # open questions are graded together, those with choices by the option meant
        is_open = [not problem["choices"] for problem, _ in pairs]
        golds = [problem["answer"] for problem, _ in pairs]
        verdicts = iter(grade([*compress(golds, is_open)], [*compress(answers, is_open)], comparison))
        rows = [
            {
                "benchmark": problem["benchmark"],
                "problem_id": problem["problem_id"],
                "candidate": number % count,
                "steps": [step for line in solution.text.splitlines() if (step := line.strip())],
                "answer": answer,
                "correct": grade_answer(problem["answer"], answer, problem["choices"])
                if problem["choices"]
                else next(verdicts),
                "generated_tokens": solution.tokens,
                "truncated": solution.truncated,
            }
            for number, ((problem, solution), answer) in enumerate(zip(pairs, answers, strict=True))
        ]
        candidates.append(pl.DataFrame(rows, schema=SCHEMA))
        cost += spent
        work.finish(prompts, part.height)
    return pl.concat(candidates), cost
