r"""What stands around an answer: boxes, the fences of formulas, bold.

boxed_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")  -> "\frac{2}{3}"
unwrapped(r"**$\boxed{\frac{1}{2}}$**.")               -> "\frac{1}{2}"
unwrapped(r"$5"), unwrapped(r"\(a\), \(b\)")           -> themselves
"""

import re

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_UNBRACED = re.compile(r"(?:\\[A-Za-z]+|[^\s{}$\\])*")
_FENCED = re.compile(
    r"(?P<dollars>\$\$?)(?P<math>(?:\\.|[^$\\])+)(?P=dollars)|\\\((?P<inline>(?:(?!\\\)).)*)\\\)"
    r"|\\\[(?P<displayed>(?:(?!\\\]).)*)\\\]|(?P<stars>\*{1,3})(?P<bold>[^*]+)(?P=stars)",
    re.DOTALL,
)
_STOPS = ".,; "


def boxed_answer(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` or `\fbox{…}`, or what follows one without braces; None without a box."""
    boxes = list(_BOX.finditer(text))
    return _boxed(text, boxes[-1].end())[0] if boxes else None


def unwrapped(answer: str) -> str:
    """Without the boxes, fences, bold and stops around the whole of it, in whatever order they stand."""
    while True:
        answer = without_stops(answer)
        if fenced := _FENCED.fullmatch(answer):
            answer = next(text for text in fenced.group("math", "inline", "displayed", "bold") if text is not None)
        elif box := _BOX.match(answer):
            content, end = _boxed(answer, box.end())
            if end != len(answer):
                return answer
            answer = content
        else:
            return answer


def without_stops(text: str) -> str:
    """Without blanks around it and stops behind it."""
    return text.strip().rstrip(_STOPS).strip()


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


def _boxed(text: str, start: int) -> tuple[str, int]:
    """What a box holds whose content starts at `start`, and where it ends: behind the text if it is not closed."""
    if text[start : start + 1] == "{":
        end = closing_brace(text, start + 1)
        return text[start + 1 : end].strip(), end + 1
    # a run without blanks, with the groups in braces that belong to it
    position = start
    while True:
        run = _UNBRACED.match(text, position)
        position = run.end() if run else position
        if text[position : position + 1] != "{":
            return without_stops(text[start:position]), position
        position = min(closing_brace(text, position + 1) + 1, len(text))
