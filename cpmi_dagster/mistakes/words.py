r"""Change a word or a letter of an answer for another of its kind.

\text{Sunday}   -> \text{Monday}, \text{Saturday} …        \text{(C)}     -> \text{(A)}, \text{(B)} …
\text{A,B,E}    -> \text{A,C,E}, …                         \text{CBAD}    -> \text{BCAD}, \text{CABD} …
\text{Evelyn}   -> \text{Alice}, …                         \text{yes}     -> \text{no}, …
"""

import re
from collections.abc import Iterator

from cpmi_dagster.mistakes.proposal import Proposal

GROUPS: tuple[tuple[str, ...], ...] = (
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
     "December"),
    ("north", "east", "south", "west"),
    ("odd", "even", "neither", "both", "cannot be determined"),
    ("yes", "no", "maybe", "cannot be determined"),
    ("true", "false", "undefined", "cannot be determined"),
    ("circle", "ellipse", "parabola", "hyperbola", "line", "two lines", "point", "empty"),
    ("triangle", "square", "rectangle", "rhombus", "trapezoid", "pentagon", "hexagon", "octagon"),
    ("scalene", "isosceles", "equilateral", "right"),
    ("acute", "right", "obtuse", "straight"),
    ("red", "orange", "yellow", "green", "blue", "purple", "gray", "white", "black", "brown", "pink"),
    ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    ("first", "second", "third", "fourth", "fifth"),
    ("increasing", "decreasing", "constant", "neither"),
    ("infinite", "none", "one", "undefined"),
    ("a.m.", "p.m."),
)  # fmt: skip
NAMES = ("Alice", "Ben", "Carla", "David", "Evelyn", "Frank", "Maria", "Sam", "Angela", "Briana")
PHRASES = ("none", "all of them", "cannot be determined", "no solution", "undefined")
OPTION_LETTERS = "ABCDEFGH"
_WORD = re.compile(r"[A-Za-z][A-Za-z.]*(?: [A-Za-z]+)*")
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm|mathbf|overline)\{([^{}]*)\}")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LETTER = re.compile(r"(?<![A-Za-z\\])[A-Z](?![A-Za-z])")
_LETTER_STRING = re.compile(r"(?<![A-Za-z\\])[A-Z]{2,6}(?![A-Za-z])")


def propose_words(answer: str) -> Iterator[Proposal]:
    """The answer with one word exchanged for another of its group, or for a name or phrase where it is in none."""
    for found in _words_of(answer):
        alternatives = _same_group(found.group()) or ()
        for word in alternatives:
            changed = word.capitalize() if found.group()[0].isupper() else word
            yield Proposal(answer[: found.start()] + changed + answer[found.end() :], "word")


def propose_letters(answer: str) -> Iterator[Proposal]:
    """An answer of option letters with one letter exchanged, or of a string of letters with two neighbours swapped."""
    bare = _COMMAND.sub("", answer)
    if any(character.isdigit() or character in "+-=^_" for character in bare):
        return
    if not re.search(r"[a-z]", bare):
        for found in _LETTER.finditer(answer):
            for letter in OPTION_LETTERS:
                if letter not in bare:
                    yield Proposal(answer[: found.start()] + letter + answer[found.end() :], "letter")
    for found in _LETTER_STRING.finditer(answer):
        for swapped in _with_neighbours_swapped(found.group()):
            yield Proposal(answer[: found.start()] + swapped + answer[found.end() :], "letter")


def propose_phrases(answer: str) -> Iterator[Proposal]:
    """Another name for a name, another short phrase for a text no group knows."""
    if any(character.isdigit() for character in answer):
        return
    for found in _words_of(answer):
        if _same_group(found.group()) or len(found.group()) < 3:
            continue
        is_name = found.group()[0].isupper() and " " not in found.group() and not found.group().isupper()
        for phrase in NAMES if is_name else PHRASES:
            yield Proposal(answer[: found.start()] + phrase + answer[found.end() :], "phrase")


def _words_of(answer: str) -> list[re.Match[str]]:
    r"""Words inside `\text{}`; of the whole answer if it has no LaTeX."""
    spans = [found.span(1) for found in _TEXT.finditer(answer)]
    if not spans and "\\" not in answer:
        spans = [(0, len(answer))]
    return [found for start, end in spans for found in _WORD.finditer(answer, start, end)]


def _same_group(word: str) -> list[str] | None:
    for group in GROUPS:
        lowered = [member.lower() for member in group]
        if word.lower().rstrip(".") in lowered or word.lower() in lowered:
            return [member for member in group if member.lower() != word.lower().rstrip(".")]
    return None


def _with_neighbours_swapped(letters: str) -> Iterator[str]:
    for index in range(len(letters) - 1):
        if letters[index] != letters[index + 1]:
            yield letters[:index] + letters[index + 1] + letters[index] + letters[index + 2 :]
