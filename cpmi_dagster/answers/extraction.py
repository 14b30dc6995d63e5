r"""Find the final answer in a text.

extract_answer("… so 6 + 6 = 12.\n#### 12")                   -> "12"
extract_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")       -> "\frac{2}{3}"
extract_answer("She has 18 - 12 = 6 left. The answer is: 6")  -> "6"
extract_answer("Therefore, she ran **108** meters.")          -> "108"    (see `conclusions`)
"""

import re

from cpmi_dagster.answers.conclusions import concluded_value

_STATEMENT = re.compile(r"(?P<mark>the (?:final )?answer is\s*:|####|^(?:a|answer)\s*:)|the (?:final )?answer is",
                        re.IGNORECASE | re.MULTILINE)  # fmt: skip
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_UNBRACED = re.compile(r"(?:\\[A-Za-z]+|[^\s{}$\\])*")
_DISPLAYED = re.compile(r"(?:\\\[|\$\$)\s*(.*?)\s*(?:\\\]|\$\$)", re.DOTALL)
_INLINE = re.compile(r"\\\((.*)\\\)|\$([^$]+)\$", re.DOTALL)
_NEXT_SENTENCE = re.compile(r"\.\s+(?=[A-Z])")
_STOPS = ".,;"


def extract_answer(text: str, is_complete: bool = True) -> str | None:
    """The answer that a solution, or a line of one, ends in: the announced one, else what its last sentence concludes.

    Args:
        is_complete: False for a text that was cut off; its last sentence is then no conclusion.

    Returns:
        None if the text has no answer.
    """
    return announced_answer(text) or (concluded_value(text) if is_complete else None)


def announced_answer(text: str) -> str | None:
    r"""The answer that a text announces.

    Returns:
        What follows the last `####` or `The answer is:`, or is in the last `\boxed{}`, whichever comes last; an
        `answer is` without a colon counts only where there is no box. None if the text announces no answer.
    """
    boxed = boxed_answer(text)
    statements = list(_STATEMENT.finditer(text))
    stated = max((found.start() for found in statements if found["mark"]), default=-1)
    if boxed and (stated < 0 or stated < _last_box(text)):
        return boxed
    end = len(text)
    for statement in reversed(statements):
        if answer := _stated_answer(text[statement.end() : end]):
            return answer
        end = statement.start()
    return boxed or None


def boxed_answer(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` or `\fbox{…}`, or what follows one without braces; None without a box."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    start = boxes[-1].end()
    if text[start : start + 1] != "{":
        return _without_stops(_unbraced(text, start))
    return text[start + 1 : closing_brace(text, start + 1)].strip()


def hash_answer(text: str) -> str | None:
    """What follows the last `####`, to the end of its line; None without one."""
    _, mark, rest = text.rpartition("####")
    return rest.strip().split("\n")[0].strip() if mark else None


def closing_brace(text: str, start: int) -> int:
    """Where the brace opened before `start` closes, or the text's end."""
    depth, position = 1, start
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        else:
            depth += (character == "{") - (character == "}")
            if depth == 0:
                return position
        position += 1
    return len(text)


def _last_box(text: str) -> int:
    return max(text.rfind("\\boxed"), text.rfind("\\fbox"))


def _unbraced(text: str, start: int) -> str:
    """A run without blanks, with the groups in braces that belong to it."""
    position = start
    while True:
        run = _UNBRACED.match(text, position)
        position = run.end() if run else position
        if text[position : position + 1] != "{":
            return text[start:position]
        position = min(closing_brace(text, position + 1) + 1, len(text))


def _stated_answer(rest: str) -> str:
    """The answer right behind its announcement: a displayed formula, or the line up to the next sentence."""
    rest = rest.lstrip(" \t\r\n:*")
    if displayed := _DISPLAYED.match(rest):
        return _unwrapped(displayed.group(1))
    line = rest.split("\n", maxsplit=1)[0]
    return _unwrapped(_NEXT_SENTENCE.split(line, maxsplit=1)[0].strip(" \t\r*"))


def _unwrapped(answer: str) -> str:
    r"""Without stops, fences and box around it: `$\boxed{\frac{1}{2}}$.` is `\frac{1}{2}`, `$5` stays."""
    answer = _without_stops(answer)
    if inline := _INLINE.fullmatch(answer):
        answer = _without_stops(inline.group(1) or inline.group(2) or "")
    return (boxed_answer(answer) or "") if _BOX.match(answer) else answer


def _without_stops(text: str) -> str:
    return text.strip().rstrip(f"{_STOPS} ").strip()
