r"""Make a multiple of an answer, or of one of its terms.

\frac{\pi}{2}   -> \frac{3\pi}{2} (multiple)                    x+y=1 -> 2x+y=1, x+2y=1 (multiple)
\sqrt{2}        -> 2\sqrt{2}, \frac{\sqrt{2}}{2} (multiple)     n -> n+1, n-1, \frac{n}{2} (multiple)
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from cpmi_dagster.negatives.mistakes.lists import is_unordered
from cpmi_dagster.negatives.mistakes.proposal import Proposal
from cpmi_dagster.negatives.mistakes.words import others_of_group

_FUNCTION = r"sin|cos|tan|cot|sec|csc|log|ln"
_TERM = re.compile(
    r"(?:^|(?<=[-+=(\[,&])|(?<=frac\{)|(?<=\}\{)|(?<=\\\{))(\s*)"
    rf"(?=([a-z](?![A-Za-z])|[a-z]{{2,3}}(?![A-Za-z])|\\(?:pi|sqrt|theta|alpha|{_FUNCTION})(?![A-Za-z])))"
)
_APPLIED = re.compile(rf"(?:[A-Za-z]|\\(?:{_FUNCTION})(?:\^\{{[^{{}}]*\}})?)\s*(?:\\left\s*)?\($")
_TEXT = re.compile(r"\\(?:text|mbox|mathrm)|matrix|array")
_WORD = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")
_LEFT_SIDE = re.compile(r"\s*[A-Za-z]+(?:\([a-z]\))?\s*=")
_PREFIX = re.compile(r"\s*(?:[A-Za-z](?:\([a-z]\))?\s*=\s*)?-?\s*")
_NUMBER_OR_SEGMENT = re.compile(r"[\d.]|\\\$|\\[dtc]?frac\{[^{}]*\d|[A-Z]{2,}$|[A-Z]$")
_LONGEST_PRODUCT = 3


def propose_term_multiples(answer: str) -> Iterator[Proposal]:
    """The answer with a 2 or 3 before one term that has no coefficient; in a list, before all terms that start so."""
    if _is_text(answer):
        return
    places: dict[str, list[int]] = defaultdict(list)
    for found in _TERM.finditer(answer):
        before, after = answer[: found.end()], answer[found.end() :]
        if not _APPLIED.search(before.rstrip()) and not _LEFT_SIDE.match(after):
            places[found.group(2) if is_unordered(answer) else str(found.start())].append(found.end())
    for starts in places.values():
        pieces = [answer[start:end] for start, end in pairwise([0, *starts, len(answer)])]
        yield from (Proposal(multiple.join(pieces), "multiple") for multiple in "23")


def propose_multiples(answer: str) -> Iterator[Proposal]:
    """Half of an answer that is one term and starts with no number, and one more or less than it."""
    prefix = _PREFIX.match(answer)
    start = prefix.end() if prefix else 0
    head, rest = answer[:start], answer[start:].strip()
    if _is_text(rest) or _NUMBER_OR_SEGMENT.match(rest) or not re.search(r"[A-Za-z]", rest):
        return
    if not any(sign in rest for sign in "-+(,[&:<>="):
        for multiple in (f"\\frac{{{rest}}}{{2}}", f"{rest}+1", f"{rest}-1"):
            yield Proposal(head + multiple, "multiple")


def _is_text(answer: str) -> bool:
    """Whether there are words in the answer; up to three small letters that are not a known word are a product."""
    if _TEXT.search(answer) or others_of_group(answer):
        return True
    return bool(_WORD.fullmatch(answer)) and not (answer.islower() and len(answer) <= _LONGEST_PRODUCT)
