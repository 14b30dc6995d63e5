r"""Answers with several entries: leave one out, swap two.

-3, 1, 5        -> -3, 1 (missing_entry), 1, 5 (missing_entry)
\{4,5,7\}       -> \{4,7\} (missing_entry)
(3,-2)          -> (-2,3) (entry_swap)            3:5 -> 5:3 (entry_swap)
"""

import re
from collections.abc import Iterator
from math import gcd

from cpmi_dagster.negatives.mistakes.proposal import Proposal

FEWEST_TO_LEAVE_ONE_OUT = 3
_SET = re.compile(r"(\\\{)(.*)(\\\})", re.DOTALL)
_PAIR = re.compile(r"(\\left\s*)?\((\s*)([^()\[\],]+?)(\s*,\s*)([^()\[\],]+?)(\s*)(\\right\s*)?\)")
_RATIO = re.compile(r"([0-9]+)(\s*:\s*)([0-9]+)")
_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
_GROUPING = re.compile(r",\\!|\{,\}")
_SPACING = re.compile(r"\\[,;:! ]")
_MARK = re.compile(r"[(\[{)\]}]|,|\\text\{[\s,]*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_TEXT = re.compile(r"(\\(?:text(?:bf|it|rm|normal)?|mbox)\{)([^{}]*)(\})")
_SEPARATOR = re.compile(r",(?:\s|\\[,;: ])*")
_MORE_THAN_A_LIST = re.compile(r"\\text|,\\!|\{,\}|[=:<]|\b(?:and|or)\b")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2}")
_POLAR = re.compile(r"\\pi|\\circ")


def is_unordered(answer: str) -> bool:
    """Whether the answer is a list or set of several entries."""
    return bool(list_entries(answer))


def list_entries(answer: str) -> list[str]:
    r"""The entries of a list `a, b` or set `\{a, b\}`, stripped; none if it is something else."""
    found = _SET.fullmatch(answer.strip())
    if "matrix" in answer or _THOUSANDS.fullmatch(answer.strip()):
        return []
    entries = _split_at_commas(_SPACING.sub("", _GROUPING.sub("", found.group(2) if found else answer)))
    return entries if len(entries) > 1 else []


def propose_missing_entries(answer: str) -> Iterator[Proposal]:
    """A list or set of three or more without one of its entries; of words, also each alone."""
    found = _SET.fullmatch(answer.strip()) or _TEXT.fullmatch(answer.strip())
    opening, inside, closing = found.groups() if found else ("", answer, "")
    separator, entries = _SEPARATOR.search(inside), [entry.strip() for entry in _SEPARATOR.split(inside)]
    if separator is None or _MORE_THAN_A_LIST.search(inside) or not is_unordered(inside):
        return
    if len(entries) < FEWEST_TO_LEAVE_ONE_OUT:
        return
    kept = [entries[:place] + entries[place + 1 :] for place in range(len(entries))]
    kept += [[entry] for entry in entries] if _WORD.search(inside) else []
    yield from (Proposal(opening + separator.group().join(left) + closing, "missing_entry") for left in kept)


def propose_entry_swaps(answer: str) -> Iterator[Proposal]:
    """A pair of coordinates, or a ratio in lowest terms, in reverse order; `9:24` may be a time."""
    if found := _PAIR.fullmatch(answer):
        left, blank, first, comma, second, end, right = (part or "" for part in found.groups())
        if not _POLAR.search(answer) and re.search(r"[0-9]", answer):
            yield Proposal(f"{left}({blank}{second}{comma}{first}{end}{right})", "entry_swap")
    found = _RATIO.fullmatch(answer)
    if found and gcd(int(found.group(1)), int(found.group(3))) == 1:
        yield Proposal(found.group(3) + found.group(2) + found.group(1), "entry_swap")


def _split_at_commas(text: str) -> list[str]:
    """The parts between commas, `and` and `or` that stand outside all brackets."""
    entries, start, depth = [], 0, 0
    for found in _MARK.finditer(text):
        mark = found.group()
        depth += (mark in "([{") - (mark in ")]}")
        if depth <= 0 and mark not in "([{)]}":
            entries.append(text[start : found.start()])
            start = found.end()
    return [entry.strip() for entry in (*entries, text[start:]) if entry.strip()]
