r"""Edits of letters, words and names in a gold answer.

\text{(B)}   \text{(C)} (letter)      \text{odd}   \text{even} (word)      \text{Evelyn}   \text{Alice} (phrase)
"""

import re
from collections.abc import Iterator
from string import ascii_uppercase

LIKELY, LESS_LIKELY, LAST_RESORT, FAULTY = range(4)

Edit = tuple[int, str, str]
"""Rank (0 is likely), edited answer, name of the heuristic."""

_WORDS = [str.split(group, ", ") for group in (
    "January, February, March, April, May, June, July, August, September, October, November, December",
    "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve",
    "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    "north, northeast, east, southeast, south, southwest, west, northwest",
    "odd, even, neither, both, cannot be determined",
    "yes, no, maybe, sometimes, cannot be determined",
    "true, false, undefined, sometimes, cannot be determined",
    "circle, ellipse, parabola, hyperbola, line, two lines, point, empty",
    "triangle, square, rectangle, rhombus, trapezoid, pentagon, hexagon, octagon",
    "red, orange, yellow, green, blue, purple, gray, white, black, brown, pink",
    "Alice, Ben, Carla, David, Evelyn, Frank, Maria, Sam, Angela, Briana",
)]  # fmt: skip
_PHRASES = ("none", "all of them", "cannot be determined", "no solution", "undefined")
GROUP_OF = {word.lower(): group for group in reversed(_WORDS) for word in group}
_TEXT = re.compile(r"\\(?:text\w*|mbox|mathrm|mathbf)\{([^{}]*)\}")
_WORD = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")
_LETTER = re.compile(r"(?<![a-z\\])[A-Z](?![a-z])")


def exchange_words(answer: str) -> Iterator[Edit]:
    """Exchange one letter, word or name for another of its kind, or a phrase for a stock phrase."""
    if not re.search(r"[0-9a-z+=^_-]", re.sub(r"\\[A-Za-z]+", "", answer)):
        letters = _LETTER.findall(answer)
        last = max(5, 1 + ascii_uppercase.find(max(letters, default="A")))
        others = [option for option in ascii_uppercase[:last] if option not in letters][-5:]
        for match in _LETTER.finditer(answer):
            yield from ((LIKELY, answer[: match.start()] + other + answer[match.end() :], "letter") for other in others)
    spans = [match.span(1) for match in _TEXT.finditer(answer)] or ([] if "\\" in answer else [(0, len(answer))])
    for match in (match for start, end in spans for match in _WORD.finditer(answer, start, end)):
        word, before, after = match[0], answer[: match.start()], answer[match.end() :]
        group, rank, heuristic = GROUP_OF.get(word.lower(), ()), LIKELY, "word"
        if not group and len(word) > 2 and not word.isupper() and not re.search(r"[0-9]", answer):
            is_name = word[0].isupper() and " " not in word
            group, rank, heuristic = GROUP_OF["alice"] if is_name else _PHRASES, LESS_LIKELY, "phrase"
        for other in group:
            yield rank, before + (other.capitalize() if word[0].isupper() else other) + after, heuristic
