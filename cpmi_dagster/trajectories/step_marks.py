r"""Marks that other tools leave in solutions: the ends of steps, and verdicts behind steps.

    "5 * 8 is asked.<extra_0>It is 40.<extra_0>"        ["5 * 8 is asked.", "It is 40."]
    ["2 + 2 = 4. +", "So 5. -"]                         ["2 + 2 = 4.", "So 5."] and labels [True, False]

A labeler must not read them: a verdict gives the label away, and a mark becomes part of the final answer.
"""

import re
from collections.abc import Sequence

from cpmi_dagster.errors import MalformedRow
from cpmi_dagster.trajectories.math_shepherd import LABEL_OF_MARK, MARKER, clean

_TAG = r"<\|?(?:extra_\d+|end_of_step|step_end|step_sep|eos_step|prm_step)\|?>|</step>"
_MARK = rf"(?:(?<![^\W\d_]){MARKER}(?![^\W\d_])|{_TAG})"
_END = re.compile(_MARK, re.IGNORECASE)
_LAST = re.compile(rf"(?:\s*{_MARK})+(?P<verdict>\s*|\s[+-])\Z", re.IGNORECASE)
_FIRST = re.compile(r"\A\s*<step>\s*", re.IGNORECASE)
_VERDICT = re.compile(r"\s[+-]\Z")
_VERDICT_OF_ONE = re.compile(r"[.!?)\]}$]\s[+-]\Z")
_FEWEST_VERDICTS = 2


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
    for number, text in enumerate(texts, start=1):
        if mark := _END.search(text):
            raise MalformedRow(f"step {number} holds `{mark[0]}`, which ends a step; make it two steps, or remove it")
    verdict = _VERDICT if len(texts) > 1 else _VERDICT_OF_ONE  # alone, a sign may be the answer
    lacking = [number for number, text in enumerate(texts, start=1) if not verdict.search(text)]
    if not texts or len(texts) - len(lacking) < (_FEWEST_VERDICTS if lacking else 1) or len(lacking) > 1:
        return tuple(texts), None
    if lacking:
        raise MalformedRow(
            f"all steps but step {lacking[0]} end in `+` or `-`, as a verdict; give it one too, or remove them"
        )
    return tuple(clean(text[:-1]) for text in texts), tuple(LABEL_OF_MARK[text[-1]] for text in texts)
