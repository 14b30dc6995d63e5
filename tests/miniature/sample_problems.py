"""Random problems for property tests, and the size of the tests' small world."""

import random

from hypothesis import strategies as st

from cpmi_dagster.miniature import WorldSize
from cpmi_dagster.miniature.expression_problems import make_expression_problem
from cpmi_dagster.miniature.plans import Problem
from cpmi_dagster.miniature.word_problems import HARD, STANDARD, make_word_problem

SMALL = WorldSize(
    shepherd_questions=16,
    attempts=4,
    too_hard=2,
    references=30,
    processbench=8,
    prmbench=4,
    test_questions=6,
    logic_stories=2,
)


def problem_from(seed: int) -> Problem:
    """Any problem of either task and difficulty, by its seed."""
    make = make_word_problem if seed % 2 else make_expression_problem
    return make(random.Random(seed), HARD if seed % 3 == 0 else STANDARD)


problems = st.integers(0, 10**9).map(problem_from)
generators = st.integers(0, 10**9).map(random.Random)
