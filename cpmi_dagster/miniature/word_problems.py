"""Word problems in GSM8K's manner: an opening, some events that change one running amount, a question.

Ana has 48 shells and finds 12 more. Ben gives 30 shells to Ana. She puts the shells equally into 5 bags and keeps
one bag. How many shells does Ana have now?
→ 48+12, then +30, then /5: answer 18

Or two such stories, of two people, and a question about both.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from cpmi_dagster.miniature.plans import Earlier, Operand, Operation, Problem, run_plan
from cpmi_dagster.miniature.quantities import rational, whole
from cpmi_dagster.miniature.story_themes import NAMES, THEMES, Event, EventKind, Theme

LARGEST_AMOUNT = 50
PERCENTAGES = (10, 20, 25, 40, 50, 60, 75, 80)
DIVISORS = tuple(range(2, 6))
FEWEST_OPERATIONS_OF_TWO = 3
SHARE_OF_TWO = 0.6


class NoRoom(ValueError):
    """An event does not fit the running amount, such as a division that leaves a remainder."""


@dataclass(frozen=True)
class Difficulty:
    """How long and how large problems are: operations from `fewest` to `most`, numbers up to about `scale` times."""

    fewest: int = 2
    most: int = 7
    scale: int = 1


STANDARD = Difficulty()
LONG = Difficulty(fewest=7, most=8)
HARD = Difficulty(fewest=7, most=11, scale=3)


OPERATORS: dict[EventKind, str] = {
    "add": "+", "subtract": "-", "times": "*", "share": "/", "add_groups": "+", "subtract_groups": "-",
    "lose_percent": "-", "add_multiple": "+",
}  # fmt: skip


@dataclass
class Story:
    """An unfinished story: its sentences and plan, where the present person's part starts, and their running amount."""

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


def _possible_numbers(kind: EventKind, amount: int, scale: int) -> tuple[Sequence[int], Sequence[int]]:
    """What @b and @c of an event may be: no @b where none fits the running amount, no @c where the event has none."""
    match kind:
        case "add":
            return range(2, 9 * scale + 1), ()
        case "subtract":
            return range(2, min(amount - 1, 9 * scale + 1)), ()
        case "times":
            return range(2, 3 + scale), ()
        case "share":
            return [divisor for divisor in DIVISORS if amount % divisor == 0 and amount // divisor >= 2], ()
        case "add_groups":
            return range(2, 3 * scale + 1), range(2, 6)
        case "subtract_groups":
            return range(2, 5), range(2, 5)
        case "lose_percent":
            return [percentage for percentage in PERCENTAGES if amount * percentage % 100 == 0], ()
        case "add_multiple":
            return range(2, 4), ()


def _calculations(kind: EventKind, b: int, c: int, story: Story) -> list[tuple[Operand, str, Operand]]:
    """The calculations of an event, as (left, operator, right): a part first, where the event has one."""
    match kind:
        case "add_groups" | "subtract_groups":
            part = (whole(b), "*", whole(c))
        case "lose_percent":
            part = (story.current, "*", rational(b, 100))
        case "add_multiple":
            part = (story.current, "*", whole(b))
        case _:
            return [(story.current, OPERATORS[kind], whole(b))]
    return [part, (story.current, OPERATORS[kind], Earlier(len(story.operations)))]


def _add_event(story: Story, event: Event, rng: random.Random) -> None:
    """Draw an event's numbers and add it to the story.

    Raises:
        NoRoom: It does not fit the running amount; the story is left as it was.
    """
    b_choices, c_choices = _possible_numbers(event.kind, story.amount, story.difficulty.scale)
    if not b_choices:
        raise NoRoom
    b, c = rng.choice(b_choices), rng.choice(c_choices) if c_choices else 0
    if event.kind == "subtract_groups" and b * c > story.amount - 2:
        raise NoRoom
    operations = [
        Operation(left, operator, right, tuple(story.fill(wording) for wording in wordings))
        for (left, operator, right), wordings in zip(_calculations(event.kind, b, c, story), event.steps, strict=True)
    ]
    amount = run_plan((*story.operations, *operations))[-1]
    if not amount.is_whole or not 2 <= amount.coefficient <= LARGEST_AMOUNT * story.difficulty.scale:
        raise NoRoom
    text = story.fill(event.text).replace("@a", str(story.amount)).replace("@b", str(b))
    story.sentences.append(text.replace("@c", str(c)))
    story.operations += operations
    story.amount = int(amount.coefficient)


def _cast(theme: Theme, rng: random.Random) -> tuple[dict[str, str], dict[str, str]]:
    """Two people with a friend each, who count the same things; the second knows the @first."""
    things, people = rng.choice(theme.things), rng.sample(NAMES, 4)
    first, second = (
        {
            "name": name,
            "friend": friend,
            "first": people[0][0],
            "things": things,
            "he": pronoun,
            "He": pronoun.capitalize(),
            "him": "him" if pronoun == "he" else "her",
        }
        for (name, pronoun), (friend, _pronoun) in (people[:2], people[2:])
    )
    return first, second


def _tell(story: Story, theme: Theme, length: int, rng: random.Random) -> None:
    """Add an opening and events of `length` operations in all.

    Raises:
        NoRoom: The events drawn do not fit.
    """
    story.start, story.amount = len(story.operations), rng.randint(3, 20 * story.difficulty.scale)
    openings = [event for event in theme.openings if len(event.steps) <= length]
    if not openings:
        raise NoRoom
    _add_event(story, rng.choice(openings), rng)
    while (left := story.start + length - len(story.operations)) > 0:
        _add_event(story, rng.choice([event for event in theme.events if len(event.steps) <= left]), rng)


def _compare(story: Story, event: Event, first: Earlier, first_amount: int) -> None:
    """Ask about both people; a difference needs the first to have more.

    Raises:
        NoRoom: It is not so.
    """
    if event.kind == "subtract" and first_amount <= story.amount:
        raise NoRoom
    sentences = tuple(story.fill(wording) for wording in event.steps[0])
    story.operations.append(Operation(first, OPERATORS[event.kind], story.current, sentences))
    story.sentences.append(story.fill(event.text))


def _try_story(rng: random.Random, difficulty: Difficulty, length: int) -> Problem:
    """One story with `length` operations, of one person or of two.

    Raises:
        NoRoom: The events drawn do not fit.
    """
    theme = rng.choice(THEMES)
    cast, second_cast = _cast(theme, rng)
    story = Story(cast, difficulty)
    if theme.of_two and length >= FEWEST_OPERATIONS_OF_TWO and rng.random() < SHARE_OF_TWO:
        first_length = rng.randint(1, length - 2)
        _tell(story, theme, first_length, rng)
        first, first_amount = Earlier(first_length - 1), story.amount
        story.cast = second_cast
        _tell(story, theme, length - 1 - first_length, rng)
        _compare(story, rng.choice(theme.of_two), first, first_amount)
    else:
        _tell(story, theme, length, rng)
        story.sentences.append(story.fill(rng.choice(theme.questions)))
    question = " ".join(story.sentences)
    return Problem("GSM8K", "Word problem", min(5, (length + 1) // 2), question, tuple(story.operations))


def draw_length(rng: random.Random, difficulty: Difficulty) -> int:
    """A number of operations; lengths in the middle of the range are the commonest."""
    return round(rng.triangular(difficulty.fewest - 0.49, difficulty.most + 0.49, difficulty.fewest + 2))


def make_word_problem(rng: random.Random, difficulty: Difficulty = STANDARD) -> Problem:
    """A random word problem."""
    length = draw_length(rng, difficulty)
    while True:
        try:
            return _try_story(rng, difficulty, length)
        except NoRoom:
            continue
