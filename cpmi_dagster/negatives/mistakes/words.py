r"""Change a word of an answer for another of its kind.

\text{Sunday}   -> \text{Monday}, \text{Saturday} … (word)      \text{Evelyn} -> \text{Alice}, … (phrase)
\text{odd}      -> \text{even}, \text{neither} … (word)         \mbox{four}   -> \mbox{three}, \mbox{six} … (word)
"""

import re
from collections.abc import Iterator

from cpmi_dagster.negatives.mistakes.proposal import Proposal

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
ORDERED_GROUPS: tuple[tuple[str, ...], ...] = (
    MONTHS,
    ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
)  # fmt: skip
GROUPS: tuple[tuple[str, ...], ...] = (
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest"),
    ("odd", "even", "neither", "both", "cannot be determined"),
    ("yes", "no", "maybe", "sometimes", "cannot be determined"),
    ("true", "false", "undefined", "sometimes", "cannot be determined"),
    ("circle", "ellipse", "parabola", "hyperbola", "line", "two lines", "point", "empty"),
    ("triangle", "square", "rectangle", "rhombus", "trapezoid", "pentagon", "hexagon", "octagon"),
    ("scalene", "isosceles", "equilateral", "right", "obtuse"),
    ("acute", "right", "obtuse", "straight", "reflex"),
    ("red", "orange", "yellow", "green", "blue", "purple", "gray", "white", "black", "brown", "pink"),
    ("increasing", "decreasing", "constant", "neither", "cannot be determined"),
    ("infinite", "infinitely many", "none", "one", "undefined"),
)
NAMES = ("Alice", "Ben", "Carla", "David", "Evelyn", "Frank", "Maria", "Sam", "Angela", "Briana")
PHRASES = ("none", "all of them", "cannot be determined", "no solution", "undefined")
NEAR = 3
SHORTEST_PHRASE = 3
_WORD = re.compile(r"[A-Za-z][A-Za-z.]*(?: [A-Za-z]+)*")
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm|mathbf|overline)\{([^{}]*)\}")


def propose_words(answer: str) -> Iterator[Proposal]:
    """The answer with one word exchanged for another of its group; in an ordered group, for one close to it."""
    for found in _words_of(answer):
        for word in others_of_group(found.group()):
            changed = word.capitalize() if found.group()[0].isupper() else word
            yield Proposal(answer[: found.start()] + changed + answer[found.end() :], "word")


def propose_phrases(answer: str) -> Iterator[Proposal]:
    """Another name for a name, another short phrase for a text that is in no group; nothing for lists and letters."""
    if any(character.isdigit() or character == "," for character in answer):
        return
    for found in _words_of(answer):
        word = found.group()
        if others_of_group(word) or len(word) < SHORTEST_PHRASE or word.isupper():
            continue
        is_name = word[0].isupper() and " " not in word
        for phrase in NAMES if is_name else PHRASES:
            yield Proposal(answer[: found.start()] + phrase + answer[found.end() :], "phrase")


def _words_of(answer: str) -> list[re.Match[str]]:
    r"""Words inside `\text{}`; of the whole answer if it has no LaTeX."""
    spans = [found.span(1) for found in _TEXT.finditer(answer)]
    if not spans and "\\" not in answer:
        spans = [(0, len(answer))]
    return [found for start, end in spans for found in _WORD.finditer(answer, start, end)]


def others_of_group(word: str) -> list[str]:
    """The other words of the first group that has the word, in an ordered group those near it; none if none has it."""
    sought = {word.lower(), word.lower().rstrip(".")}
    for group in (*ORDERED_GROUPS, *GROUPS):
        place = next((place for place, member in enumerate(group) if member.lower() in sought), None)
        if place is not None:
            near = group[max(0, place - NEAR) : place + NEAR + 1] if group in ORDERED_GROUPS else group
            return [member for member in near if member != group[place]]
    return []
