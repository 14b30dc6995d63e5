r"""Math-Shepherd rows: five attempts at each question, with step labels from a few simulated completions.

    input   "Ana has 48 shells … Step 1: At first Ana has 48+12=<<48+12=60>>60 … ки\nStep 2: … The answer is: 12 ки"
    label   the same text with + or - in place of each ки
    task    GSM8K or MATH

As in the original, + means that some completion from there reached the answer. So labels err both ways: all completions
of a right step may fail, and one of a wrong step may succeed by luck. `truth` has the true correctness,
{"row_number": 7, "correct": [true, false]}. Rows are in blocks by task, wrong answers before right ones.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from cpmi_dagster.trajectories.templates import render_target
from scripts.miniature_world.plans import Problem
from scripts.miniature_world.question_rows import JsonRow
from scripts.miniature_world.slips import draw_solution, make_mistake
from scripts.miniature_world.solutions import Solution

STEP_MARK = "ки"
COMPLETIONS = 4
STEP_SURVIVAL = 0.93
RECOVERY = 0.05
RIGHT_SHARE = 0.85
SKILLS = (0.25, 0.5, 0.75, 0.95)
RESPACED_EVERY = 20


@dataclass(frozen=True)
class Attempt:
    """One trajectory: the problem, what was written, and Math-Shepherd's label for each step."""

    problem: Problem
    solution: Solution
    labels: tuple[bool, ...]

    @property
    def is_right(self) -> bool:
        """Whether the final answer is."""
        return self.solution.answer == self.problem.answer


def estimate_labels(problem: Problem, solution: Solution, skill: float, rng: random.Random) -> tuple[bool, ...]:
    """Math-Shepherd's hard estimate for each step: did any of a few completions from there reach the answer.

    `skill` is the chance that a completion of the last step alone succeeds; 0 for a question that nobody solves.
    """
    labels = []
    count = len(solution.steps)
    for step in range(count - 1):
        is_sound = solution.written[step].is_sound
        chance = skill * STEP_SURVIVAL ** (count - 1 - step) if is_sound else RECOVERY * (skill > 0)
        labels.append(any(rng.random() < chance for _completion in range(COMPLETIONS)))
    return (*labels, solution.answer == problem.answer)


def attempt(problem: Problem, skill: float, rng: random.Random) -> Attempt:
    """One attempt; without skill it slips in the first step."""
    is_right = skill > 0 and rng.random() < skill * RIGHT_SHARE
    solution = draw_solution(problem, rng, is_right) if skill else make_mistake(problem, rng, index=0)
    return Attempt(problem, solution, estimate_labels(problem, solution, skill, rng))


def attempts(problem: Problem, count: int, skill: float, rng: random.Random) -> list[Attempt]:
    """Different attempts at one question."""
    by_steps: dict[tuple[str, ...], Attempt] = {}
    while len(by_steps) < count:
        candidate = attempt(problem, skill, rng)
        by_steps[candidate.solution.steps] = candidate
    return list(by_steps.values())


def all_attempts(problems: Sequence[Problem], too_hard: int, count: int, rng: random.Random) -> list[Attempt]:
    """`count` attempts at every question, in the order of the published file; `too_hard` questions have only `-`."""
    hopeless = set(rng.sample(range(len(problems)), too_hard))
    tries: list[Attempt] = []
    for number, problem in enumerate(problems):
        tries += attempts(problem, count, 0.0 if number in hopeless else rng.choice(SKILLS), rng)
    return sorted(tries, key=lambda each: (each.problem.task, each.is_right))


def shepherd_row(tried: Attempt, question: str) -> JsonRow:
    """A row in the raw form: steps are numbered, the answer is on the last one's line."""
    steps = [f"Step {number}: {step}" for number, step in enumerate(tried.solution.steps, start=1)]
    steps[-1] += f" {render_target(tried.solution.answer)}"
    marked = "\n".join(f"{step} {STEP_MARK}" for step in steps)
    labelled = "\n".join(f"{step} {'+' if label else '-'}" for step, label in zip(steps, tried.labels, strict=True))
    return {"input": f"{question} {marked}", "label": f"{question} {labelled}", "task": tried.problem.task}


def irregular_rows() -> list[JsonRow]:
    """Unusable rows like some of the published file; each fails for another reason."""
    unknown = "A lighthouse blinks 3 times a minute. How often does it blink during one hour of fog?"
    steps = f"{unknown} Step 1: An hour has 60 minutes. {STEP_MARK}\nStep 2: It blinks 180 times. The answer is: 180"
    short = "Mia reads 4 pages a day. How many does she read in 5 days? Step 1: She reads 4*5=<<4*5=20>>20 pages."
    empty = "Tom has 12 pencils and buys 7 more. How many pencils does Tom have?"
    silent = "Lena runs 3 laps of 400 meters. How far does she run? Step 1: She runs 3*400=<<3*400=1200>>1200 meters."
    texts = (
        (f"{short} {STEP_MARK}\nStep 2: The answer is: 20 {STEP_MARK}", f"{short} +"),
        (empty, empty),
        (f"{silent} {STEP_MARK}", f"{silent} +"),
        (f"{steps} {STEP_MARK}", f"{steps} +".replace(STEP_MARK, "+")),
    )
    return [{"input": text, "label": label, "task": "GSM8K"} for text, label in texts]


def shepherd_files(tries: Sequence[Attempt], rng: random.Random) -> tuple[list[JsonRow], list[JsonRow]]:
    """The rows of `math_shepherd.jsonl`, irregular ones among them, and the truth about the others by row number."""
    entries: list[Attempt | JsonRow] = list(tries)
    for row in irregular_rows():
        entries.insert(rng.randrange(len(entries)), row)
    rows: list[JsonRow] = []
    truth: list[JsonRow] = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, Attempt):
            rows.append(entry)
            continue
        question = entry.problem.question
        if number % RESPACED_EVERY == 0:  # a double space, as in careless copies
            question = question.replace(". ", ".  ", 1)
        rows.append(shepherd_row(entry, question))
        solution = entry.solution
        truth.append({
            "row_number": number,
            "correct": list(solution.correct),
            "kind": [step.kind for step in solution.written],
            "operations_left": [step.operations_left for step in solution.written],
        })  # fmt: skip
    return rows, truth
