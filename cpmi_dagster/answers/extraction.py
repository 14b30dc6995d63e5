r"""Find the final answer in a text.

extract_answer("… so 6 + 6 = 12.\n#### 12")                   -> "12"
extract_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")       -> "\frac{2}{3}"
extract_answer("She has 18 - 12 = 6 left. The answer is: 6")  -> "6"
extract_answer("Therefore, she ran **108** meters.")          -> "108"    (see `conclusions`)
"""

import re

from cpmi_dagster.answers.conclusions import concluded_value
from cpmi_dagster.answers.fences import boxed_answer, unwrapped

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
        What follows the last `####`, `The answer is:` or `Final answer:`, or is in the last `\boxed{}` or
        `<answer></answer>`, whichever comes last; an `answer is` without a colon counts only where there is no box.
        None if the text announces no answer.
    """
    boxed = boxed_answer(text)
    statements = [found for found in _STATEMENT.finditer(text) if not _CHECK.search(text[: found.start()][-10:])]
    stated = max((found.start() for found in statements if found["mark"]), default=-1)
    if boxed and stated < max(text.rfind("\\boxed"), text.rfind("\\fbox")):
        return boxed
    end = len(text)
    for statement in reversed(statements):
        # a displayed formula, or the line up to the next sentence
        rest = _ANSWER_END.split(text[statement.end() : end], maxsplit=1)[0].lstrip(" \t\r\n:=*")
        if displayed := _DISPLAYED.match(rest):
            answer = unwrapped(displayed.group(1))
        else:
            line = _NEXT_SENTENCE.split(rest.split("\n", maxsplit=1)[0], maxsplit=1)[0].rstrip(" \t\r*.")
            is_sentence = not statement[0].lower().rstrip(" :=*").endswith("is") and _SENTENCE.search(line)
            value = concluded_value(f"{line}.") if is_sentence else None
            answer = unwrapped(boxed_answer(line) or value or line)
        if answer:
            return answer
        end = statement.start()
    return boxed or None


def hash_answer(text: str) -> str | None:
    """What follows the last `####`, to the end of its line; None without one."""
    _, mark, rest = text.rpartition("####")
    return rest.strip().split("\n")[0].strip() if mark else None
