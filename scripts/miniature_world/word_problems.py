"""Word problems in GSM8K's manner: an opening, some events that change one running amount, a question.

Ana has 48 shells and finds 12 more. Ben gives 30 shells to Ana. She puts the shells equally into 5 bags and keeps
one bag. How many shells does Ana have now?
→ 48+12, then +30, then /5: answer 18

Or two such stories, of two people, and a question about both.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from scripts.miniature_world.plans import Earlier, Operand, Operation, Problem, run_plan
from scripts.miniature_world.quantities import rational, whole
from scripts.miniature_world.story_themes import NAMES, THEMES, Event, EventKind, Theme

LARGEST_AMOUNT = 50
PERCENTAGES = (10, 20, 25, 40, 50, 60, 75, 80)
DIVISORS = tuple(range(2, 6))
FEWEST_OPERATIONS_OF_TWO = 3
SHARE_OF_TWO = 0.6


class NoRoom(ValueError):
    """An event does not fit the running amount, such as a division with a remainder."""


@dataclass(frozen=True)
class Difficulty:
    """Operations of a problem, from `fewest` to `most`, and the scale of its numbers."""

    fewest: int = 2
    most: int = 7
    scale: int = 1


STANDARD = Difficulty()
LONG = Difficulty(fewest=7, most=8)
LARGE = Difficulty(scale=3)
HARD = Difficulty(fewest=7, most=11, scale=3)


OPERATORS: dict[EventKind, str] = {
    "add": "+", "subtract": "-", "times": "*", "share": "/", "add_groups": "+", "subtract_groups": "-",
    "lose_percent": "-", "add_multiple": "+",
}  # fmt: skip


@dataclass
class Story:
    """An unfinished story: sentences, plan, the first operation about the present person, and their running amount."""

    cast: dict[str, str]
    difficulty: Difficulty
    sentences: list[str] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    start: int = 0
    amount: int = 0

    @property
    def current(self) -> Operand:
        """The running amount as an operand; before the person's first operation it is in the question."""
        return Earlier(len(self.operations) - 1) if len(self.operations) > self.start else whole(self.amount)

    def fill(self, sentence: str) -> str:
        """The sentence with the cast's names in it, longest mark first so that @he spares @He and @her."""
        for mark in sorted(self.cast, key=len, reverse=True):
            sentence = sentence.replace(f"@{mark}", self.cast[mark])
        return sentence


def _add_event(story: Story, event: Event, rng: random.Random) -> None:
    """Draw an event's numbers and add it to the story; raises NoRoom if it does not fit the running amount."""
    amount, scale = story.amount, story.difficulty.scale
    numbers: dict[EventKind, Sequence[int]] = {
        "add": range(2, 9 * scale + 1),
        "subtract": range(2, min(amount - 1, 9 * scale + 1)),
        "times": range(2, 3 + scale),
        "share": [divisor for divisor in DIVISORS if amount % divisor == 0 and amount // divisor >= 2],
        "add_groups": range(2, 3 * scale + 1),
        "subtract_groups": range(2, 5),
        "lose_percent": [percentage for percentage in PERCENTAGES if amount * percentage % 100 == 0],
        "add_multiple": range(2, 4),
    }
    group_sizes = {"add_groups": range(2, 6), "subtract_groups": range(2, 5)}
    if not numbers[event.kind]:
        raise NoRoom
    b = rng.choice(numbers[event.kind])
    c = rng.choice(group_sizes[event.kind]) if event.kind in group_sizes else 0
    if event.kind == "subtract_groups" and b * c > amount - 2:
        raise NoRoom
    parts: dict[EventKind, tuple[Operand, Operand]] = {
        "add_groups": (whole(b), whole(c)),
        "subtract_groups": (whole(b), whole(c)),
        "lose_percent": (story.current, rational(b, 100)),
        "add_multiple": (story.current, whole(b)),
    }
    calculations: list[tuple[Operand, str, Operand]] = [(story.current, OPERATORS[event.kind], whole(b))]
    if event.kind in parts:
        left, right = parts[event.kind]
        part = Earlier(len(story.operations))
        calculations = [(left, "*", right), (story.current, OPERATORS[event.kind], part)]
    operations = [
        Operation(*calculation, tuple(story.fill(wording) for wording in wordings))
        for calculation, wordings in zip(calculations, event.steps, strict=True)
    ]
    result = run_plan((*story.operations, *operations))[-1]
    if not result.is_whole or not 2 <= result.coefficient <= LARGEST_AMOUNT * scale:
        raise NoRoom
    text = story.fill(event.text).replace("@a", str(amount)).replace("@b", str(b))
    story.sentences.append(text.replace("@c", str(c)))
    story.operations += operations
    story.amount = int(result.coefficient)


def _tell(story: Story, theme: Theme, length: int, rng: random.Random) -> None:
    """Add an opening and events of `length` operations in all; raises NoRoom if the drawn events do not fit."""
    story.start, story.amount = len(story.operations), rng.randint(3, 20 * story.difficulty.scale)
    openings = [event for event in theme.openings if len(event.steps) <= length]
    if not openings:
        raise NoRoom
    _add_event(story, rng.choice(openings), rng)
    while (left := story.start + length - len(story.operations)) > 0:
        _add_event(story, rng.choice([event for event in theme.events if len(event.steps) <= left]), rng)


def _try_story(rng: random.Random, difficulty: Difficulty, length: int) -> Problem:
    """One story with `length` operations, of one or two people; raises NoRoom if the drawn events do not fit."""
    theme = rng.choice(THEMES)
    things, people = rng.choice(theme.things), rng.sample(NAMES, 4)
    # two people with a friend each, who count the same things; the second knows the @first
    cast, second_cast = (
        {
            "name": name, "friend": friend, "first": people[0][0], "things": things,
            "he": pronoun, "He": pronoun.capitalize(), "him": "him" if pronoun == "he" else "her",
        }
        for (name, pronoun), (friend, _pronoun) in (people[:2], people[2:])
    )  # fmt: skip
    story = Story(cast, difficulty)
    if theme.of_two and length >= FEWEST_OPERATIONS_OF_TWO and rng.random() < SHARE_OF_TWO:
        first_length = rng.randint(1, length - 2)
        _tell(story, theme, first_length, rng)
        first, first_amount = Earlier(first_length - 1), story.amount
        story.cast = second_cast
        _tell(story, theme, length - 1 - first_length, rng)
        event = rng.choice(theme.of_two)
        if event.kind == "subtract" and first_amount <= story.amount:
            raise NoRoom
        sentences = tuple(story.fill(wording) for wording in event.steps[0])
        story.operations.append(Operation(first, OPERATORS[event.kind], story.current, sentences))
        story.sentences.append(story.fill(event.text))
    else:
        _tell(story, theme, length, rng)
        story.sentences.append(story.fill(rng.choice(theme.questions)))
    question = " ".join(story.sentences)
    return Problem("GSM8K", "Word problem", min(5, (length + 1) // 2), question, tuple(story.operations))


def draw_length(rng: random.Random, difficulty: Difficulty) -> int:
    """A number of operations; the middle of the range is most frequent."""
    return round(rng.triangular(difficulty.fewest - 0.49, difficulty.most + 0.49, difficulty.fewest + 2))


def make_word_problem(rng: random.Random, difficulty: Difficulty = STANDARD) -> Problem:
    """A random word problem."""
    length = draw_length(rng, difficulty)
    while True:
        try:
            return _try_story(rng, difficulty, length)
        except NoRoom:
            continue
