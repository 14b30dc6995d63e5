"""The world's questions: held out from training, and no question used twice."""

import random

from cpmi_dagster.miniature.expression_problems import make_expression_problem
from cpmi_dagster.miniature.held_out import is_held_out
from cpmi_dagster.miniature.plans import Problem, Task
from cpmi_dagster.miniature.word_problems import STANDARD, Difficulty, make_word_problem

MAKERS = {"GSM8K": make_word_problem, "MATH": make_expression_problem}


class QuestionPool:
    """Draws problems, each question at most once over the pool's life, so that no two of a world's files share one."""

    def __init__(self, seed: int) -> None:
        """A pool whose whole sequence of draws is decided by `seed`."""
        self._rng = random.Random(seed)
        self._used: set[str] = set()

    def draw(self, task: Task, count: int, difficulty: Difficulty = STANDARD) -> list[Problem]:
        """New problems of one task.

        Args:
            task: Word problems (GSM8K) or expression problems (MATH).
            count: How many.
            difficulty: How long and how large they are.
        """
        problems: list[Problem] = []
        while len(problems) < count:
            problem = MAKERS[task](self._rng, difficulty)
            if problem.question not in self._used and is_held_out(problem.question):
                self._used.add(problem.question)
                problems.append(problem)
        return problems

    def draw_both(self, count: int, difficulty: Difficulty = STANDARD) -> list[Problem]:
        """New problems, the first half word problems, the rest expression problems."""
        return self.draw("GSM8K", count // 2, difficulty) + self.draw("MATH", count - count // 2, difficulty)
