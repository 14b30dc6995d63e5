r"""Find the final answer in a text.

extract_answer("… so 6 + 6 = 12.\n#### 12")                   -> "12"
extract_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")       -> "\frac{2}{3}"
extract_answer("She has 18 - 12 = 6 left. The answer is: 6")  -> "6"
extract_answer("Therefore, she ran **108** meters.")          -> "108"    (see `conclusions`)
"""

import re

from cpmi_dagster.answers.conclusions import concluded_value
from cpmi_dagster.answers.fences import boxed_answer, unwrapped

_STATEMENT = re.compile(r"(?P<mark>the (?:final )?answer is\s*:|####|^(?:a|answer)\s*:)|the (?:final )?answer is",
                        re.IGNORECASE | re.MULTILINE)  # fmt: skip
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
        What follows the last `####` or `The answer is:`, or is in the last `\boxed{}`, whichever comes last; an
        `answer is` without a colon counts only where there is no box. None if the text announces no answer.
    """
    boxed = boxed_answer(text)
    statements = list(_STATEMENT.finditer(text))
    stated = max((found.start() for found in statements if found["mark"]), default=-1)
    if boxed and stated < max(text.rfind("\\boxed"), text.rfind("\\fbox")):
        return boxed
    end = len(text)
    for statement in reversed(statements):
        # a displayed formula, or the line up to the next sentence
        rest = text[statement.end() : end].lstrip(" \t\r\n:*")
        if displayed := _DISPLAYED.match(rest):
            answer = unwrapped(displayed.group(1))
        else:
            line = _NEXT_SENTENCE.split(rest.split("\n", maxsplit=1)[0], maxsplit=1)[0].strip(" \t\r*")
            answer = unwrapped(boxed_answer(line) or line)
        if answer:
            return answer
        end = statement.start()
    return boxed or None


def hash_answer(text: str) -> str | None:
    """What follows the last `####`, to the end of its line; None without one."""
    _, mark, rest = text.rpartition("####")
    return rest.strip().split("\n")[0].strip() if mark else None
