r"""A part that an answer has several times is edited in all its places.

in_all_places(r"\frac{1+\sqrt{5}}{2}, \frac{1-\sqrt{5}}{2}", edited=r"\frac{1+\sqrt{6}}{2}, \frac{1-\sqrt{5}}{2}")
    -> \frac{1+\sqrt{6}}{2}, \frac{1-\sqrt{6}}{2}

Parts are fractions, roots, what is in brackets, and numbers of two digits or more.
"""

import re
from collections.abc import Iterator
from itertools import takewhile

from cpmi_dagster.negatives.mistakes.notation import find_fractions

_GROUPS = (re.compile(r"\\sqrt(?:\[[^\[\]]*\])?\{[^{}]*\}"), re.compile(r"\([^()]*\)"))
_NUMBER = re.compile(r"(?<![\d.,])\d[\d.]*\d(?![\d.,]*\d)")


def in_all_places(gold: str, edited: str) -> str:
    """The edit, made wherever the smallest repeated part stands that it changes; the edit itself where none does."""
    start = _shared(gold, edited)
    kept = _shared(gold[start:][::-1], edited[start:][::-1])
    end = len(gold) - kept
    for first, last in sorted(_parts(gold, start, end), key=lambda part: part[1] - part[0]):
        text = gold[first:last]
        part = re.compile(rf"(?<!\d){re.escape(text)}(?!\d)" if text[0].isdigit() else re.escape(text))
        if len(part.findall(gold)) > 1:
            changed = edited[first : len(edited) - (len(gold) - last)]
            return part.sub(lambda _, changed=changed: changed, gold)
    return edited


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _parts(gold: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts that a change of `gold[start:end]` is inside of."""
    groups = [found.span() for group in _GROUPS for found in group.finditer(gold)]
    groups += [(fraction.start, fraction.end) for fraction in find_fractions(gold)]
    yield from (span for span in groups if span[0] < start and end < span[1])
    numbers = (found.span() for found in _NUMBER.finditer(gold))
    yield from (span for span in numbers if span[0] <= start < end <= span[1])
