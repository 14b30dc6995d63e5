r"""Problems as rows of the real question sets: references to align with, tests to sample solutions for.

gsm8k       {"question": "Ana has 48 …", "answer": "At first Ana has 48+12=<<48+12=60>>60 shells.\n…\n#### 12"}
math        {"problem": "Simplify $…$.", "level": "Level 3", "type": "Algebra", "solution": "… $\\boxed{6}$."}
math500     {"problem", "solution", "answer": "6", "subject": "Algebra", "level": 3, "unique_id": "test/algebra/7.json"}
omni_math   {"domain": ["Mathematics -> Algebra"], "difficulty": 4.5, "problem", "solution", "answer", "source"}
mmlu_stem   {"question", "type": "elementary_mathematics", "choices": ["6", "8", "3", "7"], "answer": 0}
"""

import random
from collections.abc import Mapping

from scripts.miniature_world.plans import Problem
from scripts.miniature_world.slips import make_mistake
from scripts.miniature_world.solutions import solve

CHOICE_LETTERS = "ABCD"

JsonRow = Mapping[str, object]


def boxed_solution(problem: Problem) -> str:
    r"""The reference solution in MATH's manner, one paragraph that ends in `\boxed{}`."""
    steps = " ".join(solve(problem).steps)
    return rf"{steps} The answer is $\boxed{{{problem.answer}}}$."


def gsm8k_row(problem: Problem) -> JsonRow:
    """A row of GSM8K."""
    return {"question": problem.question, "answer": "\n".join([*solve(problem).steps, f"#### {problem.answer}"])}


def math_row(problem: Problem) -> JsonRow:
    """A row of MATH."""
    return {
        "problem": problem.question,
        "level": f"Level {problem.level}",
        "type": problem.subject,
        "solution": boxed_solution(problem),
    }


def math500_row(problem: Problem, number: int) -> JsonRow:
    """A row of MATH-500, whose id has the subject as MATH's file paths write it: `counting_and_probability`."""
    folder = problem.subject.lower().replace("&", "and").replace(" ", "_")
    return {
        "problem": problem.question,
        "solution": boxed_solution(problem),
        "answer": problem.answer,
        "subject": problem.subject,
        "level": problem.level,
        "unique_id": f"test/{folder}/{number}.json",
    }


def omni_math_row(problem: Problem) -> JsonRow:
    """A row of Omni-MATH; the difficulty grows by half a point with each operation."""
    return {
        "domain": [f"Mathematics -> {problem.subject}"],
        "difficulty": len(problem.operations) / 2,
        "problem": problem.question,
        "solution": boxed_solution(problem),
        "answer": problem.answer,
        "source": "miniature",
    }


def mmlu_stem_row(problem: Problem, rng: random.Random) -> JsonRow:
    """A row of MMLU; the wrong choices are results of slips."""
    choices, right = draw_choices(problem, rng)
    subject = "elementary_mathematics" if problem.task == "GSM8K" else "high_school_mathematics"
    return {"question": problem.question, "type": subject, "choices": choices, "answer": right}


def draw_choices(problem: Problem, rng: random.Random) -> tuple[list[str], int]:
    """Four different answers, one of them right, and the index of the right one."""
    choices = {problem.answer: None}
    while len(choices) < len(CHOICE_LETTERS):
        choices[make_mistake(problem, rng).answer] = None
    order = rng.sample(list(choices), len(choices))
    return order, order.index(problem.answer)
