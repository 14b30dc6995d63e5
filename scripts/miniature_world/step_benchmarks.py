r"""Rows of the step benchmarks: ProcessBench has the index of a solution's first wrong step, -1 if it has none.

    {"id": "gsm8k-0", "generator": "miniature-solver-2", "problem": "Ana has 48 shells …",
     "steps": ["At first Ana has …", "… The answer is: 11"], "final_answer_correct": false, "label": 1}

Steps are written, marked and ended as Math-Shepherd's are: what tells a wrong step from a right one is its mathematics.
PRMBench has a correct process and a modified one, in nine categories. Its step numbers count from 1; `multi_solutions`
rows have none, since their modified process is another correct one:

    {"original_question", "modified_question", "original_process": [...], "modified_process": [...],
     "modified_steps": [2, 3], "error_steps": [2, 3], "reason": "…", "idx": "prm_test_p1_0",
     "question": "…", "classification": "deception"}
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cpmi_dagster.trajectories.templates import render_target
from scripts.miniature_world.held_out import QuestionPool
from scripts.miniature_world.plans import Problem, run_plan
from scripts.miniature_world.quantities import UndefinedResult
from scripts.miniature_world.question_rows import JsonRow
from scripts.miniature_world.slips import (
    ATTEMPTS,
    Aside,
    SlipKind,
    draw_aside,
    draw_solution,
    make_mistake,
    miss,
    solve_with_slips,
)
from scripts.miniature_world.solutions import solve

GENERATORS = ("miniature-solver-1", "miniature-solver-2", "miniature-solver-3")
QUESTION_SETS = 3
RIGHT_ANSWERS = 0.1
"""Chance that a row with a wrong step is drawn from solutions with a right answer, few of which have one."""


def stated(steps: Sequence[str], answer: str) -> list[str]:
    """Steps, with the final answer at the end of the last one, as in Math-Shepherd."""
    return [*steps[:-1], f"{steps[-1]} {render_target(answer)}"]


def processbench_row(subset: str, number: int, problem: Problem, rng: random.Random) -> JsonRow:
    """One solution as Math-Shepherd's trajectories are; every second row has a wrong step.

    As in the original, some of those with a wrong step have a right answer: the step is set right, or nothing uses it.
    """
    has_error = number % 2 == 0
    solution = draw_solution(problem, rng, is_right=not has_error or rng.random() < RIGHT_ANSWERS)
    for _attempt in range(ATTEMPTS):
        if (solution.first_error >= 0) == has_error:
            break
        solution = draw_solution(problem, rng, is_right=not has_error)
    else:
        solution = make_mistake(problem, rng) if has_error else solve(problem, rng)
    return {
        "id": f"{subset}-{number}",
        "generator": rng.choice(GENERATORS),
        "problem": problem.question,
        "steps": stated(solution.steps, solution.answer),
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


def inserted(reason: str, choose: Callable[[list[str], int], str]) -> Modifier:
    """The correct process with one more step in the middle, which `choose` takes from it, given the place."""

    def modifier(problem: Problem, rng: random.Random) -> Modification:
        steps = stated(solve(problem).steps, problem.answer)
        place = rng.randrange(1, len(steps))
        return Modification([*steps[:place], choose(steps, place), *steps[place:]], [place + 1], reason)

    return modifier


def slipped(reason: str, *kinds: SlipKind) -> Modifier:
    """A process with a slip that later steps build on."""

    def modifier(problem: Problem, rng: random.Random) -> Modification:
        solution = make_mistake(problem, rng, kinds=kinds)
        wrong = [number for number, is_right in enumerate(solution.correct, start=1) if not is_right]
        return Modification(stated(solution.steps, solution.answer), wrong, reason)

    return modifier


def contradicted(problem: Problem, rng: random.Random) -> Modification:
    """The correct process, in which a step is written again with another result that nothing uses."""
    place = rng.randrange(len(problem.operations) - 1)
    operation = problem.operations[place]
    other = Aside(place + 1, operation, miss(run_plan(problem.operations)[place], rng))
    steps = stated(solve_with_slips(problem, asides=[other]).steps, problem.answer)
    return Modification(steps, [place + 2], "A step denies an earlier step.")


def underdetermined(problem: Problem, rng: random.Random) -> Modification:
    """The question loses its last condition, but the process uses it all the same."""
    steps = stated(solve(problem, rng).steps, problem.answer)
    head, mark, tail = problem.question.rpartition(". ")
    before, _mark, _condition = head.rpartition(". ")
    question = f"{before}. {tail}" if mark and before else f"{problem.question} One number has been lost."
    return Modification(steps, [len(steps)], "A condition is missing from the question.", question)


def solved_otherwise(problem: Problem, rng: random.Random) -> Modification:
    """Another correct process, with a right remark that nothing uses."""
    remark = draw_aside(problem, rng.randrange(len(problem.operations)), rng, is_wrong=False)
    return Modification(stated(solve_with_slips(problem, asides=[remark]).steps, problem.answer), [], "")


MODIFIERS: dict[str, Modifier] = {
    "redundency": inserted("A step only repeats another.", lambda steps, place: steps[place - 1]),
    "circular": inserted("The conclusion is used as a premise.", lambda steps, _place: steps[-1]),
    "counterfactual": slipped("A false rule is applied.", "operator", "calculation"),
    "step_contradiction": contradicted,
    "domain_inconsistency": slipped("A number is used that does not belong there.", "operand", "calculation"),
    "confidence": slipped("A wrong result is stated with confidence.", "calculation"),
    "missing_condition": underdetermined,
    "deception": slipped("A small error hides in a step that looks right.", "calculation"),
    "multi_solutions": solved_otherwise,
}


def modify(classification: str, problem: Problem, rng: random.Random) -> Modification:
    """A modification of one category, drawn again if a number in it cannot be written in this world."""
    for _attempt in range(ATTEMPTS):
        try:
            return MODIFIERS[classification](problem, rng)
        except UndefinedResult:
            continue
    raise UndefinedResult(f"no {classification} of {problem.question!r} in {ATTEMPTS} attempts")


def prmbench_row(classification: str, number: int, problem: Problem, rng: random.Random) -> JsonRow:
    """One row of one category."""
    modification = modify(classification, problem, rng)
    return {
        "original_question": problem.question,
        "modified_question": modification.question or problem.question,
        "original_process": stated(solve(problem).steps, problem.answer),
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
