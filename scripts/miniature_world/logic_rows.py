"""Rows of the logic sets: who has how much, and claims that follow, are contradicted, or are left open.

folio     {"premises": ["Ana has 48 shells.", …], "premises-FOL": ["Amount(ana) = 48", …],
           "conclusion": "Ben has more shells than Ana.", "conclusion-FOL": "…", "label": "True"}
logiqa2   {"id": 0, "answer": 2, "text": "Ana has 48 shells. …", "question": "Which of the following must be true?",
           "options": ["Ana has …", …], "type": {"Categorical Reasoning": true}}
logicnli  {"id": "0", "facts": ["Ana has 48 shells."], "rules": ["If someone is glad, then he is calm.", …],
           "statements": ["Ana is glad."], "labels": ["entailment"]}

Amounts are whole numbers, so a verdict follows from their bounds:

    Ana has 48 shells. Ben has 12 more shells than Ana. Leo has at least 30 shells.

    Ben has more shells than Ana.    True        60 > 48
    Leo has fewer than 20 shells.    False       30 or more
    Leo has more shells than Ben.    Uncertain   30, or 61
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple, get_args

from scripts.miniature_world.logic_stories import draw_story
from scripts.miniature_world.question_rows import JsonRow
from scripts.miniature_world.story_themes import NAMES, THEMES

Verdict = Literal["True", "False", "Uncertain"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
PEOPLE = 5
LARGEST = 400
OPTIONS = 4
QUESTIONS: dict[Verdict, str] = {
    "True": "Which of the following must be true?",
    "False": "Which of the following cannot be true?",
    "Uncertain": "Of which of the following can it not be said whether it is true?",
}
"""Questions about claims, by the verdict of the right option; the other options have the other verdicts."""


class Amount(NamedTuple):
    """The bounds of an amount: it is at least `least` and at most `most`."""

    least: float
    most: float


class Fact(NamedTuple):
    """A sentence, and the same as a formula."""

    text: str
    formula: str


@dataclass(frozen=True)
class Holdings:
    """What some people have of one thing: a statement about each person's amount, and the bounds that follow."""

    things: str
    facts: tuple[Fact, ...]
    amounts: Mapping[str, Amount]


class Claim(NamedTuple):
    """A statement about the amounts, and the verdict that follows from the facts."""

    text: str
    formula: str
    verdict: Verdict


RELATIONS = ("more", "fewer", "times", "together")


def _draw_related(name: str, amounts: Mapping[str, int], things: str, rng: random.Random) -> tuple[int, Fact]:
    """An amount for a person, stated in terms of one of the amounts that are fixed already."""
    while True:
        other = rng.choice(list(amounts))
        known = amounts[other]
        relation = rng.choice(RELATIONS)
        if relation == "together":
            amount = rng.randint(5, 150)
            text = f"{name} and {other} have {amount + known} {things} together."
            fact = Fact(text, f"{of(name)} + {of(other)} = {amount + known}")
        else:
            highest = {"more": 60, "fewer": max(1, known // 2), "times": 5}[relation]
            b = rng.randint(1 if relation == "fewer" else 2, highest)
            amount, words, formula = {
                "more": (known + b, f"{b} more {things} than", f"{of(other)} + {b}"),
                "fewer": (known - b, f"{b} fewer {things} than", f"{of(other)} - {b}"),
                "times": (known * b, f"{b} times as many {things} as", f"{b} * {of(other)}"),
            }[relation]
            fact = Fact(f"{name} has {words} {other}.", f"{of(name)} = {formula}")
        if 0 < amount <= LARGEST:
            return amount, fact


def of(name: str) -> str:
    """A person's amount in a formula: `Amount(ana)`."""
    return f"Amount({name.lower()})"


def draw_holdings(rng: random.Random) -> Holdings:
    """Five people: one amount is given, three in terms of another's, for the last only a lower bound."""
    first, *others, last = (name for name, _ in rng.sample(NAMES, PEOPLE))
    things = rng.choice(rng.choice(THEMES).things)
    exact = {first: rng.randint(10, 120)}
    facts = [Fact(f"{first} has {exact[first]} {things}.", f"{of(first)} = {exact[first]}")]
    for name in others:
        exact[name], fact = _draw_related(name, exact, things, rng)
        facts.append(fact)
    least = rng.randint(10, 150)
    facts.append(Fact(f"{last} has at least {least} {things}.", f"{of(last)} >= {least}"))
    amounts = {name: Amount(amount, amount) for name, amount in exact.items()} | {last: Amount(least, inf)}
    return Holdings(things, tuple(rng.sample(facts, len(facts))), amounts)


def exceeds(left: Amount, right: Amount) -> Verdict:
    """Whether one amount is larger than another, as far as the bounds decide it."""
    if left.least > right.most:
        return "True"
    return "False" if left.most <= right.least else "Uncertain"


def draw_claim(holdings: Holdings, rng: random.Random) -> Claim:
    """A comparison of two people, or of one with a number near their lower bound."""
    name, other = rng.sample(list(holdings.amounts), 2)
    held, things = holdings.amounts[name], holdings.things
    number = max(1, int(held.least) + rng.randint(-20, 20))
    exactly = Amount(number, number)
    over_other = exceeds(held, holdings.amounts[other])
    return rng.choice(
        (
            Claim(f"{name} has more {things} than {other}.", f"{of(name)} > {of(other)}", over_other),
            Claim(f"{name} has more than {number} {things}.", f"{of(name)} > {number}", exceeds(held, exactly)),
            Claim(f"{name} has fewer than {number} {things}.", f"{of(name)} < {number}", exceeds(exactly, held)),
        )
    )


def draw_claims(holdings: Holdings, wanted: Mapping[Verdict, int], rng: random.Random) -> list[Claim]:
    """Different claims, as many of each verdict as wanted, in the order of the verdicts."""
    claims: dict[Verdict, dict[str, Claim]] = {verdict: {} for verdict in wanted}
    while any(len(claims[verdict]) < count for verdict, count in wanted.items()):
        claim = draw_claim(holdings, rng)
        if len(claims.get(claim.verdict, ())) < wanted.get(claim.verdict, 0):
            claims[claim.verdict][claim.text] = claim
    return [claim for by_text in claims.values() for claim in by_text.values()]


def folio_row(verdict: Verdict, rng: random.Random) -> JsonRow:
    """A row of FOLIO with the given label."""
    holdings = draw_holdings(rng)
    (claim,) = draw_claims(holdings, {verdict: 1}, rng)
    return {
        "premises": [fact.text for fact in holdings.facts],
        "premises-FOL": [fact.formula for fact in holdings.facts],
        "conclusion": claim.text,
        "conclusion-FOL": claim.formula,
        "label": claim.verdict,
    }


def logiqa2_row(number: int, right: Verdict, rng: random.Random) -> JsonRow:
    """A row of LogiQA 2.0: four claims, one of which has the verdict that the question asks for."""
    holdings = draw_holdings(rng)
    others: list[Verdict] = [verdict for verdict in VERDICTS if verdict != right]
    first, second = rng.sample(others, 2)
    claims = draw_claims(holdings, {right: 1, first: OPTIONS - 2, second: 1}, rng)
    options = rng.sample(claims, OPTIONS)
    return {
        "id": number,
        "answer": options.index(claims[0]),
        "text": " ".join(fact.text for fact in holdings.facts),
        "question": QUESTIONS[right],
        "options": [claim.text for claim in options],
        "type": {"Categorical Reasoning": True},
    }


def logicnli_row(number: int, rng: random.Random) -> JsonRow:
    """A row of LogicNLI: a story of facts and rules with statements of every label."""
    story = draw_story(rng)
    statements = rng.sample(story.statements, len(story.statements))
    return {
        "id": str(number),
        "facts": list(story.facts),
        "rules": list(story.rules),
        "statements": [text for text, _ in statements],
        "labels": [label for _, label in statements],
    }
