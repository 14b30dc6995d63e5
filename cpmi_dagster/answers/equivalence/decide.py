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
_UNFINISHED = re.compile(r"<<|>>|[-+*/=^(\[{\\_]\s*$")


def decide(gold: str, candidate: str) -> bool | None:
    """Whether two answers are the same: True or False where their forms decide it, else None."""
    if gold == candidate or gold.strip() == candidate.strip():
        return True
    if max(len(gold), len(candidate)) > MAX_CHARACTERS or not gold.strip() or not candidate.strip():
        return False
    one, other = plain_text(gold), plain_text(candidate)
    if one == other != "":
        return True
    first, second = read_form(one), read_form(other)
    if first is None or second is None:
        if one and one.replace(" ", "") == other.replace(" ", ""):
            return True
        return False if _is_broken(gold) or _is_broken(candidate) else None
    try:
        verdict = compare(first, second)
    except (Undecidable, RecursionError):
        return None
    if not verdict and (isinstance(first, Words) or isinstance(second, Words)):
        return squeeze(one) == squeeze(other)
    return verdict


def _is_broken(answer: str) -> bool:
    """Whether the text is cut off or has unbalanced brackets."""
    return bool(_UNFINISHED.search(answer)) or any(
        answer.count(opening) != answer.count(closing) for opening, closing in ("{}", "()")
    )
