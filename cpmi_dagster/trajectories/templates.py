"""The K = 4 templates of the paper's appendix, and the prompts made of them.

A context is the template with the question, then each step stripped and followed by one newline; the target is a line
that states an answer:

    You are a careful math solver. Follow the steps methodically. Keep each step concise.
    At the end, output exactly one line in the format:
    The answer is: <final answer>

    Problem:
    Weng earns $12 an hour for babysitting. Yesterday, she babysat for 50 minutes. How much did she earn?
    Solution: Let's think step by step.
    She earned 12 / 60 = $0.2 per minute.
    The answer is: 10
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

QUESTION_SLOT = "{q}"

TEMPLATES: tuple[str, ...] = (
    "You are a careful math solver. Follow the steps methodically. Keep each step concise.\n"
    "At the end, output exactly one line in the format:\n"
    "The answer is: <final answer>\n\n"
    "Problem:\n{q}\n"
    "Solution: Let's think step by step.\n",
    "Solve the problem with numbered steps. Be precise. Finally print exactly:\n"
    "The answer is: <final answer>\n"
    "If numeric, use plain digits only (no punctuation).\n\n"
    "Problem:\n{q}\n"
    "Solution (step-by-step):\n",
    "Work through the solution briefly, then verify and conclude. Conclude with exactly:\n"
    "The answer is: <final answer>\n\n"
    "Problem:\n{q}\n"
    "Solution: Let's proceed carefully.\n",
    "You are solving a math problem. Compute step by step. End with exactly:\n"
    "The answer is: <final answer>\n\n"
    "Problem:\n{q}\n"
    "Solution: Let's think step by step.\n",
)

NEGATIVE_INSTRUCTION = (
    "Generate several plausible but incorrect answers to the given question. Identify any wrong step and take that "
    "step's wrong computed result or the mistaken number used in it as a hard-negative example. Try to include all "
    "earlier steps' wrong intermediate outputs if possible. If all steps seem correct, return a plausible wrong number "
    "(±1, ±2, or ±10%).\n\n"
    "Output exactly one short line after 'The answer is:' no units or words. \n"
)

ANSWER_PREFIX = "The answer is:"


def render_question(question: str, template: int = 0) -> str:
    """Fill template number `template`, from 0, with the question; the text ends in a newline.

    The slot is replaced, not formatted, so braces in LaTeX questions stay.
    """
    return TEMPLATES[template].replace(QUESTION_SLOT, question)


def render_step(step: str) -> str:
    """A step of a context: stripped, followed by one newline."""
    return step.strip() + "\n"


def render_target(answer: str) -> str:
    """The line whose log-probability is measured (Eq. 3): `The answer is: {answer}`."""
    return f"{ANSWER_PREFIX} {answer}"


@dataclass(frozen=True)
class Layout:
    """The text layout for scoring.

    Attributes:
        question: text of a question and a template number, from 0.
        step: text of a step and its number, from 1.
        target: text that is scored, of an answer.
    """

    question: Callable[[str, int], str]
    step: Callable[[str, int], str]
    target: Callable[[str], str]


LAYOUTS: dict[str, Layout] = {
    "paper": Layout(render_question, lambda step, _: render_step(step), render_target),
    "released": Layout(
        lambda question, template: render_question(question, template).rstrip("\n") + "\n\n",
        lambda step, number: f"Step {number}: {step.strip()}\n\n",
        lambda answer: answer,
    ),
}
"""`paper`: the target contains `The answer is: `. `released`, the authors' code: `Step i: ` before a step, blank lines
between the pieces, and the bare answer as target."""


def render_context(question: str, steps: Sequence[str]) -> str:
    """First template, question and steps, to be followed by a target or a continuation."""
    return render_question(question) + "".join(render_step(step) for step in steps)


def render_negative_prompt(question: str, steps: Sequence[str], gold_answer: str) -> str:
    """The hard-negative prompt of appendix A: base prompt, gold answer, instruction, steps, `The answer is: `."""
    return (
        f"{render_question(question)}\n(Gold answer: {gold_answer})\n\n{NEGATIVE_INSTRUCTION}\n"
        f"{''.join(render_step(step) for step in steps)}{ANSWER_PREFIX} "
    )
