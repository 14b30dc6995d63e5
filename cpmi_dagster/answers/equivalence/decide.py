r"""Decide whether two answers are the same: True or False where that is certain, None where only algebra can tell.

decide("\frac{1}{2}", "0.5")  True        decide("(1, 2)", "(2, 1)")          False
decide("50\%", "50")          True        decide("\sum_{k=1}^3 k", "6")       None
decide("\sin 2x", "2\sin x\cos x")  True  decide("x \ge 2", "[2, \infty)")    True
"""

import re

from cpmi_dagster.answers.equivalence.compare import compare, squeeze
from cpmi_dagster.answers.equivalence.forms import Words
from cpmi_dagster.answers.equivalence.plain_text import plain_text
from cpmi_dagster.answers.equivalence.polynomials import Undecidable
from cpmi_dagster.answers.equivalence.reading import read_form

MAX_CHARACTERS = 400
_UNFINISHED = re.compile(r"<<|>>|(?<!\\)\{\s*\}|[-+*/=^(\[{\\_:]\s*$")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{3,}")
_COMMAND_NAMES = re.compile(r"\\(?:begin|end)\s*\{[A-Za-z]+\}")
_PAIRS = (("{", "}"), ("([", ")]"))
_CONGRUENCE = re.compile(r"\\(?:[pb]?mod|equiv|cong|mid)(?![A-Za-z])")


def decide(gold: str, candidate: str) -> bool | None:
    """Whether two answers are the same: True or False where their forms decide it, else None."""
    if gold == candidate or gold.strip() == candidate.strip():
        return True
    if max(len(gold), len(candidate)) > MAX_CHARACTERS or not gold.strip() or not candidate.strip():
        return False
    one, other = plain_text(gold), plain_text(candidate)
    if one == other != "":
        return True
    verdict = _compared(one, other)
    if verdict is None:
        if one and one.replace(" ", "") == other.replace(" ", ""):
            return True
        return None if is_formula(one) and is_formula(other) else False
    return verdict


def _compared(one: str, other: str) -> bool | None:
    """What the forms of two plain texts decide; None where a text has none, or they leave it open."""
    first, second = read_form(one), read_form(other)
    if first is None or second is None:
        return None
    try:
        verdict = compare(first, second)
    except (Undecidable, RecursionError):
        return None
    if not verdict and (isinstance(first, Words) or isinstance(second, Words)):
        return squeeze(one) == squeeze(other)
    return verdict


def is_formula(text: str) -> bool:
    """Whether a plain text is one whole formula, which algebra can judge: no prose, no congruence, nothing cut off."""
    if _UNFINISHED.search(text) or _WORD.search(_COMMAND_NAMES.sub("", text)) or _CONGRUENCE.search(text):
        return False
    return all(sum(map(text.count, opening)) == sum(map(text.count, closing)) for opening, closing in _PAIRS)
