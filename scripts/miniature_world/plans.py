"""A problem: a question and a plan, the operations that solve it.

A plan refers to the question's numbers (`Quantity`) and to its own earlier results (`Earlier`):

    question    Ana has 48 shells. She finds 12 more. She puts them equally into 5 jars. How many are in each jar?
    operations  48 + 12 → "@work shells in all."       Earlier(0) / 5 → "Each jar holds @work shells."

`solutions.py` writes a plan out, with or without slips.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scripts.miniature_world.quantities import Quantity, UndefinedResult, apply, as_decimal, as_latex

Task = Literal["GSM8K", "MATH"]

LARGEST_VALUE = 1_000_000
LARGEST_DENOMINATOR = 2_000


@dataclass(frozen=True)
class Earlier:
    """The result of an earlier operation of the same plan, by its index."""

    index: int


Operand = Quantity | Earlier


@dataclass(frozen=True)
class Operation:
    """One step of a plan: operands, operator and the sentences that may state it (the first is the reference's)."""

    left: Operand
    operator: str
    right: Operand
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """A question with the plan that solves it; `level` counts from 1 to 5 as in MATH."""

    task: Task
    subject: str
    level: int
    question: str
    operations: tuple[Operation, ...]

    @property
    def answer(self) -> str:
        """The gold answer, in the task's notation."""
        return self.write(run_plan(self.operations)[-1])

    def write(self, quantity: Quantity) -> str:
        """A number in the task's notation."""
        return as_decimal(quantity) if self.task == "GSM8K" else as_latex(quantity)


def operand_value(operand: Operand, results: Sequence[Quantity]) -> Quantity:
    """The number behind an operand, given the results so far."""
    return results[operand.index] if isinstance(operand, Earlier) else operand


def check_range(value: Quantity) -> Quantity:
    """The value; raises UndefinedResult if it or its denominator is too large for this world."""
    if abs(value.coefficient) > LARGEST_VALUE or value.coefficient.denominator > LARGEST_DENOMINATOR:
        raise UndefinedResult(f"{value} is outside the world's range")
    return value


def work_out(operation: Operation, results: Sequence[Quantity]) -> Quantity:
    """The result of one operation, given the results so far; raises UndefinedResult if it has none in this world."""
    left, right = operand_value(operation.left, results), operand_value(operation.right, results)
    return check_range(apply(operation.operator, left, right))


def run_plan(operations: Sequence[Operation]) -> list[Quantity]:
    """The results of all operations in order; raises UndefinedResult if one has none in this world."""
    results: list[Quantity] = []
    for operation in operations:
        results.append(work_out(operation, results))
    return results
