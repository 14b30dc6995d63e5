"""Stories of facts and rules in LogicNLI's manner, and what follows for each person.

    facts   Ana has 48 shells.   Ben has 7 shells.   Leo has some shells.
    rules   If someone has more than 40 shells, then he is glad.
            If someone has an even number of shells, then he is not glad.
            If someone is glad, then he is calm.

    Ben is glad.    neutral              no rule speaks of 7 shells
    Ana is glad.    self_contradiction   48 is more than 40, and even

The rules about numbers are applied first; rules from one property to another are then followed in both
directions (who is not calm is not glad). No property is the conclusion of two such rules, so that this finds all that
follows. For people about whom the story contradicts itself, only the contradicted properties are stated.
"""

import random
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, get_args

from scripts.miniature_world.story_themes import NAMES, THEMES

Label = Literal["entailment", "contradiction", "neutral", "self_contradiction"]
LABELS: tuple[Label, ...] = get_args(Label)
PROPERTIES: tuple[str, ...] = ("glad", "calm", "proud", "busy", "kind", "brave", "tidy", "quiet")
OF_NUMBERS = 4
PEOPLE = 5
STATEMENTS_OF_A_LABEL = 2
LARGEST = 99


class Property(NamedTuple):
    """Being something, or not."""

    name: str
    holds: bool = True

    def __str__(self) -> str:
        """As rules write it: `not glad`."""
        return self.name if self.holds else f"not {self.name}"

    @property
    def opposite(self) -> "Property":
        """The other of the two."""
        return Property(self.name, not self.holds)


class NumberRule(NamedTuple):
    """What follows for a person whose number meets a condition."""

    condition: str
    applies: Callable[[int], bool]
    then: Property


class PropertyRule(NamedTuple):
    """A property that follows from another."""

    given: Property
    then: Property


class Story(NamedTuple):
    """Facts, rules, and statements with their labels, two of each label."""

    facts: tuple[str, ...]
    rules: tuple[str, ...]
    statements: tuple[tuple[str, Label], ...]


def follows(number: int | None, numbers: Iterable[NumberRule], properties: Iterable[PropertyRule]) -> set[Property]:
    """Every property that follows for a person; a property and its opposite if the rules contradict each other.

    Args:
        number: how many things the person has; None if the facts do not give it.
        numbers: rules about numbers.
        properties: rules from one property to another, no two with the same conclusion.
    """
    derived = {rule.then for rule in numbers if number is not None and rule.applies(number)}
    both_ways = [step for rule in properties for step in (rule, PropertyRule(rule.then.opposite, rule.given.opposite))]
    while new := {rule.then for rule in both_ways if rule.given in derived} - derived:
        derived |= new
    return derived


def label_of(stated: Property, derived: set[Property]) -> Label:
    """The label of a statement, given all that follows."""
    if stated in derived and stated.opposite in derived:
        return "self_contradiction"
    if stated in derived:
        return "entailment"
    return "contradiction" if stated.opposite in derived else "neutral"


def draw_story(rng: random.Random) -> Story:
    """A story that has enough statements of every label."""
    while True:
        low, high, divisor = rng.randint(15, 45), rng.randint(46, 80), rng.choice((3, 5, 7))
        names = rng.sample(PROPERTIES, len(PROPERTIES))
        numbered, derived = names[:OF_NUMBERS], names[OF_NUMBERS:]
        # every number is even or odd: were both to give one property, it would hold for people without a number too
        conditions: tuple[tuple[str, Callable[[int], bool], str], ...] = (
            ("an even number of {}", lambda number: number % 2 == 0, numbered[0]),
            ("an odd number of {}", lambda number: number % 2 == 1, numbered[1]),
            (f"more than {high} {{}}", lambda number, high=high: number > high, rng.choice(numbered)),
            (f"fewer than {low} {{}}", lambda number, low=low: number < low, rng.choice(numbered)),
            (f"a multiple of {divisor} {{}}", lambda number, by=divisor: number % by == 0, rng.choice(numbered)),
        )
        numbers = [NumberRule(text, applies, Property(name, rng.random() < 0.6)) for text, applies, name in conditions]
        properties = [
            PropertyRule(Property(rng.choice(numbered)), Property(name, rng.random() < 0.7)) for name in derived
        ]
        *known, unknown = (name for name, _ in rng.sample(NAMES, PEOPLE))
        people = {**{name: rng.randint(2, LARGEST) for name in known}, unknown: None}
        statements: dict[Label, list[str]] = {label: [] for label in LABELS}
        for name, number in people.items():
            conclusions = follows(number, numbers, properties)
            is_contradictory = any(each.opposite in conclusions for each in conclusions)
            for stated in (Property(name, holds) for name in PROPERTIES for holds in (True, False)):
                label = label_of(stated, conclusions)
                if not is_contradictory or label == "self_contradiction":
                    statements[label].append(f"{name} is {stated}.")
        if all(len(statements[label]) >= STATEMENTS_OF_A_LABEL for label in LABELS):
            break
    things = rng.choice(rng.choice(THEMES).things)
    facts = [f"{name} has {'some' if number is None else number} {things}." for name, number in people.items()]
    rules = [f"If someone has {rule.condition.format(things)}, then he is {rule.then}." for rule in numbers]
    rules += [f"If someone is {rule.given}, then he is {rule.then}." for rule in properties]
    chosen: list[tuple[str, Label]] = [
        (text, label) for label in LABELS for text in rng.sample(statements[label], STATEMENTS_OF_A_LABEL)
    ]
    return Story(tuple(rng.sample(facts, len(facts))), tuple(rng.sample(rules, len(rules))), tuple(chosen))
