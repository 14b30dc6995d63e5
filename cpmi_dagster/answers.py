r"""Final answers: find them in a text, and tell whether two of them are the same.

    extract_answer("… so 6 + 6 = 12.\n#### 12")                   -> "12"
    extract_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")       -> "\frac{2}{3}"
    extract_answer("She has 18 - 12 = 6 left. The answer is: 6")  -> "6"
    is_equivalent(r"\frac{1}{2}", "0.5")                          -> True
    is_equivalent("18", "19")                                     -> False

Numbers, fractions, roots, polynomials, tuples, sets, matrices and words are compared exactly; the rest goes to
math-verify in a process of its own.
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from cpmi_dagster.equivalence import math_verify
from cpmi_dagster.equivalence.decide import decide

CACHED_VERDICTS = 1 << 16

_STATEMENT = re.compile(r"the (?:final )?answer is\s*:?|####|^(?:a|answer)\s*:", re.IGNORECASE | re.MULTILINE)
_BOX = re.compile(r"\\f?boxed\s*(\{|[^{}\s$]+)")
_NEXT_SENTENCE = re.compile(r"\.\s+(?=[A-Z])")
_STOPS = ".,;"


def extract_answer(text: str) -> str | None:
    r"""The answer a text ends in.

    Args:
        text: A solution, or a line of one.

    Returns:
        What follows the last `####` or `The answer is`, or stands in the last `\boxed{}`, whichever comes last; None
        if the text states no answer.
    """
    statements = list(_STATEMENT.finditer(text))
    stated = statements[-1].start() if statements else -1
    boxed = text.rfind("\\boxed")
    if boxed > stated and (answer := boxed_answer(text)):
        return answer
    for statement in reversed(statements):
        if answer := _rest_of_line(text, statement.end()):
            return answer
    return boxed_answer(text) or None


def boxed_answer(text: str) -> str | None:
    r"""What stands in the last `\boxed{…}`, or behind a last `\boxed` without braces; None without a box."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    last = boxes[-1]
    if last.group(1) != "{":
        return last.group(1).rstrip(_STOPS)
    end = _closing_brace(text, last.end())
    return text[last.end() : end].strip()


def hash_answer(text: str) -> str | None:
    """What follows the last `####`, to the end of its line; None without one."""
    _, mark, rest = text.rpartition("####")
    return rest.strip().split("\n")[0].strip() if mark else None


def is_equivalent(gold: str, candidate: str) -> bool:
    """Whether two answers are mathematically the same. Never raises on any text, never hangs.

    Args:
        gold: Reference answer.
        candidate: Answer to be judged.
    """
    verdict = decide(gold, candidate)
    return _verified(gold, candidate) if verdict is None else verdict


def equivalent(golds: Sequence[str], candidates: Sequence[str]) -> list[bool]:
    """`is_equivalent` of many pairs, each different pair judged once.

    Args:
        golds: Reference answers.
        candidates: Answers to be judged, as many.

    Returns:
        One verdict per pair, in order.
    """
    pairs = list(zip(golds, candidates, strict=True))
    verdicts = {pair: decide(*pair) for pair in dict.fromkeys(pairs)}
    undecided = [pair for pair, verdict in verdicts.items() if verdict is None]
    with ThreadPoolExecutor(math_verify.MAX_WORKERS) as threads:
        verdicts.update(zip(undecided, threads.map(lambda pair: _verified(*pair), undecided), strict=True))
    return [bool(verdicts[pair]) for pair in pairs]


@lru_cache(maxsize=CACHED_VERDICTS)
def _verified(gold: str, candidate: str) -> bool:
    return math_verify.verify(gold, candidate)


def _closing_brace(text: str, start: int) -> int:
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


def _rest_of_line(text: str, start: int) -> str:
    line = text[start:].lstrip(" \t:*").split("\n")[0]
    return _unwrapped(_NEXT_SENTENCE.split(line)[0].strip(" \t\r*").rstrip(_STOPS).strip())


def _unwrapped(answer: str) -> str:
    r"""Without the dollar signs around it: `$\frac{1}{2}$` is `\frac{1}{2}`, `$5` stays."""
    if len(answer) > 1 and answer[0] == answer[-1] == "$":
        return answer.strip("$").strip().rstrip(_STOPS)
    return answer
