r"""ProcessBench rows: a solution and the index of its first wrong step, -1 if it has none.

{"id": "gsm8k-0", "generator": "miniature-solver-2", "problem": "Ana has 48 shells …",
 "steps": ["At first Ana has …", "… The answer is $\\boxed{11}$."], "final_answer_correct": false, "label": 1}
"""

import random

from cpmi_dagster.miniature.plans import Problem
from cpmi_dagster.miniature.question_rows import JsonRow
from cpmi_dagster.miniature.slips import make_mistake
from cpmi_dagster.miniature.solutions import solve

GENERATORS = ("miniature-solver-1", "miniature-solver-2", "miniature-solver-3")


def processbench_row(subset: str, number: int, problem: Problem, rng: random.Random) -> JsonRow:
    """One solution, wrong in every second row."""
    solution = make_mistake(problem, rng) if number % 2 == 0 else solve(problem, rng)
    last = rf"{solution.steps[-1]} The answer is $\boxed{{{solution.answer}}}$."
    return {
        "id": f"{subset}-{number}",
        "generator": rng.choice(GENERATORS),
        "problem": problem.question,
        "steps": [*solution.steps[:-1], last],
        "final_answer_correct": solution.answer == problem.answer,
        "label": solution.first_error,
    }
