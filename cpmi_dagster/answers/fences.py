r"""Remove what encloses an answer: boxes, math delimiters, bold, code ticks; classes of characters.

boxed_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")  -> "\frac{2}{3}"
unwrap(r"**$\boxed{\frac{1}{2}}$**."), unwrap("`7`")  -> "\frac{1}{2}", "7"
unwrap(r"$5"), unwrap(r"\(a\), \(b\)")           -> unchanged
"""

import re

FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: " "}
"""For `str.translate`: full-width letters, digits and signs of East Asian texts to those of ASCII."""
EAST_ASIAN = r"々\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Characters of a class: letters of Chinese, Japanese and Korean."""
SPACES_IN_NUMBERS = r"\u00a0\u2002-\u200a\u202f\u205f"
"""Characters of a class: no-break and thin spaces, which separate thousands."""
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_UNBRACED = re.compile(r"(?:\\[A-Za-z]+|[^\s{}$\\])*")
_FENCED = re.compile(
    r"(?P<dollars>\$\$?)(?P<math>(?:\\.|[^$\\])+)(?P=dollars)|\\\((?P<inline>(?:(?!\\\)).)*)\\\)"
    r"|\\\[(?P<displayed>(?:(?!\\\]).)*)\\\]|(?P<stars>\*{1,3})(?P<bold>[^*]+)(?P=stars)"
    r"|(?P<ticks>`+)(?:\w*\n)?(?P<code>[^`]+)(?P=ticks)",
    re.DOTALL,
)
_INSIDE = ("math", "inline", "displayed", "bold", "code")
_STOPS = ".,; "


def boxed_answer(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` or `\fbox{…}`, braces optional; None without a box."""
    boxes = list(_BOX.finditer(text))
    return _boxed(text, boxes[-1].end())[0] if boxes else None


def unwrap(answer: str) -> str:
    """Remove boxes, math delimiters, bold, code ticks and final stops around the whole answer, in any order."""
    while True:
        answer = strip_stops(answer)
        if fenced := _FENCED.fullmatch(answer):
            answer = next(text for text in fenced.group(*_INSIDE) if text is not None)
        elif box := _BOX.match(answer):
            content, end = _boxed(answer, box.end())
            if end != len(answer):
                return answer
            answer = content
        else:
            return answer


def strip_stops(text: str) -> str:
    """Strip white space, and stops at the end."""
    return text.strip().rstrip(_STOPS).strip()


def closing_brace(text: str, start: int) -> int:
    """Position of the brace that closes the one before `start`, or the length of the text."""
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
    """The content of a box that starts at `start`, and the position after the box."""
    if text[start : start + 1] == "{":
        end = closing_brace(text, start + 1)
        return text[start + 1 : end].strip(), end + 1
    # a run without white space, including its groups in braces
    position = start
    while True:
        run = _UNBRACED.match(text, position)
        position = run.end() if run else position
        if text[position : position + 1] != "{":
            return strip_stops(text[start:position]), position
        position = min(closing_brace(text, position + 1) + 1, len(text))
