"""The sentences that word problems are made of: how a story opens, what happens next, what is asked.

Marks: @name @friend @he @He @things come from the cast; @a @b @c are the story's numbers. In solution sentences
@work is the calculation. Each step has several wordings; the reference solution uses the first.

    opening   "@name has @a @things."
    event     "@He buys @b boxes with @c @things each."
              "The boxes hold @work @things."   "Then @he has @work @things."
"""

from dataclasses import dataclass
from typing import Literal

EventKind = Literal[
    "add", "subtract", "times", "share", "add_groups", "subtract_groups", "lose_percent", "add_multiple"
]

NAMES: tuple[tuple[str, str], ...] = (
    ("Ana", "she"), ("Ben", "he"), ("Clara", "she"), ("David", "he"), ("Emma", "she"), ("Felix", "he"),
    ("Grace", "she"), ("Henry", "he"), ("Iris", "she"), ("Jonas", "he"), ("Karen", "she"), ("Leo", "he"),
    ("Maria", "she"), ("Noah", "he"), ("Olga", "she"), ("Peter", "he"), ("Ruth", "she"), ("Simon", "he"),
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """What happens, and one tuple of wordings for each calculation it takes."""

    kind: EventKind
    text: str
    steps: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Theme:
    """A family of stories: what is counted, how it opens, what may happen, what is asked of one person and of two."""

    things: tuple[str, ...]
    openings: tuple[Event, ...]
    events: tuple[Event, ...]
    questions: tuple[str, ...]
    of_two: tuple[Event, ...] = ()


COLLECTION = Theme(
    things=("stickers", "marbles", "stamps", "coins", "shells", "cards", "beads", "buttons"),
    openings=(
        Event("add", "@name has @a @things and finds @b more.", (
            ("At first @name has @work @things.", "@name starts with @work @things."),)),
        Event("add_groups", "@name has @a @things and gets @b boxes with @c @things each.", (
            ("The boxes hold @work @things.", "There are @work @things in the boxes."),
            ("So @name has @work @things.", "That makes @work @things for @name."))),
    ),
    events=(
        Event("add", "@friend gives @b @things to @name.", (
            ("With the gift @he has @work @things.", "After the gift there are @work @things."),)),
        Event("subtract", "@He loses @b @things.", (
            ("Now @he has @work @things left.", "That leaves @work @things."),)),
        Event("times", "Then @he trades until @he has @b times as many @things.", (
            ("The trades bring @him to @work @things.", "After trading @he has @work @things."),)),
        Event("share", "@He puts the @things equally into @b bags and keeps one bag.", (
            ("One bag holds @work @things.", "@He keeps a bag of @work @things."),)),
        Event("add_groups", "@He buys @b packs of @c @things.", (
            ("The packs contain @work @things.", "@He buys @work @things."),
            ("Then @he has @work @things.", "Together that is @work @things."))),
        Event("subtract_groups", "@He gives @c @things to each of @b friends.", (
            ("The friends get @work @things.", "@He gives away @work @things."),
            ("@He still has @work @things.", "So @work @things remain."))),
        Event("lose_percent", "@He sells @b% of the @things.", (
            ("@He sells @work @things.", "The sold part is @work @things."),
            ("After the sale @he has @work @things.", "So @he keeps @work @things."))),
        Event("add_multiple", "@friend, who has @b times as many @things, adds all of them.", (
            ("@friend adds @work @things.", "@friend has @work @things."),
            ("Together they have @work @things.", "The total is @work @things."))),
    ),
    questions=("How many @things are there in the end?", "How many @things does @name have now?"),
    of_two=(
        Event("add", "How many @things do @first and @name have together?", (
            ("Together they have @work @things.", "That makes @work @things for both."),)),
        Event("subtract", "How many more @things does @first have than @name?", (
            ("The difference is @work @things.", "So @first has @work more @things."),)),
    ),
)  # fmt: skip

FARM = Theme(
    things=("apples", "eggs", "pears", "plums", "melons", "lemons"),
    openings=(
        Event("add_groups", "A farm stores @a @things. On Monday @b workers bring @c @things each.", (
            ("The workers bring @work @things.", "On Monday @work @things come in."),
            ("The farm then stores @work @things.", "After Monday there are @work @things."))),
        Event("subtract", "A farm harvests @a @things, but @b of them are rotten.", (
            ("The farm has @work good @things.", "Only @work @things are good."),)),
    ),
    events=(
        Event("add", "On the next day the farm harvests @b more @things.", (
            ("After the harvest there are @work @things.", "Then the farm stores @work @things."),)),
        Event("subtract", "The birds eat @b @things.", (
            ("The birds leave @work @things.", "Then @work @things are left."),)),
        Event("times", "With new fields the store becomes @b times as large.", (
            ("The new store is @work @things.", "The fields raise it to @work @things."),)),
        Event("share", "The store is split equally among @b markets, and we follow one market.", (
            ("Each market gets @work @things.", "One market receives @work @things."),)),
        Event("add_groups", "A truck brings @b crates with @c @things each.", (
            ("The crates hold @work @things.", "The truck brings @work @things."),
            ("The total is now @work @things.", "So there are @work @things."))),
        Event("subtract_groups", "The kitchen uses @c @things on each of @b days.", (
            ("The kitchen uses @work @things.", "It needs @work @things for the kitchen."),
            ("After that @work @things remain.", "This leaves @work @things."))),
        Event("lose_percent", "A storm destroys @b% of the @things.", (
            ("The storm destroys @work @things.", "Lost in the storm: @work @things."),
            ("The storm leaves @work @things.", "So @work @things survive."))),
        Event("add_multiple", "A second farm with @b times as many @things joins in.", (
            ("The second farm has @work @things.", "The other farm brings @work @things."),
            ("Together the farms have @work @things.", "Both farms have @work @things."))),
    ),
    questions=("How many @things are there in the end?", "How many @things remain?"),
)  # fmt: skip

MONEY = Theme(
    things=("dollars",),
    openings=(
        Event("add_groups", "@name has $@a and works @b hours for $@c an hour.", (
            ("@name earns $@work.", "The work pays $@work."),
            ("So @he has $@work.", "With the pay @he has $@work."))),
        Event("subtract_groups", "@name has $@a and buys @b tickets for $@c each.", (
            ("The tickets cost $@work.", "@name pays $@work for the tickets."),
            ("@name has $@work left.", "That leaves $@work."))),
    ),
    events=(
        Event("add", "@He gets a bonus of $@b.", (
            ("The bonus makes it $@work.", "After the bonus @he has $@work."),)),
        Event("subtract", "@He pays a bill of $@b.", (
            ("After the bill @he has $@work.", "The bill leaves $@work."),)),
        Event("times", "An investment makes the money @b times as much.", (
            ("The investment grows to $@work.", "Now the money is $@work."),)),
        Event("share", "@He divides the money equally among @b people and takes one part.", (
            ("One part is $@work.", "Each person gets $@work."),)),
        Event("add_groups", "@He sells @b cakes for $@c each.", (
            ("The cakes bring $@work.", "@He takes in $@work for the cakes."),
            ("Then @he has $@work.", "The sum is $@work."))),
        Event("subtract_groups", "@He buys @b books for $@c each.", (
            ("The books cost $@work.", "@He spends $@work on books."),
            ("After the books @he has $@work.", "So $@work are left."))),
        Event("lose_percent", "@He pays @b% of the money as tax.", (
            ("The tax is $@work.", "@He pays $@work of tax."),
            ("After tax @he has $@work.", "The rest is $@work."))),
        Event("add_multiple", "@friend, who has @b times as much money, gives all of it to @name.", (
            ("@friend gives $@work.", "@friend has $@work."),
            ("Together it is $@work.", "Now @name has $@work."))),
    ),
    questions=("How many dollars does @name have in the end?", "How much money is that in the end?"),
    of_two=(
        Event("add", "How many dollars do @first and @name have together?", (
            ("Together they have $@work.", "Both amounts make $@work."),)),
        Event("subtract", "How many more dollars does @first have than @name?", (
            ("The difference is $@work.", "So @first has $@work more."),)),
    ),
)  # fmt: skip

THEMES: tuple[Theme, ...] = (COLLECTION, FARM, MONEY)
