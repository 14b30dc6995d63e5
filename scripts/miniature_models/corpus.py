"""Training documents of the miniature language models: a prompt and what follows it.

    prompt        You are a careful math solver. ... Problem:\\nAna has 48 shells and ...\\nSolution: Let's ...\\n
    continuation  At first Ana has 48+12=<<48+12=60>>60 shells.\\n
                  One bag holds 60/5=<<60/5=12>>12 shells.\\n
                  The answer is: 12\\n

    early answers after no step, after step 1, after step 2 alone: The answer is: 12\\n

    marks         At first Ana has 48+12=<<48+12=61>>61 shells.\\n                  Wrong\\n
                  By the way, 3*4=<<3*4=12>>12.\\n                              Right\\n

Most documents are full correct solutions. Others slip and correct it, slip and end in a wrong answer, state "The answer
is: 12" in a step, or are multiple choice. The backbone also reads solutions with a mark after each step.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cpmi_dagster.trajectories.templates import TEMPLATES, render_question, render_step, render_target
from scripts.miniature_world.held_out import MAKERS, draw
from scripts.miniature_world.plans import Problem
from scripts.miniature_world.question_rows import CHOICE_LETTERS, draw_choices
from scripts.miniature_world.slips import draw_solution
from scripts.miniature_world.solutions import Solution, solve
from scripts.miniature_world.word_problems import LARGE, STANDARD

MARKS = {True: "Right\n", False: "Wrong\n"}
LARGE_SHARE = 0.25


class EarlyAnswer(NamedTuple):
    """The answer that a text would give before its end: after some of its steps, or after one of them alone."""

    steps: tuple[str, ...]
    answer: str


class Document(NamedTuple):
    """A training text. The loss is over the continuation and the early answers after `The answer is:`.

    With `marks`, one for each line of the continuation, it is over the marks alone.
    """

    prompt: str
    continuation: str
    early: tuple[EarlyAnswer, ...] = ()
    marks: tuple[str, ...] = ()


def render_choices(question: str, choices: list[str]) -> str:
    """A multiple-choice question with its options under it, one a line, lettered from `(A)`."""
    return "\n".join(
        [question, *(f"({letter}) {choice}" for letter, choice in zip(CHOICE_LETTERS, choices, strict=True))]
    )


def _document(question: str, steps: Sequence[str], answer: str, rng: random.Random) -> Document:
    """A text with early answers after every step, and after one step alone."""
    prompt = render_question(question, rng.randrange(len(TEMPLATES)))
    lines = tuple(render_step(step) for step in steps)
    contexts = [*(lines[:count] for count in range(len(lines))), (rng.choice(lines),)]
    early = tuple(EarlyAnswer(context, answer) for context in contexts)
    return Document(prompt, f"{''.join(lines)}{render_target(answer)}\n", early)


def full_solution(problem: Problem, rng: random.Random) -> Document:
    """Every step, then the answer."""
    return _document(problem.question, solve(problem, rng).steps, problem.answer, rng)


def recovered_solution(problem: Problem, rng: random.Random) -> Document:
    """A right answer in spite of slips that are noticed, or of a wrong remark that nothing uses."""
    return _document(problem.question, draw_solution(problem, rng, is_right=True).steps, problem.answer, rng)


def wrong_solution(problem: Problem, rng: random.Random) -> Document:
    """A solution with a slip that goes unnoticed and ends in its own wrong answer."""
    solution = draw_solution(problem, rng, is_right=False)
    steps = solution.steps if rng.random() < 0.7 else _with_inline_answer(solution)
    return _document(problem.question, steps, solution.answer, rng)


def inline_answer(problem: Problem, rng: random.Random) -> Document:
    """The last step already states the answer, as in Math-Shepherd."""
    return _document(problem.question, _with_inline_answer(solve(problem, rng)), problem.answer, rng)


def _with_inline_answer(solution: Solution) -> tuple[str, ...]:
    return (*solution.steps[:-1], f"{solution.steps[-1]} {render_target(solution.answer)}")


def multiple_choice(problem: Problem, rng: random.Random) -> Document:
    """A full solution that ends in a letter."""
    choices, right = draw_choices(problem, rng)
    question = render_choices(problem.question, choices)
    return _document(question, solve(problem, rng).steps, CHOICE_LETTERS[right], rng)


def marked_solution(problem: Problem, rng: random.Random) -> Document:
    """A right or wrong solution in the form of Math-Shepherd, with a mark after each step."""
    solution = draw_solution(problem, rng, is_right=rng.random() < 0.5)
    lines = map(render_step, _with_inline_answer(solution))
    prompt = render_question(problem.question, rng.randrange(len(TEMPLATES)))
    return Document(prompt, "".join(lines), marks=tuple(MARKS[is_right] for is_right in solution.correct))


SHARES: tuple[tuple[Callable[[Problem, random.Random], Document], float], ...] = (
    (full_solution, 0.56),
    (recovered_solution, 0.14),
    (wrong_solution, 0.14),
    (inline_answer, 0.1),
    (multiple_choice, 0.06),
)


def documents(seed: int, marked: float = 0) -> Iterator[Document]:
    """An endless stream of training documents, half word problems, half expression problems.

    Args:
        seed: Decides the whole stream.
        marked: The share of marked solutions, a quarter of them with large numbers.
    """
    rng = random.Random(seed)
    writers, weights = zip(*SHARES, strict=True)
    while True:
        make = MAKERS["GSM8K" if rng.random() < 0.5 else "MATH"]
        if marked and rng.random() < marked:
            size = LARGE if rng.random() < LARGE_SHARE else STANDARD
            yield marked_solution(draw(lambda rng, make=make, size=size: make(rng, size), rng, held_out=False), rng)
            continue
        problem = draw(make, rng, held_out=False)
        (write,) = rng.choices(writers, weights)
        yield write(problem, rng)
