r"""Change a letter of an answer for another.

\text{(C)}   -> \text{(A)}, \text{(B)}, \text{(D)}, \text{(E)} (letter)      \text{A,B,E} -> \text{A,C,E} (letter)
\text{CBAD}  -> \text{BCAD}, \text{DBAC} (letter)                             CD -> CE, BD (letter)
"""

import re
from collections.abc import Iterator
from itertools import combinations

from cpmi_dagster.negatives.mistakes.proposal import Proposal

OPTIONS = "ABCDE"
MORE_OPTIONS = "ABCDEFGH"
NEIGHBOURS = 3
SHORTEST_ORDER = 4
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LETTER = re.compile(r"(?<![A-Za-z\\])[A-Z](?![A-Za-z])")
_LETTER_STRING = re.compile(r"(?<![A-Za-z\\])[A-Z]{2,8}(?![A-Za-z])")


def propose_letters(answer: str) -> Iterator[Proposal]:
    """An answer of option letters with one exchanged, or of a string of letters with one exchanged or two swapped.

    Letters outside `\\text{}` may be a product, two or three a segment or triangle: their order does not count.
    """
    bare = _COMMAND.sub("", answer)
    if any(character.isdigit() or character in "+-=^_" for character in bare):
        return
    if not re.search(r"[a-z]", bare):
        yield from _exchanged(answer, [found.start() for found in _LETTER.finditer(answer)])
    for found in _LETTER_STRING.finditer(answer):
        letters, before, after = found.group(), answer[: found.start()], answer[found.end() :]
        is_order = len(letters) >= SHORTEST_ORDER and "\\" in answer
        changed = _swapped(letters) if is_order else _renamed(letters)
        yield from (Proposal(before + string + after, "letter") for string in changed)


def _exchanged(answer: str, positions: list[int]) -> Iterator[Proposal]:
    """One of the letters for another option; letters in alphabetical order stay so."""
    letters = [answer[position] for position in positions]
    for place in range(len(letters)):
        for letter in _others(letters):
            changed = [*letters[:place], letter, *letters[place + 1 :]]
            if letters == sorted(letters):
                changed.sort()
            characters = list(answer)
            for position, changed_letter in zip(positions, changed, strict=True):
                characters[position] = changed_letter
            yield Proposal("".join(characters), "letter")


def _others(letters: list[str]) -> list[str]:
    """Options not among the letters: of five, of eight, or those near in the alphabet, whichever holds them."""
    if not letters:
        return []
    pool = next((pool for pool in (OPTIONS, MORE_OPTIONS) if max(letters) <= pool[-1]), "")
    pool = pool or "".join(chr(ord(max(letters)) + step) for step in range(-NEIGHBOURS, NEIGHBOURS + 1))
    return [letter for letter in pool if letter not in letters and letter.isalpha()]


def _renamed(letters: str) -> Iterator[str]:
    """A segment or triangle with one other corner."""
    for place in range(len(letters)):
        for letter in _others(list(letters)):
            yield letters[:place] + letter + letters[place + 1 :]


def _swapped(letters: str) -> Iterator[str]:
    for one, other in combinations(range(len(letters)), 2):
        if letters[one] != letters[other]:
            swapped = list(letters)
            swapped[one], swapped[other] = swapped[other], swapped[one]
            yield "".join(swapped)
