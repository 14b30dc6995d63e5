r"""PRMBench rows: a correct process and a modified one, in the nine categories of the benchmark.

    {"original_question", "modified_question", "original_process": [...], "modified_process": [...],
     "modified_steps": [2, 3], "error_steps": [2, 3], "reason": "…", "idx": "prm_test_p1_0",
     "question": "…", "classification": "deception"}

Step numbers count from 1. `multi_solutions` rows have none: their modified process is another correct one.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cpmi_dagster.miniature.plans import Problem
from cpmi_dagster.miniature.question_rows import JsonRow
from cpmi_dagster.miniature.slips import SlipKind, make_mistake
from cpmi_dagster.miniature.solutions import solve


@dataclass(frozen=True)
class Modification:
    """A modified process, which of its steps are wrong (from 1), why, and its question if that changed too."""

    process: list[str]
    error_steps: list[int]
    reason: str
    question: str | None = None


Modifier = Callable[[Problem, random.Random], Modification]


def _inserted(problem: Problem, rng: random.Random, sentence: Callable[[str], str], reason: str) -> Modification:
    """The correct process with one more step, made from the step before it, somewhere in the middle."""
    steps = list(solve(problem).steps)
    place = rng.randrange(1, len(steps))
    return Modification([*steps[:place], sentence(steps[place - 1]), *steps[place:]], [place + 1], reason)


def _slipped(
    problem: Problem, rng: random.Random, opening: str, reason: str, kinds: tuple[SlipKind, ...] = ("calculation",)
) -> Modification:
    """A process with a slip that later steps build on; the first wrong step starts with `opening`."""
    solution = make_mistake(problem, rng, kinds=kinds)
    steps = list(solution.steps)
    steps[solution.first_error] = f"{opening}{steps[solution.first_error]}"
    wrong = [number for number, is_right in enumerate(solution.correct, start=1) if not is_right]
    return Modification(steps, wrong, reason)


def redundant(problem: Problem, rng: random.Random) -> Modification:
    """Non-redundancy: a step is repeated."""
    return _inserted(problem, rng, lambda step: f"Let us repeat this once more: {step}", "A step only repeats another.")


def circular(problem: Problem, rng: random.Random) -> Modification:
    """Non-circular logic: the final answer is assumed in order to derive it."""
    assumption = f"Assume that the final answer is {problem.answer}, which we want to show."
    return _inserted(problem, rng, lambda _step: assumption, "The conclusion is used as a premise.")


def counterfactual(problem: Problem, rng: random.Random) -> Modification:
    """Empirical soundness: a false fact about arithmetic is stated and used."""
    return _slipped(problem, rng, "Since both operations always agree, ", "A false rule is applied.",
                    ("operator", "calculation"))  # fmt: skip


def contradictory(problem: Problem, rng: random.Random) -> Modification:
    """Step consistency: a step denies an earlier one."""
    return _inserted(problem, rng, lambda step: f"But it is not true that: {step}", "A step denies an earlier step.")


def out_of_domain(problem: Problem, rng: random.Random) -> Modification:
    """Domain consistency: a rule is applied where it does not hold."""
    return _slipped(problem, rng, "By the rule for complex numbers, ", "A rule is used outside its domain.")


def overconfident(problem: Problem, rng: random.Random) -> Modification:
    """Confidence invariance: a wrong result is asserted with certainty."""
    return _slipped(problem, rng, "It is absolutely certain that ", "A wrong result is stated with confidence.")


def deceptive(problem: Problem, rng: random.Random) -> Modification:
    """Deception resistance: a small error hides in a step that looks right."""
    return _slipped(problem, rng, "", "A small error hides in a step that looks right.")


def underdetermined(problem: Problem, rng: random.Random) -> Modification:
    """Prerequisite sensitivity: the question loses its last condition, but the process uses it all the same."""
    steps = list(solve(problem).steps)
    head, mark, tail = problem.question.rpartition(". ")
    before, _mark, _condition = head.rpartition(". ")
    question = f"{before}. {tail}" if mark and before else f"{problem.question} One number has been lost."
    steps[-1] = f"Taking the missing number as known, {steps[-1]}"
    return Modification(steps, [len(steps)], "A condition is missing from the question.", question)


def solved_otherwise(problem: Problem, rng: random.Random) -> Modification:
    """Multi-solution consistency: another correct process, worded differently and with a check."""
    steps = list(solve(problem, rng).steps)
    return Modification(["Let us work this out in another way.", *steps, f"So the result is {problem.answer}."], [], "")


MODIFIERS: dict[str, Modifier] = {
    "redundency": redundant,
    "circular": circular,
    "counterfactual": counterfactual,
    "step_contradiction": contradictory,
    "domain_inconsistency": out_of_domain,
    "confidence": overconfident,
    "missing_condition": underdetermined,
    "deception": deceptive,
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


def prmbench_rows(problems: Sequence[Problem], rng: random.Random) -> list[JsonRow]:
    """Every problem in every category, category by category."""
    return [
        prmbench_row(classification, number, problem, rng)
        for classification in MODIFIERS
        for number, problem in enumerate(problems)
    ]
