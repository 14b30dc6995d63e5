r"""The LaTeX of an answer with every argument in braces, so that edited numbers may grow, and back in the gold's style.

brace_arguments(r"\frac12x^2")                              -> \frac{1}{2}x^{2}
written_like(r"\frac{1}{3}x^{2}",  gold=r"\frac12x^2")      -> \frac13x^2
written_like(r"\frac{1}{12}x^{2}", gold=r"\frac12x^2")      -> \frac{1}{12}x^2
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_COMMAND = re.compile(r"(\\[dtc]?frac|\\sqrt(?:\s*\[[^\[\]]*\])?)(?![A-Za-z])|\^")
_BARE_ARGUMENT = re.compile(r"[0-9A-Za-z]|\\(?:pi|theta|alpha)(?![A-Za-z])")
_BARE_POWER = re.compile(r"[0-9]")
_SINGLE = r"\{([0-9A-Za-z])\}"


class Argument(NamedTuple):
    """The place of an argument, its braces included: where the blanks before it start, where it does, and its end."""

    blanks_start: int
    start: int
    end: int
    is_bare: bool


class FractionText(NamedTuple):
    r"""A `\frac{top}{bottom}` or `top/bottom` in an answer."""

    start: int
    end: int
    command: str
    top: str
    bottom: str

    def written(self, top: str, bottom: str) -> str:
        """Other parts in the same notation."""
        return f"{self.command}{{{top}}}{{{bottom}}}" if self.command[0] == "\\" else f"{top}{self.command}{bottom}"


_SLASH = re.compile(r"(?<![\d.^{])([0-9]+)(\s*/\s*)([0-9]+)(?![\d.])|(?<=\^\{)([0-9]+)(/)([0-9]+)(?=\})")


def brace_arguments(answer: str) -> str:
    r"""Every argument of `\frac` and `\sqrt` and every digit in a power in braces, with no blanks before them."""
    pieces, position = [], 0
    for argument in sorted(found for command in _COMMAND.finditer(answer) for found in _arguments(answer, command)):
        text = answer[argument.start : argument.end]
        pieces += [answer[position : argument.blanks_start], f"{{{text}}}" if argument.is_bare else "{"]
        position = argument.end if argument.is_bare else _behind_blanks(answer, argument.start + 1)
    return "".join([*pieces, answer[position:]])


def written_like(edited: str, gold: str) -> str:
    """An edit of `brace_arguments(gold)` without the braces around single characters where the gold has none."""
    for command in dict.fromkeys(found.group() for found in _COMMAND.finditer(gold)):
        uses = [_arguments(gold, found) for found in _COMMAND.finditer(gold) if found.group() == command]
        bare = [any(use[place].is_bare for use in uses if len(use) > place) for place in range(2)]
        gap = " " if f"{command} " in gold and bare[0] else ""
        edited = _without_braces(edited, command, gap, bare)
    return edited


def find_fractions(answer: str) -> Iterator[FractionText]:
    r"""The fractions of an answer, as `brace_arguments` leaves it; also those within others."""
    for command in _COMMAND.finditer(answer):
        arguments = _arguments(answer, command)
        if "frac" in command.group() and len(arguments) == 2:
            top, bottom = (answer[argument.start + 1 : argument.end - 1] for argument in arguments)
            yield FractionText(command.start(), arguments[1].end, command.group(), top, bottom)
    for found in _SLASH.finditer(answer):
        top, slash, bottom = (part for part in found.groups() if part is not None)
        yield FractionText(found.start(), found.end(), slash, top, bottom)


def _without_braces(edited: str, command: str, gap: str, bare: list[bool]) -> str:
    name = re.escape(command)
    if bare[0]:
        first = re.compile(rf"{name}{_SINGLE}" + (r"(?=\{)" if "frac" in command else ""))
        edited = first.sub(lambda use: command + (gap or _gap(command, use[1])) + use[1], edited)
    if bare[1]:
        second = re.compile(rf"({name}\s*(?:[0-9A-Za-z]|\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}})){_SINGLE}")
        edited = second.sub(r"\1\2", edited)
    return edited


def _gap(command: str, argument: str) -> str:
    """A letter right behind a command would be read as part of its name."""
    return " " if command[-1].isalpha() and argument.isalpha() else ""


def _arguments(answer: str, command: re.Match[str]) -> list[Argument]:
    found: list[Argument] = []
    position = command.end()
    for _ in range(2 if "frac" in command.group() else 1):
        start = _behind_blanks(answer, position)
        bare = (_BARE_POWER if command.group() == "^" else _BARE_ARGUMENT).match(answer, start)
        end = bare.end() if bare else _group_end(answer, start)
        if end < 0:
            break
        found.append(Argument(position, start, end, bare is not None))
        position = end
    return found


def _behind_blanks(answer: str, position: int) -> int:
    return len(answer) - len(answer[position:].lstrip())


def _group_end(answer: str, start: int) -> int:
    """The position after the brace that closes the one at `start`; -1 where there is none."""
    if answer[start : start + 1] != "{":
        return -1
    depth = 0
    for position in range(start, len(answer)):
        depth += (answer[position] == "{") - (answer[position] == "}")
        if depth == 0:
            return position + 1
    return -1
