r"""A gold answer as its data set writes it, read: the wrapping goes, and a number is written plainly.

    "He pays 3*4 = 12 dollars.\n#### 12"   -> "12"         "$\boxed{\frac16}$."   -> "\frac16"
    "**17**", "17\n", 17.0, numpy.int64(17)  -> "17"       1e-05, "1e-05"         -> "0.00001"
    None, ""                                 -> None       "nan", [7], True       -> ValueError

Whatever takes gold answers reads them by this one function: files, `label`, `score`, `reward_function`, references.
"""

import re
from numbers import Number
from typing import Any

from cpmi_dagster.answers.extraction import announced_answer
from cpmi_dagster.answers.fences import unwrapped
from cpmi_dagster.files.text import cut, encodable, number_text

MISSING = {"nan", "none", "null", "n/a", "<na>", "nat", "inf", "-inf"}
"""What pandas, Python and JSON write for a value that is not there, in lower case."""
LONGEST_SHOWN = 60
_WRITTEN_BY_PROGRAMS = re.compile(r"[+-]?(?:\d+\.0|(?:\d+\.?\d*|\.\d+)[eE][+-]?\d{1,4})")
_SENTENCE_END = re.compile(
    r"(?:[A-Za-z]{2}|(?<=.)\d|[)\]}$])(?<!\bMr)(?<!\bDr)(?<!\bMs)(?<!\bSt)(?<!\bMrs)(?:[.?!]\s+[A-Z][a-z]|[.?]\s+[$\\])"
)
_CALCULATION = "<<"
"""Behind it GSM8K's solutions have what a calculator was asked: `3*4=<<3*4=12>>12`."""


def read_gold_answer(value: Any) -> str | None:
    """The answer that a gold answer's field holds; None for null and for a blank text.

    Args:
        value: a text, or a number of Python, numpy or `decimal`.

    Raises:
        ValueError: it holds no answer: what stands for a missing value, a worked solution without an announced answer,
            a truth value, a list or anything else that is neither text nor number.
    """
    if value is None:
        return None
    if isinstance(text := answer_text(value), str):
        return _read_text(text.strip())
    raise ValueError(f"an answer of the wrong kind, {type(value).__name__}; write text or a number")


def answer_text(value: Any) -> Any:
    """A number as text, and each number of a list; anything else as it is, to be read or refused where it is used."""
    if isinstance(value, list):
        return [answer_text(item) for item in value]
    is_number = isinstance(value, Number) and not isinstance(value, bool | complex)
    # `inf` is no answer, unlike the text `Infinity`
    return number_text(value).replace("Infinity", "inf") if is_number else encodable(value)


def _read_text(text: str) -> str | None:
    if not text:
        return None
    answer = unwrapped(announced_answer(text) or text)
    if answer.lower() in MISSING:
        raise ValueError(f"`{answer}` is no answer, it stands for a missing value; write the answer, or leave it out")
    if _CALCULATION in answer or _SENTENCE_END.search(answer) or _has_lines(answer):
        raise ValueError(
            f"a text that announces no answer, `{cut(' '.join(answer.split()), LONGEST_SHOWN)}`; write the answer "
            "alone, behind `####`, in `\\boxed{}` or after `The answer is:`"
        )
    return (number_text(answer) if _WRITTEN_BY_PROGRAMS.fullmatch(answer) else answer) or None


def _has_lines(answer: str) -> bool:
    """Whether a text has lines that are not those of one formula or matrix."""
    starts = [found.start() for found in re.finditer(r"(?<!\\)\n", answer)] if "\\begin" not in answer else []
    return any(answer.count("{", 0, start) <= answer.count("}", 0, start) for start in starts)
