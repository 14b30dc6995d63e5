"""Rows of the logic sets, about the amounts that the world's people have.

folio     {"premises": ["Ana has 48 shells.", …], "premises-FOL": ["Amount(ana) = 48", …],
           "conclusion": "Ben has more shells than Ana.", "conclusion-FOL": "…", "label": "True"}
logiqa2   {"id": 0, "answer": 2, "text": "Ana has 48 shells. …", "question": "Which of the following must be true?",
           "options": ["Ana has …", …], "type": {"Categorical Reasoning": true}}
logicnli  {"id": "0", "facts": ["Ana has 48 shells."], "rules": ["If someone is glad, then he is calm.", …],
           "statements": ["Ana is glad."], "labels": ["entailment"]}

Every third FOLIO label is True, False or Uncertain; a LogicNLI story has two statements of each of its four labels.
"""

import random

from cpmi_dagster.miniature.holdings import VERDICTS, Verdict, draw_claims, draw_holdings
from cpmi_dagster.miniature.logic_stories import draw_story
from cpmi_dagster.miniature.question_rows import JsonRow

OPTIONS = 4


QUESTIONS: dict[Verdict, str] = {
    "True": "Which of the following must be true?",
    "False": "Which of the following cannot be true?",
    "Uncertain": "Of which of the following can it not be said whether it is true?",
}
"""Questions about claims, by the verdict of the right option; the other options have the other verdicts."""


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


def folio_rows(count: int, rng: random.Random) -> list[JsonRow]:
    """Rows with the three labels in turn."""
    return [folio_row(VERDICTS[number % len(VERDICTS)], rng) for number in range(count)]


def logiqa2_rows(count: int, rng: random.Random) -> list[JsonRow]:
    """Rows with the three questions in turn."""
    return [logiqa2_row(number, VERDICTS[number % len(VERDICTS)], rng) for number in range(count)]
