r"""What a question lets its answer be, and the mistakes that go with it.

"What is the probability …?", gold \frac{1}{3}   -> a number from 0 to 1; \frac{2}{3} (rest)
"How many …?", gold 5                            -> a number that is not negative
"… what is angle $A$, in degrees?", gold 40      -> not negative; 140, 50 (rest): to 180 and to 90 degrees
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from cpmi_dagster.negatives.mistakes.notation import find_fractions
from cpmi_dagster.negatives.mistakes.numerals import find_numerals, is_plain_number, with_numeral
from cpmi_dagster.negatives.mistakes.proposal import Proposal
from cpmi_dagster.negatives.mistakes.values import quantity_value

WHOLE, PER_CENT = 1, 100
RIGHT_ANGLE, STRAIGHT_ANGLE = 90, 180
CERTAIN = {"0", "1"}
OTHER_PROBABILITIES = (r"\frac{1}{2}", r"\frac{1}{3}", r"\frac{2}{3}", r"\frac{1}{4}", r"\frac{3}{4}")
_PROBABILITY = re.compile(r"\b(?:probabilit(?:y|ies)|chances?|likelihood|likely)\b", re.IGNORECASE)
_ANGLE = re.compile(
    r"degree measure|in degrees|(?:how many|number of) degrees|measures? of (?:the |an? )?(?:\w+ ){0,3}(?:angle|arc)"
    r"|(?:measure of|find|what is|compute|determine) (?:angle )?\$?(?:m ?)?\\angle",
    re.IGNORECASE,
)
_TEMPERATURE = re.compile(r"\b(?:temperature|fahrenheit|celsius)\b", re.IGNORECASE)
_COUNT = re.compile(r"\bhow (?:many|much)\b", re.IGNORECASE)
_AMOUNT = re.compile(
    r"\bhow (?:many|much|far|long|old|tall|high|wide|deep|big|large|heavy|fast|often)\b"
    r"|\b(?:number of|lengths?|width|height|depth|distance|area|volume|perimeter|circumference|radius|diameter|cost"
    r"|price|weight|speed|age)\b",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\[asy\].*?\[/asy\]", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+")
_ASKING = re.compile(r"\?|\b(?:find|compute|determine|calculate|what|how)\b", re.IGNORECASE)


class Asked(NamedTuple):
    """What is known of the answer: a probability, an angle in degrees, an amount that is not negative."""

    is_probability: bool = False
    is_angle: bool = False
    is_amount: bool = False


def what_is_asked(question: str, gold: str) -> Asked:
    """What a question asks for, as far as its words and the gold answer agree."""
    value = quantity_value(gold) if question else None
    if value is None or value < 0:
        return Asked()
    asking = " ".join(filter(_ASKING.search, _SENTENCE_END.split(_FIGURE.sub("", question)))) or question
    is_angle = bool(_ANGLE.search(asking) or "\\circ" in gold) and not _TEMPERATURE.search(question)
    is_probability = value <= WHOLE and bool(_PROBABILITY.search(asking)) and not _COUNT.search(asking)
    return Asked(is_probability, is_angle, is_amount=is_angle or bool(_AMOUNT.search(asking)))


def is_possible(answer: str, asked: Asked) -> bool:
    """Whether an answer is of the size that is asked for; one that is not a number always is."""
    value = quantity_value(answer) if any(asked) else None
    if value is None:
        return True
    return 0 <= value <= WHOLE if asked.is_probability else value >= 0 or not asked.is_amount


def propose_rest(answer: str, asked: Asked) -> Iterator[Proposal]:
    """What is missing to a straight or a right angle; the probability of the opposite, and others beside 0 and 1."""
    totals = [STRAIGHT_ANGLE, RIGHT_ANGLE] if asked.is_angle else []
    if asked.is_probability:
        totals = [PER_CENT if "%" in answer else WHOLE]
        for fraction in find_fractions(answer):
            if (fraction.start, fraction.end) == (0, len(answer)) and (fraction.top + fraction.bottom).isdecimal():
                top = str(int(fraction.bottom) - int(fraction.top))
                yield Proposal(fraction.written(top, fraction.bottom), "rest")
        yield from (Proposal(other, "rest") for other in OTHER_PROBABILITIES if answer in CERTAIN)
    if is_plain_number(answer):
        (numeral,) = find_numerals(answer)
        rests = [total * 10**numeral.places - numeral.scaled for total in totals]
        written = [with_numeral(answer, numeral, rest) for rest in rests if rest > 0 or asked.is_probability]
        yield from (Proposal(text, "rest") for text in written if text is not None)
