"""Word problems in GSM8K's manner: an opening, some events that change one running amount, a question.

Ana has 48 shells and finds 12 more. Ben gives 30 shells to Ana. She puts the shells equally into 5 bags and keeps
one bag. How many shells does Ana have now?
→ 48+12, then +30, then /5: answer 18
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from cpmi_dagster.miniature.plans import Earlier, Operand, Operation, Problem, run_plan
from cpmi_dagster.miniature.quantities import rational, whole
from cpmi_dagster.miniature.story_themes import NAMES, THEMES, Event, EventKind, Theme

LARGEST_AMOUNT = 9_999
PERCENTAGES = (5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 80)
DIVISORS = tuple(range(2, 16))


class NoRoom(ValueError):
    """An event does not fit the running amount, such as a division that leaves a remainder."""


@dataclass(frozen=True)
class Difficulty:
    """How long and how large problems are: operations from `fewest` to `most`, numbers up to about `scale` times."""

    fewest: int = 2
    most: int = 8
    scale: int = 1


STANDARD = Difficulty()
HARD = Difficulty(fewest=7, most=11, scale=3)


class Drawn(NamedTuple):
    """The numbers of one event and the operations they make, as (left, operator, right)."""

    b: int
    c: int | None
    calculations: tuple[tuple[Operand, str, Operand], ...]


@dataclass
class Story:
    """A story in the making: its sentences, its plan and where the running amount stands."""

    cast: dict[str, str]
    difficulty: Difficulty
    sentences: list[str] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    amount: int = 0

    @property
    def current(self) -> Operand:
        """The running amount as an operand."""
        return Earlier(len(self.operations) - 1) if self.operations else whole(self.amount)

    @property
    def next_result(self) -> Earlier:
        """The result of the operation that comes next."""
        return Earlier(len(self.operations))

    def fill(self, sentence: str) -> str:
        """The sentence with the cast's names in it, longest mark first so that @he spares @He and @her."""
        for mark in sorted(self.cast, key=len, reverse=True):
            sentence = sentence.replace(f"@{mark}", self.cast[mark])
        return sentence


def _draw_add(story: Story, rng: random.Random) -> Drawn:
    b = rng.randint(12, 180 * story.difficulty.scale)
    return Drawn(b, None, ((story.current, "+", whole(b)),))


def _draw_subtract(story: Story, rng: random.Random) -> Drawn:
    if story.amount < 30:
        raise NoRoom
    b = rng.randint(8, story.amount - 10)
    return Drawn(b, None, ((story.current, "-", whole(b)),))


def _draw_times(story: Story, rng: random.Random) -> Drawn:
    b = rng.randint(2, 8 + story.difficulty.scale)
    return Drawn(b, None, ((story.current, "*", whole(b)),))


def _draw_share(story: Story, rng: random.Random) -> Drawn:
    divisors = [divisor for divisor in DIVISORS if story.amount % divisor == 0 and story.amount // divisor >= 6]
    if not divisors:
        raise NoRoom
    b = rng.choice(divisors)
    return Drawn(b, None, ((story.current, "/", whole(b)),))


def _draw_add_groups(story: Story, rng: random.Random) -> Drawn:
    b, c = rng.randint(3, 12 * story.difficulty.scale), rng.randint(4, 29)
    return Drawn(b, c, ((whole(b), "*", whole(c)), (story.current, "+", story.next_result)))


def _draw_subtract_groups(story: Story, rng: random.Random) -> Drawn:
    b, c = rng.randint(2, 12), rng.randint(3, 24)
    if b * c > story.amount - 6:
        raise NoRoom
    return Drawn(b, c, ((whole(b), "*", whole(c)), (story.current, "-", story.next_result)))


def _draw_lose_percent(story: Story, rng: random.Random) -> Drawn:
    percentages = [percentage for percentage in PERCENTAGES if story.amount * percentage % 100 == 0]
    if not percentages:
        raise NoRoom
    b = rng.choice(percentages)
    return Drawn(b, None, ((story.current, "*", rational(b, 100)), (story.current, "-", story.next_result)))


def _draw_add_multiple(story: Story, rng: random.Random) -> Drawn:
    b = rng.randint(2, 7)
    return Drawn(b, None, ((story.current, "*", whole(b)), (story.current, "+", story.next_result)))


DRAWS: dict[EventKind, Callable[[Story, random.Random], Drawn]] = {
    "add": _draw_add,
    "subtract": _draw_subtract,
    "times": _draw_times,
    "share": _draw_share,
    "add_groups": _draw_add_groups,
    "subtract_groups": _draw_subtract_groups,
    "lose_percent": _draw_lose_percent,
    "add_multiple": _draw_add_multiple,
}


def _tell(story: Story, event: Event, rng: random.Random) -> None:
    """Let an event happen in the story.

    Raises:
        NoRoom: It does not fit the running amount; the story is left as it was.
    """
    drawn = DRAWS[event.kind](story, rng)
    operations = [
        Operation(left, operator, right, tuple(story.fill(wording) for wording in wordings))
        for (left, operator, right), wordings in zip(drawn.calculations, event.steps, strict=True)
    ]
    amount = run_plan((*story.operations, *operations))[-1]
    if not amount.is_whole or not 5 <= amount.coefficient <= LARGEST_AMOUNT * story.difficulty.scale:
        raise NoRoom
    text = story.fill(event.text).replace("@a", str(story.amount)).replace("@b", str(drawn.b))
    story.sentences.append(text.replace("@c", str(drawn.c)))
    story.operations += operations
    story.amount = int(amount.coefficient)


def _cast(theme: Theme, rng: random.Random) -> dict[str, str]:
    (name, pronoun), (friend, _pronoun) = rng.sample(NAMES, 2)
    return {
        "name": name,
        "friend": friend,
        "things": rng.choice(theme.things),
        "he": pronoun,
        "He": pronoun.capitalize(),
        "him": "him" if pronoun == "he" else "her",
    }


def _try_story(rng: random.Random, difficulty: Difficulty, length: int) -> Problem:
    """One story with `length` operations.

    Raises:
        NoRoom: The events drawn do not fit.
    """
    theme = rng.choice(THEMES)
    story = Story(_cast(theme, rng), difficulty, amount=rng.randint(40, 300 * difficulty.scale))
    _tell(story, rng.choice(theme.openings), rng)
    while len(story.operations) < length:
        fitting = [event for event in theme.events if len(event.steps) <= length - len(story.operations)]
        _tell(story, rng.choice(fitting), rng)
    if len(story.operations) != length:
        raise NoRoom
    question = " ".join([*story.sentences, story.fill(rng.choice(theme.questions))])
    level = min(5, (length + 1) // 2)
    return Problem("GSM8K", "Word problem", level, question, tuple(story.operations))


def draw_length(rng: random.Random, difficulty: Difficulty) -> int:
    """A number of operations; lengths in the middle of the range are the commonest."""
    return round(rng.triangular(difficulty.fewest - 0.49, difficulty.most + 0.49, difficulty.fewest + 2))


def make_word_problem(rng: random.Random, difficulty: Difficulty = STANDARD) -> Problem:
    """A random word problem.

    Args:
        rng: Chooses theme, cast, events and numbers.
        difficulty: How long the story is and how large its numbers are.
    """
    length = draw_length(rng, difficulty)
    while True:
        try:
            return _try_story(rng, difficulty, length)
        except NoRoom:
            continue
