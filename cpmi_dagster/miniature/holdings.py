"""Who has how much: facts about amounts, and claims that follow from them, contradict them, or are left open.

    Ana has 48 shells. Ben has 12 more shells than Ana. Leo has at least 30 shells.

    Ben has more shells than Ana.    True        60 > 48
    Leo has fewer than 20 shells.    False       30 or more
    Leo has more shells than Ben.    Uncertain   30, or 61

Amounts are whole numbers, so a verdict is a fact about intervals and never a matter of opinion.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

from cpmi_dagster.miniature.story_themes import NAMES, THEMES

Verdict = Literal["True", "False", "Uncertain"]
VERDICTS: tuple[Verdict, ...] = ("True", "False", "Uncertain")
PEOPLE = 5
LARGEST = 400


class Amount(NamedTuple):
    """What is known of an amount: it is at least `least` and at most `most`."""

    least: float
    most: float


class Fact(NamedTuple):
    """A sentence, and the same as a formula."""

    text: str
    formula: str


@dataclass(frozen=True)
class Holdings:
    """What some people have of one thing.

    Attributes:
        things: what is counted, in the plural.
        facts: what is said, each person's amount once.
        amounts: what follows of each person's amount.
    """

    things: str
    facts: tuple[Fact, ...]
    amounts: Mapping[str, Amount]


class Claim(NamedTuple):
    """Something said about the amounts, and what the facts make of it."""

    text: str
    formula: str
    verdict: Verdict


class _Told(NamedTuple):
    """A person's amount and the fact that tells it."""

    amount: int
    fact: Fact


def _more(name: str, other: str, known: int, things: str, rng: random.Random) -> _Told:
    b = rng.randint(2, 60)
    return _Told(known + b, Fact(f"{name} has {b} more {things} than {other}.", f"{of(name)} = {of(other)} + {b}"))


def _fewer(name: str, other: str, known: int, things: str, rng: random.Random) -> _Told:
    b = rng.randint(1, max(1, known // 2))
    return _Told(known - b, Fact(f"{name} has {b} fewer {things} than {other}.", f"{of(name)} = {of(other)} - {b}"))


def _times(name: str, other: str, known: int, things: str, rng: random.Random) -> _Told:
    b = rng.randint(2, 5)
    text = f"{name} has {b} times as many {things} as {other}."
    return _Told(known * b, Fact(text, f"{of(name)} = {b} * {of(other)}"))


def _together(name: str, other: str, known: int, things: str, rng: random.Random) -> _Told:
    amount = rng.randint(5, 150)
    text = f"{name} and {other} have {amount + known} {things} together."
    return _Told(amount, Fact(text, f"{of(name)} + {of(other)} = {amount + known}"))


RELATIONS: tuple[Callable[[str, str, int, str, random.Random], _Told], ...] = (_more, _fewer, _times, _together)


def _relate(name: str, known: Mapping[str, int], things: str, rng: random.Random) -> _Told:
    """A person's amount in terms of someone's whose amount is known."""
    while True:
        other = rng.choice(list(known))
        told = rng.choice(RELATIONS)(name, other, known[other], things, rng)
        if 0 < told.amount <= LARGEST:
            return told


def of(name: str) -> str:
    """A person's amount in a formula: `Amount(ana)`."""
    return f"Amount({name.lower()})"


def draw_holdings(rng: random.Random) -> Holdings:
    """Five people: one amount is said outright, three in terms of another's, of the last only a lower bound."""
    first, *others, last = (name for name, _ in rng.sample(NAMES, PEOPLE))
    things = rng.choice(rng.choice(THEMES).things)
    known = {first: rng.randint(10, 120)}
    facts = [Fact(f"{first} has {known[first]} {things}.", f"{of(first)} = {known[first]}")]
    for name in others:
        known[name], fact = _relate(name, known, things, rng)
        facts.append(fact)
    least = rng.randint(10, 150)
    facts.append(Fact(f"{last} has at least {least} {things}.", f"{of(last)} >= {least}"))
    amounts = {name: Amount(amount, amount) for name, amount in known.items()} | {last: Amount(least, inf)}
    return Holdings(things, tuple(rng.sample(facts, len(facts))), amounts)


def exceeds(left: Amount, right: Amount) -> Verdict:
    """Whether one amount is larger than another, as far as it is known."""
    if left.least > right.most:
        return "True"
    return "False" if left.most <= right.least else "Uncertain"


def draw_claim(holdings: Holdings, rng: random.Random) -> Claim:
    """A comparison of two people, or of one with a number near what is known of them."""
    name, other = rng.sample(list(holdings.amounts), 2)
    own, things = holdings.amounts[name], holdings.things
    number = max(1, int(own.least) + rng.randint(-20, 20))
    exactly = Amount(number, number)
    return rng.choice(
        (
            Claim(
                f"{name} has more {things} than {other}.",
                f"{of(name)} > {of(other)}",
                exceeds(own, holdings.amounts[other]),
            ),
            Claim(f"{name} has more than {number} {things}.", f"{of(name)} > {number}", exceeds(own, exactly)),
            Claim(f"{name} has fewer than {number} {things}.", f"{of(name)} < {number}", exceeds(exactly, own)),
        )
    )


def draw_claims(holdings: Holdings, wanted: Mapping[Verdict, int], rng: random.Random) -> list[Claim]:
    """Different claims, so many of each verdict, in the order of the verdicts."""
    found: dict[Verdict, dict[str, Claim]] = {verdict: {} for verdict in wanted}
    while any(len(found[verdict]) < count for verdict, count in wanted.items()):
        claim = draw_claim(holdings, rng)
        if len(found.get(claim.verdict, ())) < wanted.get(claim.verdict, 0):
            found[claim.verdict][claim.text] = claim
    return [claim for claims in found.values() for claim in claims.values()]
