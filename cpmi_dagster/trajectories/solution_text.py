r"""Steps of a solution that is one text, as people and reasoning models write it.

    "### Setup\n\nShe has 3 hats.\n\nSo it is 5."     paragraph   ["### Setup\n\nShe has 3 hats.", "So it is 5."]
    "Let me see.\nStep 1: 2 + 3.\nStep 2: So 5."      marker      ["Let me see.", "Step 1: 2 + 3.", "Step 2: So 5."]

Joined in order, the steps are the text, except for white space between them. A line that only opens something, such as
a heading, `---` or `<think>`, belongs to the step after it. Displayed formulas and code between ``` or ~~~ are never
split; a fence that is not closed, as in a text that was cut off, goes to the end of the text.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Literal

from cpmi_dagster.trajectories.math_shepherd import clean

Splitting = Literal["auto", "line", "paragraph", "marker"]
AUTO: Splitting = "auto"

_HEADING = r"[ \t]*(?:#{1,6}[ \t]+\S|\*\*(?=[^*\n]+\*\*:?[ \t\r]*$))"
_HEADINGS = re.compile(f"^{_HEADING}", re.MULTILINE)
# at the start of a line, also as a heading or in bold; or after the end of a sentence
_STEPS = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|[-*][ \t]+)?(?:\*\*)?step[ \t]*(\d+)(?=[ \t]*[:.)*]|[ \t\r]*$)"
    r"|(?<=[.!?)\]]\s)step[ \t]*(\d+)(?=:)",
    re.IGNORECASE | re.MULTILINE,
)
_FIRST_STEPS = (0, 1)
_PARAGRAPHS = re.compile(r"\n(?:[ \t\r]*\n)+")
_LINES = re.compile(r"\n")
_OPENING = re.compile(rf"{_HEADING}.*|[ \t]*(?:</?\w+>|[-*_]{{3,}})?[ \t\r]*", re.MULTILINE)
# opened by ``` or ~~~ at the start of a line or list item, or by ```python at the end of a line; closed by as many or
# more at the end of a line, or never
_FENCED = (
    r"(?:^[ \t>*+-]*+(?:\d+[.)][ \t]*)?(?P<fence>(?:`{3,}+|~{3,}+)(?=[^`~\n]*$))"
    r"|(?<!`)(?P<later>`{3,}+(?=[\w+#-]*+[ \t\r]*+$)))"
    r".*?(?:(?<![`~])(?:(?P=fence)|(?P=later))[`~]*+(?=[ \t\r]*+$)|\Z)"
)
# bounded, so that no text takes long
_WHOLE = re.compile(
    rf"{_FENCED}|```.{{0,20000}}?```|\$\$.{{0,4000}}?\$\$|\\\[.{{0,4000}}?\\\]", re.DOTALL | re.MULTILINE
)


def split_steps(text: str, how: Splitting = AUTO) -> list[str]:
    """Split a solution into steps.

    Args:
        how: at lines, at paragraphs, at markers (`Step i:` in order, and headings), or `auto`: at markers if there are
            two or more, else at paragraphs if that gives two steps, else at lines.
    """
    pieces: list[str] = []
    for name, begins in BEGINS.items():
        if how in (AUTO, name):
            places = begins(text)
            pieces = _pieces(text, places)
            # a single heading is that of the final answer
            if how == name or (len(pieces) > 1 and (name != "marker" or len(places) > 1)):
                break
    return pieces


def _at_markers(text: str) -> list[int]:
    """Where steps begin: at consecutive `Step i:` markers and at headings."""
    places, expected = {match.start() for match in _outside(text, _HEADINGS)}, _FIRST_STEPS
    for match in _outside(text, _STEPS):
        if (number := int(match[1] or match[2])) in expected:
            places.add(match.start())
            expected = (number + 1,)
    return sorted(places)


def _at_ends(sign: re.Pattern[str], text: str) -> list[int]:
    return [match.end() for match in _outside(text, sign)]


# in the order in which `auto` tries them
BEGINS: dict[Splitting, Callable[[str], list[int]]] = {
    "marker": _at_markers,
    "paragraph": partial(_at_ends, _PARAGRAPHS),
    "line": partial(_at_ends, _LINES),
}


def _outside(text: str, sign: re.Pattern[str]) -> list[re.Match[str]]:
    """Matches of a pattern outside code and displayed formulas."""
    inside = bytearray(len(text) + 1)
    for whole in _WHOLE.finditer(text):
        inside[whole.start() + 1 : whole.end()] = b"\1" * (len(whole[0]) - 1)
    return [match for match in sign.finditer(text) if not inside[match.start()]]


def _pieces(text: str, begins: list[int]) -> list[str]:
    """Cut the text at positions, without blank pieces; opening lines join the next piece, or the last one."""
    pieces: list[str] = []
    start = last = 0
    for end in (*begins, len(text)):
        only_opens = all(_OPENING.fullmatch(line) for line in clean(text[last:end]).split("\n"))
        last = end
        if not only_opens:
            pieces.append(text[start:end])
            start = end
    if pieces:
        pieces[-1] += text[start:]
    return [clean(piece) for piece in pieces or [text] if clean(piece)]
