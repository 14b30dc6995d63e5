r"""Writing a plan out as a solution, step by step, keeping track of which steps are truly right.

    48 + 12 → "At first Ana has @work shells."  →  "At first Ana has 48+12=<<48+12=60>>60 shells."
    3/4 - 1/2 → "We get $@work$."               →  "We get $\frac{3}{4}-\frac{1}{2}=\frac{1}{4}$."

The marks @work, @left, @right and @result in a sentence are replaced, never formatted: LaTeX is full of braces.
"""

import random
from dataclasses import dataclass, field

from cpmi_dagster.miniature.plans import Earlier, Operation, Problem, check_range, operand_value, work_out
from cpmi_dagster.miniature.quantities import Quantity

LATEX_OPERATORS = {"+": "+", "-": "-", "*": r" \cdot ", "/": r" \div "}


@dataclass(frozen=True)
class Solution:
    """Written steps, whether each is truly correct, and the stated final answer."""

    steps: tuple[str, ...]
    correct: tuple[bool, ...]
    answer: str

    @property
    def first_error(self) -> int:
        """Index of the first wrong step, -1 if every step is right."""
        return self.correct.index(False) if False in self.correct else -1


def write_work(problem: Problem, operator: str, left: str, right: str, result: str) -> str:
    """The calculation as the task writes it: `3+4=<<3+4=7>>7` in GSM8K, `3+4=7` in MATH."""
    if problem.task == "GSM8K":
        return f"{left}{operator}{right}=<<{left}{operator}{right}={result}>>{result}"
    if right.startswith("-"):
        right = f"({right})"
    return f"{left}{LATEX_OPERATORS.get(operator, operator)}{right}={result}"


@dataclass
class SolutionWriter:
    """A solution in the making.

    Attributes:
        problem: What is being solved.
        wording: Chooses among each operation's sentences; the first of each if None.
        results: What the solver holds each operation's result to be.
        wrong: Indices of the operations whose result is not to be trusted.
    """

    problem: Problem
    wording: random.Random | None
    results: list[Quantity] = field(default_factory=list)
    wrong: set[int] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    correct: list[bool] = field(default_factory=list)

    def write(self, operation: Operation, slipped: bool = False, result: Quantity | None = None) -> None:
        """Add a step.

        Args:
            operation: What the solver calculates.
            slipped: Whether this step is where the solver goes wrong.
            result: What the solver gets; the true result if absent.

        Raises:
            UndefinedResult: The operation has no result in this world.
        """
        result = check_range(result) if result else work_out(operation, self.results)
        self.steps.append(self._sentence(operation, result))
        is_wrong = slipped or self._builds_on_wrong(operation)
        self.correct.append(not is_wrong)
        self._keep(result, is_wrong)

    def leave_out(self, operation: Operation) -> None:
        """Leave a step out: its left operand passes for its result."""
        self._keep(operand_value(operation.left, self.results), is_wrong=True)

    def solution(self) -> Solution:
        """What has been written."""
        return Solution(tuple(self.steps), tuple(self.correct), self.problem.write(self.results[-1]))

    def _keep(self, result: Quantity, is_wrong: bool) -> None:
        if is_wrong:
            self.wrong.add(len(self.results))
        self.results.append(result)

    def _builds_on_wrong(self, operation: Operation) -> bool:
        operands = (operation.left, operation.right)
        return any(isinstance(operand, Earlier) and operand.index in self.wrong for operand in operands)

    def _sentence(self, operation: Operation, result: Quantity) -> str:
        sentence = operation.sentences[0] if self.wording is None else self.wording.choice(operation.sentences)
        operands = (operation.left, operation.right)
        left, right = (self.problem.write(operand_value(operand, self.results)) for operand in operands)
        outcome = self.problem.write(result)
        return (
            sentence.replace("@work", write_work(self.problem, operation.operator, left, right, outcome))
            .replace("@left", left)
            .replace("@right", right)
            .replace("@result", outcome)
        )


def solve(problem: Problem, wording: random.Random | None = None) -> Solution:
    """The correct solution; `wording` chooses among each operation's sentences, the first of each if absent."""
    writer = SolutionWriter(problem, wording)
    for operation in problem.operations:
        writer.write(operation)
    return writer.solution()
