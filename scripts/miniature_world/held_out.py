"""Decides which questions are held out for the miniature world; its language models never train on them.

A hash of the question's text decides: one question in four is held out. The world is drawn from those only, training
documents from the others only, so the two cannot overlap.
"""

import hashlib
import random
from collections.abc import Callable

from scripts.miniature_world.expression_problems import make_expression_problem
from scripts.miniature_world.plans import Problem, Task
from scripts.miniature_world.word_problems import STANDARD, Difficulty, make_word_problem

HELD_OUT_SHARE = 4
MAKERS = {"GSM8K": make_word_problem, "MATH": make_expression_problem}


def is_held_out(question: str) -> bool:
    """Whether a question belongs to the world, not to the training text of its models."""
    digest = hashlib.sha256(question.encode()).digest()
    return digest[0] % HELD_OUT_SHARE == 0


def draw(make: Callable[[random.Random], Problem], rng: random.Random, held_out: bool) -> Problem:
    """Draw problems until one is held out, or is not."""
    while is_held_out((problem := make(rng)).question) != held_out:
        pass
    return problem


class QuestionPool:
    """Draws held-out problems, each question at most once, so that no two files of a world share one."""

    def __init__(self, seed: int) -> None:
        """A pool whose whole sequence of draws is decided by `seed`."""
        self._rng = random.Random(seed)
        self._used: set[str] = set()

    def draw(self, task: Task, count: int, difficulty: Difficulty = STANDARD) -> list[Problem]:
        """New problems of one task: word problems (GSM8K) or expression problems (MATH)."""
        problems: list[Problem] = []
        while len(problems) < count:
            problem = draw(lambda rng: MAKERS[task](rng, difficulty), self._rng, held_out=True)
            if problem.question not in self._used:
                self._used.add(problem.question)
                problems.append(problem)
        return problems

    def draw_both(self, count: int, difficulty: Difficulty = STANDARD) -> list[Problem]:
        """New problems, the first half word problems, the rest expression problems."""
        return self.draw("GSM8K", count // 2, difficulty) + self.draw("MATH", count - count // 2, difficulty)
