"""Solutions in which the solver slips: what goes wrong, whether it is noticed, and what follows from it.

Kinds of slip at a step `60/5=<<60/5=12>>12` whose left operand came from `48+12=<<48+12=60>>60`:

    calculation   60/5=<<60/5=13>>13       the result is off
    operand       60/6=<<60/6=10>>10       another number of the problem is used
    operator      60*5=<<60*5=300>>300     another operator is used
    dropped       48/5=...                 the step 48+12 is left out, so the next one that needs it goes wrong

    noticed       48+12=<<48+12=61>>61     "Check: At first Ana has 48+12=<<48+12=60>>60 shells, not 61."
    aside         "By the way, 12*5=<<12*5=70>>70."   right or wrong: nothing uses it

A step is wrong if the slip is in it or if it builds on a wrong step. A step that needs none of it stays right. A slip
that is noticed is set right, so it leaves the answer right; one that is not makes it wrong: one that would not reach
the answer is redrawn.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

from scripts.miniature_world.plans import Earlier, Operand, Operation, Problem, run_plan, work_out
from scripts.miniature_world.quantities import SWAPPABLE_OPERATORS, Quantity, UndefinedResult, apply, surd
from scripts.miniature_world.solutions import ASIDES, Solution, SolutionWriter, solve

SlipKind = Literal["calculation", "operand", "operator", "dropped"]
SLIP_KINDS: tuple[SlipKind, ...] = get_args(SlipKind)

ATTEMPTS = 40
OFFSETS = (1, -1, 2, -2, 3, -3, 5, -5, 10, -10)
NOTICED = {True: (0.8, 0.4), False: (0.3,)}
"""Chances of one and of a second noticed slip, by whether the answer is right."""
DELAYS = (0, 1, 2)
ASIDE_SHARE = 0.25


class ImpossibleSlip(ValueError):
    """No slip of this kind fits the step."""


@dataclass(frozen=True)
class Slip:
    """What goes wrong at the operation `index`.

    Attributes:
        index: Which operation.
        operation: What is calculated in its place; None if the step is dropped.
        kind: How it goes wrong.
        result: The miscalculated result; None if the calculation itself is right.
        noticed_after: Operations done on top of it before the solver notices and goes back; None if never.
    """

    index: int
    operation: Operation | None
    kind: SlipKind
    result: Quantity | None = None
    noticed_after: int | None = None


@dataclass(frozen=True)
class Aside:
    """A calculation that nothing uses, before the operation `index`; `result` as in `Slip`."""

    index: int
    operation: Operation
    result: Quantity | None = None


def miss(right: Quantity, rng: random.Random) -> Quantity:
    """A number near the right one, in units of its denominator and root."""
    offset = Fraction(rng.choice(OFFSETS), right.coefficient.denominator)
    return surd(right.coefficient + offset, right.radicand)


def _given_numbers(problem: Problem) -> list[Quantity]:
    """The question's numbers, in the plan's order."""
    operands = [operand for operation in problem.operations for operand in (operation.left, operation.right)]
    return [operand for operand in operands if isinstance(operand, Quantity)]


def draw_slip(problem: Problem, kind: SlipKind, index: int, rng: random.Random) -> Slip:
    """A slip of the given kind at one operation.

    Raises:
        ImpossibleSlip: The kind does not apply there, such as another operator for a square root.
    """
    operation = problem.operations[index]
    if kind == "calculation":
        return Slip(index, operation, kind, miss(run_plan(problem.operations)[index], rng))
    if kind == "dropped":
        if index == len(problem.operations) - 1:
            raise ImpossibleSlip("the last step cannot be dropped")
        return Slip(index, None, kind)
    if operation.operator not in SWAPPABLE_OPERATORS:
        raise ImpossibleSlip(f"{operation.operator} is not confused with another operator")
    if kind == "operator":
        others = [operator for operator in SWAPPABLE_OPERATORS if operator != operation.operator]
        return Slip(index, replace(operation, operator=rng.choice(others)), kind)
    in_sight: list[Operand] = [*map(Earlier, range(index)), *_given_numbers(problem)]
    operand = rng.choice(in_sight)
    # the left operand is mistaken only if the question gave it
    if isinstance(operation.left, Quantity) and rng.random() < 0.5:
        return Slip(index, replace(operation, left=operand), kind)
    return Slip(index, replace(operation, right=operand), kind)


def draw_aside(problem: Problem, index: int, rng: random.Random, is_wrong: bool) -> Aside:
    """A calculation beside the plan, with two of the question's numbers; raises UndefinedResult if it has no result."""
    left, right = (rng.choice(_given_numbers(problem)) for _operand in range(2))
    operation = Operation(left, rng.choice("+*"), right, ASIDES[problem.task])
    return Aside(index, operation, miss(apply(operation.operator, left, right), rng) if is_wrong else None)


def solve_with_slips(
    problem: Problem, slips: Sequence[Slip] = (), asides: Sequence[Aside] = (), wording: random.Random | None = None
) -> Solution:
    """A solution with the given slips, at most one at each operation; `wording` as in `solve`.

    Raises UndefinedResult if a step has no result in this world.
    """
    writer = SolutionWriter(problem, wording)
    waiting, remarks = {slip.index: slip for slip in slips}, {aside.index: aside for aside in asides}
    due: dict[int, int] = {}  # by operation of a slip: the operation after which it is noticed
    while (index := len(writer.results)) < len(problem.operations):
        if aside := remarks.pop(index, None):
            writer.remark(aside.operation, aside.result)
        slip = waiting.pop(index, None)
        if slip is None:
            writer.write(problem.operations[index])
        elif slip.operation is None:
            writer.leave_out(problem.operations[index])
        else:
            writer.write(slip.operation, slip.kind, slip.result)
        if slip and slip.noticed_after is not None:
            due[slip.index] = index + slip.noticed_after
        if index in due.values():
            place = min(place for place, moment in due.items() if moment == index)
            writer.go_back(place)
            due = {earlier: moment for earlier, moment in due.items() if earlier < place}
    return writer.solution()


def _is_believable(problem: Problem, solution: Solution) -> bool:
    """Whether no step of a word problem ends in a negative number or a fraction of a thing."""
    outcomes = [step.split(">>")[-1] for step in solution.steps]
    return problem.task == "MATH" or not any(outcome.startswith("-") or "." in outcome[:-1] for outcome in outcomes)


def make_mistake(
    problem: Problem, rng: random.Random, index: int | None = None, kinds: tuple[SlipKind, ...] = SLIP_KINDS
) -> Solution:
    """A solution with one random believable slip, at the operation `index` if given, so that its answer is wrong."""
    for _attempt in range(ATTEMPTS):
        place = rng.randrange(len(problem.operations)) if index is None else index
        try:
            solution = solve_with_slips(problem, [draw_slip(problem, rng.choice(kinds), place, rng)], wording=rng)
        except (ImpossibleSlip, UndefinedResult):
            continue
        if solution.answer != problem.answer and _is_believable(problem, solution):
            return solution
    always_fits = draw_slip(problem, "calculation", len(problem.operations) - 1, rng)
    return solve_with_slips(problem, [always_fits], wording=rng)


def _draw_noticed(problem: Problem, rng: random.Random) -> Slip:
    """A slip that writes a wrong number, so that it can be noticed; raises ImpossibleSlip if it would not."""
    index = rng.randrange(len(problem.operations))
    slip = draw_slip(problem, rng.choice(SLIP_KINDS), index, rng)
    right = run_plan(problem.operations)
    if slip.operation is None or (slip.result or work_out(slip.operation, right)) == right[index]:
        raise ImpossibleSlip("nothing wrong is written that could be noticed")
    delay = min(rng.choice(DELAYS), len(problem.operations) - 1 - index)
    return replace(slip, noticed_after=delay)


def draw_solution(problem: Problem, rng: random.Random, is_right: bool) -> Solution:
    """A believable solution with a right or a wrong answer; both may have asides, and slips that are noticed."""
    count = len(problem.operations)
    for _attempt in range(ATTEMPTS):
        try:
            slips = [_draw_noticed(problem, rng) for chance in NOTICED[is_right] if rng.random() < chance]
            if not is_right:
                slips.append(draw_slip(problem, rng.choice(SLIP_KINDS), rng.randrange(count), rng))
            index = rng.randrange(count)
            asides = [draw_aside(problem, index, rng, rng.random() < 0.5)] if rng.random() < ASIDE_SHARE else []
            solution = solve_with_slips(problem, slips, asides, rng)
        except (ImpossibleSlip, UndefinedResult):
            continue
        if (solution.answer == problem.answer) == is_right and _is_believable(problem, solution):
            return solution
    return solve(problem, rng) if is_right else make_mistake(problem, rng)
