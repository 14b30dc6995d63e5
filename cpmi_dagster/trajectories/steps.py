r"""Cut texts into steps: solutions as people and reasoning models write them, marks of other tools, Math-Shepherd.

    "### Setup\n\nShe has 3 hats.\n\nSo it is 5."     paragraph   ["### Setup\n\nShe has 3 hats.", "So it is 5."]
    "Let me see.\nStep 1: 2 + 3.\nStep 2: So 5."      marker      ["Let me see.", "Step 1: 2 + 3.", "Step 2: So 5."]
    "5 * 8 is asked.<extra_0>It is 40.<extra_0>"      marks       ["5 * 8 is asked.", "It is 40."]
    ["2 + 2 = 4. +", "So 5. -"]                       verdicts    ["2 + 2 = 4.", "So 5."] and labels [True, False]
    "2 + 3? Step 1: 2 + 3 = 5. ки"                    `ки`        question "2 + 3?" and ["2 + 3 = 5."]

Joined in order, the steps of a solution are the text, except for white space between them. A line that only opens
something, such as a heading, `---` or `<think>`, belongs to the step after it. Displayed formulas and code between ```
or ~~~ are never split; a fence that is not closed, as in a text that was cut off, goes to the end of the text.

A labeler must not read marks: a verdict gives the label away, and a mark becomes part of the final answer.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.files.bounded_reading import MOST_ITEMS

Splitting = Literal["auto", "line", "paragraph", "marker"]
AUTO: Splitting = "auto"
MARKER = "ки"
"""Follows every step of Math-Shepherd; `parse_row` has its rules."""
LABEL_OF_MARK = {"+": True, "-": False}

_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff"
_BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace()) + _ZERO_WIDTH
_HEADER = re.compile(r"step\s*\d+\s*:", re.IGNORECASE)
_FIRST_HEADER = re.compile(r"step\s*1\s*:", re.IGNORECASE)
_LATER_HEADER = re.compile(r"step\s*[2-9]\s*:", re.IGNORECASE)
_END_OF_QUESTION = re.compile(r"\?(?:\$|\\\)|[\"”’')\]])*")
_LABEL = re.compile(rf"(?:{MARKER} ?)?[+-]|{MARKER}")

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
_TAG = r"<\|?(?:extra_\d+|end_of_step|step_end|step_sep|eos_step|prm_step)\|?>|</step>"
_MARK = rf"(?:(?<![^\W\d_]){MARKER}(?![^\W\d_])|{_TAG})"
_END = re.compile(_MARK, re.IGNORECASE)
_LAST = re.compile(rf"(?:\s*{_MARK})+(?P<verdict>\s*|\s[+-])\Z", re.IGNORECASE)
_FIRST = re.compile(r"\A\s*<step>\s*", re.IGNORECASE)
_VERDICT = re.compile(r"\s[+-]\Z")
_VERDICT_OF_ONE = re.compile(r"[.!?)\]}$]\s[+-]\Z")
_FEWEST_VERDICTS = 2


def clean(text: str) -> str:
    """Strip white space and zero-width characters."""
    return text.strip(_BLANKS)


def strip_headers(steps: Sequence[str]) -> tuple[str, ...]:
    """Strip `Step i:` headers and white space from steps; raises a `MalformedRow` if a step is then empty."""
    texts = tuple(_step_text(step) for step in steps)
    if not all(texts):
        raise MalformedRow(f"step {texts.index('')} (from 0) of {len(texts)} is empty")
    return texts


def has_header(step: str) -> bool:
    """Whether a step begins with `Step i:`."""
    return _HEADER.match(step) is not None


def without_headers(text: str) -> str:
    """A text without its `Step i:` headers, wherever they stand."""
    return _HEADER.sub("", text)


def _step_text(step: str) -> str:
    text = clean(step)
    header = _HEADER.match(text)
    return clean(text[header.end() :]) if header else text


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


def split_at_marks(text: str) -> list[str] | None:
    """The steps of a text that marks the end of each; None without marks."""
    if not _END.search(text):
        return None
    return [step for piece in _END.split(text) if (step := clean(piece))]


def read_marks(steps: Sequence[str]) -> tuple[tuple[str, ...], tuple[bool, ...] | None]:
    """Steps without marks at their ends, and the labels that verdicts behind all of them give.

    Raises:
        MalformedRow: a mark stands within a step, or one step lacks the verdict that all others have.
    """
    texts = [_LAST.sub(lambda end: end["verdict"].rstrip(), _FIRST.sub("", step)) for step in steps]
    for number, text in enumerate(texts):
        if mark := _END.search(text):
            ends = f"step {number} (from 0) holds `{mark[0]}`, which ends a step"
            raise MalformedRow(f"{ends}; make it two steps, or remove it")
    verdict = _VERDICT if len(texts) > 1 else _VERDICT_OF_ONE  # alone, a sign may be the answer
    lacking = [number for number, text in enumerate(texts) if not verdict.search(text)]
    if not texts or len(texts) - len(lacking) < (_FEWEST_VERDICTS if lacking else 1) or len(lacking) > 1:
        return tuple(texts), None
    if lacking:
        raise MalformedRow(
            f"all steps but step {lacking[0]} (from 0) end in `+` or `-`, as a verdict; give it one too, or remove them"
        )
    return tuple(clean(text[:-1]) for text in texts), tuple(LABEL_OF_MARK[text[-1]] for text in texts)


def split_marked_text(
    input: str, label: str, value: Sequence[str] | None
) -> tuple[str, tuple[str, ...], tuple[bool, ...]]:
    """Question, steps and labels of a row; see `parse_row`."""
    segments = input.split(MARKER)
    if len(segments) < 2:
        raise MalformedRow(f"no step: the text has no `{MARKER}` marker")
    if len(segments) > MOST_ITEMS + 1:
        raise MalformedRow(f"{len(segments) - 1:,} markers; a row may have at most {MOST_ITEMS:,} steps")
    if after := clean(segments[-1]):
        raise MalformedRow(f"text after the last `{MARKER}` marker: {after[:40]!r}")
    question, first_step, skipped = _split_question(segments)
    if not question:
        raise MalformedRow("empty question: the text starts with its first step")
    steps = strip_headers([first_step, *segments[skipped + 1 : -1]])
    marked = [LABEL_OF_MARK.get(mark[-1:]) for mark in _read_marks(segments, label)]
    return question, steps, _choose_labels(marked[skipped:], value, len(steps), skipped)


def _split_question(segments: Sequence[str]) -> tuple[str, str, int]:
    """Question, first step, and how many markers are inside the question."""
    for index, segment in enumerate(segments):
        if headers := list(_FIRST_HEADER.finditer(segment)):
            start = headers[-1].start()
            return clean("".join([*segments[:index], segment[:start]])), segment[start:], index
        if index and _LATER_HEADER.search(segment):
            break
    ends = [end.end() for end in _END_OF_QUESTION.finditer(segments[0]) if clean(segments[0][end.end() :])]
    if not ends:
        raise MalformedRow("no `Step 1:` header and no question mark that a first step could follow")
    return clean(segments[0][: ends[-1]]), segments[0][ends[-1] :], 0


def _read_marks(segments: Sequence[str], label: str) -> list[str]:
    """The mark in place of each marker; raises a `MalformedRow` if the texts between the markers differ."""
    markers = len(segments) - 1
    if not label or label == MARKER.join(segments):
        return []
    position, marks = 0, []
    for number, segment in enumerate(segments):
        is_last = number == markers
        if not label.startswith(segment, position):
            place = "after the last marker" if is_last else f"before marker {number + 1} of {markers}"
            raise MalformedRow(f"the text and its labels disagree {place}")
        position += len(segment)
        if is_last:
            break
        mark = _LABEL.match(label, position)
        if mark is None:
            raise MalformedRow(f"the labels' text has neither `+` nor `-` at marker {number + 1} of {markers}")
        marks.append(mark.group())
        position = mark.end()
    if position != len(label):
        raise MalformedRow(f"the labels' text continues after the other ends: {label[position : position + 40]!r}")
    return marks


def _choose_labels(
    inline: list[bool | None], value: Sequence[str] | None, steps: int, skipped: int
) -> tuple[bool, ...]:
    """Labels of the steps from the text or from `value`, which must agree."""
    marked = tuple(label for label in inline if label is not None)
    if value is None or (not value and marked):
        if len(marked) != steps:
            raise MalformedRow(f"{steps} steps but {len(marked)} labels: some step has neither `+` nor `-`")
        return marked
    value = value[skipped:] if len(value) == steps + skipped else value
    if len(value) != steps:
        raise MalformedRow(f"{steps} steps but {len(value)} labels in the list of labels")
    if unknown := [mark for mark in value if mark not in LABEL_OF_MARK]:
        raise MalformedRow(f"the list of labels contains {unknown[0]!r}, which is neither `+` nor `-`")
    listed = tuple(LABEL_OF_MARK[mark] for mark in value)
    if marked and marked != listed:
        raise MalformedRow("the labels in the text and in the list of labels differ")
    return listed
