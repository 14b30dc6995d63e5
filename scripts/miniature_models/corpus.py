"""Training documents of the miniature language models: a prompt and what follows it.

    prompt        You are a careful math solver. ... Problem:\\nAna has 48 shells and ...\\nSolution: Let's ...\\n
    continuation  At first Ana has 48+12=<<48+12=60>>60 shells.\\n
                  One bag holds 60/5=<<60/5=12>>12 shells.\\n
                  The answer is: 12\\n

Most documents are full correct solutions. As in web text there are others: answers without a solution,
solutions with steps left out, steps that already end in "The answer is: 12", multiple choice, and some wrong solutions.
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cpmi_dagster.miniature.held_out import MAKERS, draw
from cpmi_dagster.miniature.plans import Problem
from cpmi_dagster.miniature.question_rows import CHOICE_LETTERS, draw_choices
from cpmi_dagster.miniature.slips import make_mistake
from cpmi_dagster.miniature.solutions import Solution, solve
from cpmi_dagster.trajectories.templates import TEMPLATES, render_question, render_step, render_target


class Document(NamedTuple):
    """A training text; loss is taken on the continuation only."""

    prompt: str
    continuation: str


def render_choices(question: str, choices: list[str]) -> str:
    """A multiple-choice question with its options under it, one a line, lettered from `(A)`."""
    return "\n".join(
        [question, *(f"({letter}) {choice}" for letter, choice in zip(CHOICE_LETTERS, choices, strict=True))]
    )


def _document(question: str, steps: list[str], answer: str, rng: random.Random) -> Document:
    prompt = render_question(question, rng.randrange(len(TEMPLATES)))
    lines = "".join(render_step(step) for step in steps)
    return Document(prompt, f"{lines}{render_target(answer)}\n")


def full_solution(problem: Problem, rng: random.Random) -> Document:
    """Every step, then the answer."""
    return _document(problem.question, list(solve(problem, rng).steps), problem.answer, rng)


def direct_answer(problem: Problem, rng: random.Random) -> Document:
    """The answer at once."""
    return _document(problem.question, [], problem.answer, rng)


def partial_solution(problem: Problem, rng: random.Random) -> Document:
    """One step, the first few, or some of them, then the answer."""
    steps = list(solve(problem, rng).steps)
    shape = rng.random()
    if shape < 0.5:
        kept = [rng.choice(steps)]
    elif shape < 0.8:
        kept = steps[: rng.randint(1, len(steps))]
    else:
        kept = [step for step in steps if rng.random() < 0.6]
    return _document(problem.question, kept, problem.answer, rng)


def _with_inline_answer(solution: Solution) -> list[str]:
    return [*solution.steps[:-1], f"{solution.steps[-1]} {render_target(solution.answer)}"]


def inline_answer(problem: Problem, rng: random.Random) -> Document:
    """The last step, whole or alone, already states the answer, as in Math-Shepherd."""
    steps = _with_inline_answer(solve(problem, rng))
    kept = steps[-1:] if rng.random() < 0.3 else steps
    return _document(problem.question, kept, problem.answer, rng)


def wrong_solution(problem: Problem, rng: random.Random) -> Document:
    """A solution with a slip, which ends in its own wrong answer."""
    solution = make_mistake(problem, rng)
    steps = list(solution.steps) if rng.random() < 0.7 else _with_inline_answer(solution)
    return _document(problem.question, steps, solution.answer, rng)


def multiple_choice(problem: Problem, rng: random.Random) -> Document:
    """A full solution that ends in a letter."""
    choices, right = draw_choices(problem, rng)
    question = render_choices(problem.question, choices)
    return _document(question, list(solve(problem, rng).steps), CHOICE_LETTERS[right], rng)


SHARES: tuple[tuple[Callable[[Problem, random.Random], Document], float], ...] = (
    (full_solution, 0.53),
    (direct_answer, 0.15),
    (partial_solution, 0.15),
    (inline_answer, 0.08),
    (wrong_solution, 0.05),
    (multiple_choice, 0.04),
)


def documents(seed: int) -> Iterator[Document]:
    """An endless stream of training documents, half word problems, half expression problems.

    Args:
        seed: Decides the whole stream.
    """
    rng = random.Random(seed)
    writers, weights = zip(*SHARES, strict=True)
    while True:
        problem = draw(MAKERS["GSM8K" if rng.random() < 0.5 else "MATH"], rng, held_out=False)
        (write,) = rng.choices(writers, weights)
        yield write(problem, rng)
