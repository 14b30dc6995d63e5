r"""Rows of the step benchmarks: ProcessBench has the index of a solution's first wrong step, -1 if it has none.

    {"id": "gsm8k-0", "generator": "miniature-solver-2", "problem": "Ana has 48 shells …",
     "steps": ["At first Ana has …", "… The answer is $\\boxed{11}$."], "final_answer_correct": false, "label": 1}

PRMBench has a correct process and a modified one, in nine categories. Its step numbers count from 1; `multi_solutions`
rows have none, since their modified process is another correct one:

    {"original_question", "modified_question", "original_process": [...], "modified_process": [...],
     "modified_steps": [2, 3], "error_steps": [2, 3], "reason": "…", "idx": "prm_test_p1_0",
     "question": "…", "classification": "deception"}
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from cpmi_dagster.miniature.held_out import QuestionPool
from cpmi_dagster.miniature.plans import Problem
from cpmi_dagster.miniature.question_rows import JsonRow
from cpmi_dagster.miniature.slips import SlipKind, make_mistake
from cpmi_dagster.miniature.solutions import solve

GENERATORS = ("miniature-solver-1", "miniature-solver-2", "miniature-solver-3")
QUESTION_SETS = 3


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


class Modification(NamedTuple):
    """A modified process, which of its steps are wrong (from 1), why, and its question if that changed too."""

    process: list[str]
    error_steps: list[int]
    reason: str
    question: str | None = None


Modifier = Callable[[Problem, random.Random], Modification]


def inserted(sentence: str, reason: str) -> Modifier:
    """The correct process with one more step in the middle; `{step}` is the step before it, `{answer}` the answer."""

    def modify(problem: Problem, rng: random.Random) -> Modification:
        steps = list(solve(problem).steps)
        place = rng.randrange(1, len(steps))
        new = sentence.format(step=steps[place - 1], answer=problem.answer)
        return Modification([*steps[:place], new, *steps[place:]], [place + 1], reason)

    return modify


def slipped(opening: str, reason: str, kinds: tuple[SlipKind, ...] = ("calculation",)) -> Modifier:
    """A process with a slip that later steps build on; the first wrong step starts with `opening`."""

    def modify(problem: Problem, rng: random.Random) -> Modification:
        solution = make_mistake(problem, rng, kinds=kinds)
        steps = list(solution.steps)
        steps[solution.first_error] = f"{opening}{steps[solution.first_error]}"
        wrong = [number for number, is_right in enumerate(solution.correct, start=1) if not is_right]
        return Modification(steps, wrong, reason)

    return modify


def underdetermined(problem: Problem, rng: random.Random) -> Modification:
    """The question loses its last condition, but the process uses it all the same."""
    steps = list(solve(problem).steps)
    head, mark, tail = problem.question.rpartition(". ")
    before, _mark, _condition = head.rpartition(". ")
    question = f"{before}. {tail}" if mark and before else f"{problem.question} One number has been lost."
    steps[-1] = f"Taking the missing number as known, {steps[-1]}"
    return Modification(steps, [len(steps)], "A condition is missing from the question.", question)


def solved_otherwise(problem: Problem, rng: random.Random) -> Modification:
    """Another correct process, worded differently and with a check."""
    steps = list(solve(problem, rng).steps)
    return Modification(["Let us work this out in another way.", *steps, f"So the result is {problem.answer}."], [], "")


MODIFIERS: dict[str, Modifier] = {
    "redundency": inserted("Let us repeat this once more: {step}", "A step only repeats another."),
    "circular": inserted(
        "Assume that the final answer is {answer}, which we want to show.", "The conclusion is used as a premise."
    ),
    "counterfactual": slipped(
        "Since both operations always agree, ", "A false rule is applied.", ("operator", "calculation")
    ),
    "step_contradiction": inserted("But it is not true that: {step}", "A step denies an earlier step."),
    "domain_inconsistency": slipped("By the rule for complex numbers, ", "A rule is used outside its domain."),
    "confidence": slipped("It is absolutely certain that ", "A wrong result is stated with confidence."),
    "missing_condition": underdetermined,
    "deception": slipped("", "A small error hides in a step that looks right."),
    "multi_solutions": solved_otherwise,
}


def prmbench_row(classification: str, number: int, problem: Problem, rng: random.Random) -> JsonRow:
    """One row of one category."""
    modification = MODIFIERS[classification](problem, rng)
    return {
        "original_question": problem.question,
        "modified_question": modification.question or problem.question,
        "original_process": list(solve(problem).steps),
        "modified_process": modification.process,
        "modified_steps": modification.error_steps,
        "error_steps": modification.error_steps,
        "reason": modification.reason,
        "idx": f"prm_test_p1_{number}",
        "question": problem.question,
        "classification": classification,
    }


def prmbench_rows(pool: QuestionPool, count: int, rng: random.Random) -> list[JsonRow]:
    """`count` rows of each category; each question is in three categories, so there are three times as many."""
    problems = list(enumerate(pool.draw_both(count * QUESTION_SETS)))
    return [
        prmbench_row(kind, number, problem, rng)
        for place, kind in enumerate(MODIFIERS)
        for number, problem in problems[place % QUESTION_SETS :: QUESTION_SETS]
    ]
