r"""Writing a plan out as a solution, step by step, keeping track of which steps are truly right.

    48 + 12 → "At first Ana has @work shells."  →  "At first Ana has 48+12=<<48+12=60>>60 shells."
    3/4 - 1/2 → "We get $@work$."               →  "We get $\frac{3}{4}-\frac{1}{2}=\frac{1}{4}$."

The marks @work, @left, @right and @result in a sentence are replaced, never formatted: LaTeX is full of braces.
"""

import random
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from scripts.miniature_world.plans import Earlier, Operation, Problem, check_range, operand_value, work_out
from scripts.miniature_world.quantities import Quantity

LATEX_OPERATORS = {"+": "+", "-": "-", "*": r" \cdot ", "/": r" \div "}
ASIDES = {"GSM8K": ("By the way, @work.", "Note that @work."), "MATH": ("Note that $@work$.", "Besides, $@work$.")}
CHECKS = ("Check: ", "Correction: ")

ErrorKind = Literal["calculation", "operand", "operator", "dropped", "aside", "consequence"]
"""What makes a step wrong: a slip in it, a wrong remark that nothing uses, or a wrong result that it builds on."""


class Step(NamedTuple):
    """A written step.

    Attributes:
        text: What is written.
        kind: Why it is wrong; None if it is right.
        is_sound: Whether every result that the solver holds by now is right, so that the gold answer still follows.
        operations_left: Operations of the plan still to do after it.
    """

    text: str
    kind: ErrorKind | None
    is_sound: bool
    operations_left: int


@dataclass(frozen=True)
class Solution:
    """Written steps and the stated final answer."""

    written: tuple[Step, ...]
    answer: str

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps' texts."""
        return tuple(step.text for step in self.written)

    @property
    def correct(self) -> tuple[bool, ...]:
        """Whether each step is truly right."""
        return tuple(step.kind is None for step in self.written)

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
        wrong: Operations whose result is not to be trusted, by index: what goes wrong in a step that uses it.
    """

    problem: Problem
    wording: random.Random | None
    results: list[Quantity] = field(default_factory=list)
    wrong: dict[int, ErrorKind] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def write(self, operation: Operation, kind: ErrorKind | None = None, result: Quantity | None = None) -> None:
        """Add a step; raises UndefinedResult if the operation has no result in this world.

        Args:
            operation: What the solver calculates.
            kind: How this step goes wrong; it is also wrong if it builds on a wrong result.
            result: What the solver gets; the true result if absent.
        """
        text, result = self._written(operation, result)
        operands = [operand for operand in (operation.left, operation.right) if isinstance(operand, Earlier)]
        inherited: list[ErrorKind] = [self.wrong[operand.index] for operand in operands if operand.index in self.wrong]
        if kind is None and inherited:
            kind = "dropped" if "dropped" in inherited else inherited[0]
        if kind:
            self.wrong[len(self.results)] = "consequence"
        self.results.append(result)
        self._add(text, kind)

    def leave_out(self, operation: Operation) -> None:
        """Leave a step out: its left operand passes for its result."""
        self.wrong[len(self.results)] = "dropped"
        self.results.append(operand_value(operation.left, self.results))

    def remark(self, operation: Operation, result: Quantity | None = None) -> None:
        """Add a step whose result nothing uses; with a `result` it is a wrong one."""
        self._add(self._written(operation, result)[0], "aside" if result else None)

    def go_back(self, index: int) -> None:
        """Notice that the result of an operation is off, and set it right; what came after it is to be done again."""
        operation, mistaken = self.problem.operations[index], self.problem.write(self.results[index])
        del self.results[index:]
        self.wrong = {earlier: kind for earlier, kind in self.wrong.items() if earlier < index}
        quoted = mistaken if self.problem.task == "GSM8K" else f"${mistaken}$"
        sentence = f"{self._choose(CHECKS)}{operation.sentences[0].rstrip('.')}, not {quoted}."
        self.write(replace(operation, sentences=(sentence,)))

    def solution(self) -> Solution:
        """What has been written."""
        return Solution(tuple(self.steps), self.problem.write(self.results[-1]))

    def _add(self, text: str, kind: ErrorKind | None) -> None:
        left = len(self.problem.operations) - len(self.results)
        self.steps.append(Step(text, kind, is_sound=not self.wrong, operations_left=left))

    def _choose(self, sentences: tuple[str, ...]) -> str:
        return sentences[0] if self.wording is None else self.wording.choice(sentences)

    def _written(self, operation: Operation, result: Quantity | None) -> tuple[str, Quantity]:
        """A sentence that states an operation, and its result: the given one, else the true one."""
        result = check_range(result) if result else work_out(operation, self.results)
        text = self._choose(operation.sentences)
        operands = (operation.left, operation.right)
        left, right = (self.problem.write(operand_value(operand, self.results)) for operand in operands)
        outcome = self.problem.write(result)
        work = write_work(self.problem, operation.operator, left, right, outcome)
        for mark, written in (("@work", work), ("@left", left), ("@right", right), ("@result", outcome)):
            text = text.replace(mark, written)
        return text, result


def solve(problem: Problem, wording: random.Random | None = None) -> Solution:
    """The correct solution; `wording` chooses among each operation's sentences, the first of each if absent."""
    writer = SolutionWriter(problem, wording)
    for operation in problem.operations:
        writer.write(operation)
    return writer.solution()
