r"""Extract the final answer of a text.

extract_answer("… so 6 + 6 = 12.\n#### 12")                   -> "12"
extract_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")       -> "\frac{2}{3}"
extract_answer("She has 18 - 12 = 6 left. The answer is: 6")  -> "6"
extract_answer("Therefore, she ran **108** meters.")          -> "108"    (see `conclusions`)
"""

import re

from cpmi_dagster.answers.conclusions import concluded_value
from cpmi_dagster.answers.fences import boxed_answer, unwrap

_STATEMENT = re.compile(
    r"(?P<mark>(?:\bthe (?:final |correct )?|\b(?:final|correct) |^[^\w\n]*)answer\**(?: is)?\s*\**[:=]"
    r"|####|<answer>|^a\s*:)|the (?:final )?answer is",
    re.IGNORECASE | re.MULTILINE,
)
_CHECK = re.compile(r"\b(?:check|verify|confirm) $", re.IGNORECASE)
_ANSWER_END = re.compile(r"</answer>", re.IGNORECASE)
_SENTENCE = re.compile(r"\b(?:is|are|was|were)\b")
_DISPLAYED = re.compile(r"(?:\\\[|\$\$)\s*(.*?)\s*(?:\\\]|\$\$)", re.DOTALL)
_NEXT_SENTENCE = re.compile(r"\.\s+(?=[A-Z])")


def extract_answer(text: str, is_complete: bool = True) -> str | None:
    """The announced answer of a solution, or the value in its last sentence; None if there is neither.

    Args:
        is_complete: False for a text that was cut off; its last sentence is then not read.
    """
    return announced_answer(text) or (concluded_value(text) if is_complete else None)


def announced_answer(text: str) -> str | None:
    r"""The answer that a text announces, or None.

    The last announcement wins: `####`, `The answer is:`, `Final answer:`, `\boxed{}` or `<answer></answer>`. An `answer
    is` without a colon counts only if there is no box.
    """
    boxed = boxed_answer(text)
    statements = [match for match in _STATEMENT.finditer(text) if not _CHECK.search(text[: match.start()][-10:])]
    stated = max((match.start() for match in statements if match["mark"]), default=-1)
    if boxed and stated < max(text.rfind("\\boxed"), text.rfind("\\fbox")):
        return boxed
    end = len(text)
    for statement in reversed(statements):
        # a displayed formula, or the line up to the next sentence
        rest = _ANSWER_END.split(text[statement.end() : end], maxsplit=1)[0].lstrip(" \t\r\n:=*")
        if displayed := _DISPLAYED.match(rest):
            answer = unwrap(displayed.group(1))
        else:
            line = _NEXT_SENTENCE.split(rest.split("\n", maxsplit=1)[0], maxsplit=1)[0].rstrip(" \t\r*.")
            is_sentence = not statement[0].lower().rstrip(" :=*").endswith("is") and _SENTENCE.search(line)
            value = concluded_value(f"{line}.") if is_sentence else None
            answer = unwrap(boxed_answer(line) or value or line)
        if answer:
            return answer
        end = statement.start()
    return boxed or None
