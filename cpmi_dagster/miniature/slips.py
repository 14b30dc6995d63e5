"""Solutions with one injected error and its consequences, each step with its true correctness.

Kinds of slip at a step `60/5=<<60/5=12>>12` whose left operand came from `48+12=<<48+12=60>>60`:

    calculation   60/5=<<60/5=13>>13       the result is off
    operand       60/6=<<60/6=10>>10       another number of the problem is used
    operator      60*5=<<60*5=300>>300     another operator is used
    dropped       48/5=...                 the step 48+12 is left out, so the next one that needs it goes wrong

A step is wrong (False) if the slip is in it or if it builds on a wrong step. A step after the slip that needs none of
it stays right (True). The final answer is wrong exactly when there is a slip: one that would not reach it is redrawn.
"""

import random
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

from cpmi_dagster.miniature.plans import Earlier, Operand, Operation, Problem, run_plan
from cpmi_dagster.miniature.quantities import SWAPPABLE_OPERATORS, Quantity, UndefinedResult, surd
from cpmi_dagster.miniature.solutions import Solution, SolutionWriter

SlipKind = Literal["calculation", "operand", "operator", "dropped"]
SLIP_KINDS: tuple[SlipKind, ...] = get_args(SlipKind)

ATTEMPTS = 40
OFFSETS = (1, -1, 2, -2, 5, -5, 10, -10, 20, -20, 100, -100)


class ImpossibleSlip(ValueError):
    """No slip of this kind fits the step."""


@dataclass(frozen=True)
class Slip:
    """What goes wrong at the operation `index`.

    Attributes:
        index: Which operation.
        operation: What is calculated in its place; None if the step is dropped.
        result: The miscalculated result; None if the calculation itself is right.
    """

    index: int
    operation: Operation | None
    result: Quantity | None = None


def _miscalculate(problem: Problem, index: int, rng: random.Random) -> Slip:
    """The result is off by a little, in units of its own denominator and root."""
    right = run_plan(problem.operations)[index]
    offset = Fraction(rng.choice(OFFSETS), right.coefficient.denominator)
    return Slip(index, problem.operations[index], surd(right.coefficient + offset, right.radicand))


def _check_swappable(operation: Operation) -> None:
    if operation.operator not in SWAPPABLE_OPERATORS:
        raise ImpossibleSlip(f"{operation.operator} is not confused with another operator")


def _mistake_operator(problem: Problem, index: int, rng: random.Random) -> Slip:
    """Another operator between the same operands."""
    operation = problem.operations[index]
    _check_swappable(operation)
    others = [operator for operator in SWAPPABLE_OPERATORS if operator != operation.operator]
    return Slip(index, replace(operation, operator=rng.choice(others)))


def _numbers_in_sight(problem: Problem, index: int) -> list[Operand]:
    """Operands that a careless solver may pick: the results so far and the question's numbers."""
    operands: list[Operand] = [Earlier(earlier) for earlier in range(index)]
    for operation in problem.operations:
        operands += [operand for operand in (operation.left, operation.right) if isinstance(operand, Quantity)]
    return operands


def _mistake_operand(problem: Problem, index: int, rng: random.Random) -> Slip:
    """Another number in place of one operand, of the left one only if the question gave it."""
    operation = problem.operations[index]
    _check_swappable(operation)
    operand = rng.choice(_numbers_in_sight(problem, index))
    if isinstance(operation.left, Quantity) and rng.random() < 0.5:
        return Slip(index, replace(operation, left=operand))
    return Slip(index, replace(operation, right=operand))


def _drop(problem: Problem, index: int, _rng: random.Random) -> Slip:
    """The step is left out."""
    if index == len(problem.operations) - 1:
        raise ImpossibleSlip("the last step cannot be dropped")
    return Slip(index, operation=None)


DRAWS = {"calculation": _miscalculate, "operand": _mistake_operand, "operator": _mistake_operator, "dropped": _drop}


def draw_slip(problem: Problem, kind: SlipKind, index: int, rng: random.Random) -> Slip:
    """A slip of the given kind at one operation.

    Raises:
        ImpossibleSlip: The kind does not apply there, such as another operator for a square root.
    """
    return DRAWS[kind](problem, index, rng)


def solve_with_slip(problem: Problem, slip: Slip, wording: random.Random | None = None) -> Solution:
    """The solution of a solver who slips once and is careful before and after; `wording` as in `solve`.

    Raises:
        UndefinedResult: A later step has no result in this world.
    """
    writer = SolutionWriter(problem, wording)
    for index, planned in enumerate(problem.operations):
        if index != slip.index:
            writer.write(planned)
        elif slip.operation is None:
            writer.leave_out(planned)
        else:
            writer.write(slip.operation, slipped=True, result=slip.result)
    return writer.solution()


def _looks_odd(step: str) -> bool:
    """Whether a word problem's step ends in a negative number or a fraction of a thing."""
    outcome = step.split(">>")[-1]
    return outcome.startswith("-") or "." in outcome[:-1]


def _is_believable(problem: Problem, solution: Solution) -> bool:
    if solution.answer == problem.answer:
        return False
    return problem.task == "MATH" or not any(_looks_odd(step) for step in solution.steps)


def make_mistake(
    problem: Problem, rng: random.Random, index: int | None = None, kinds: tuple[SlipKind, ...] = SLIP_KINDS
) -> Solution:
    """A solution with one random believable slip, at the operation `index` if given, so that its answer is wrong."""
    for _attempt in range(ATTEMPTS):
        place = rng.randrange(len(problem.operations)) if index is None else index
        try:
            solution = solve_with_slip(problem, draw_slip(problem, rng.choice(kinds), place, rng), rng)
        except (ImpossibleSlip, UndefinedResult):
            continue
        if _is_believable(problem, solution):
            return solution
    always_fits = _miscalculate(problem, len(problem.operations) - 1, rng)
    return solve_with_slip(problem, always_fits, rng)
