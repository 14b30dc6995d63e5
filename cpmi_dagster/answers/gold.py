r"""Read the gold answers of a data set, unwrapped, with plain numbers; and doubt them if its solutions state others.

    "He pays 3*400 = 1200.\n#### 1,200"     -> "1200"         "$\boxed{\frac16}$."   -> "\frac16"
    "**17**", "17\n", 17.0, numpy.int64(17)  -> "17"       1e-05, "1e-05"         -> "0.00001"
    None, ""                                 -> None       "nan", "(Not found)", [7], True  -> ValueError

Files, `label`, `score`, `reward_function` and references all read gold answers by `read_gold_answer`.

    golds 2, 0, 1, 3  finals C, A, B, C  -> none of 4 final answers equal the gold answer: the first is `C`, for `2`
    golds 5, 7, 9, …  finals 5, C, A, …  -> all 6 wrong final answers are letters, where the gold answers are numbers

Gold answers are doubted before a model is asked, since labels rest on them.
"""

import re
from collections.abc import Iterable
from itertools import islice
from math import isnan
from numbers import Number
from typing import Any

from cpmi_dagster.answers.extraction import announced_answer
from cpmi_dagster.answers.plain_text import plain_text, unwrap
from cpmi_dagster.answers.verdicts import decide
from cpmi_dagster.files.text import cut, encodable, number_text

_MISSING = re.compile(r"nan|none|null|n/a|<na>|nat|-?inf|[-–—?_]+")
"""Missing values as pandas, Python, JSON and people write them, in lower case."""
_ABSENT = "not ?(?:found|available|applicable|provided|specified|known)"
_PLACEHOLDER = re.compile(
    rf"n a|{_ABSENT}|unknown|missing|unavailable|unanswered|tbd|todo|to be (?:determined|done|added)"
    r"|(?:no|unknown|missing) (?:\w+ )?answer(?: (?:found|available|provided|given|exists?))?"
    rf"|answer (?:is )?(?:{_ABSENT}|missing)|proved|proven|q ?e ?d"
    r"|(?:the )?(?:proof|solution)(?: (?:omitted|required|problem|question|above|below))?"
    r"|(?:please )?see (?:the )?(?:\w+ )?(?:solution|proof|answer|explanation|above|below|text|figure|image)s?"
    r"(?: (?:above|below))?|(?:证明)?(?:略|见解析|见证明|见答案)|未知|无答案|省略|解説参照"
)
"""What data sets write in place of an answer, in lower case and without punctuation."""
LONGEST_SHOWN = 60
_WRITTEN_BY_PROGRAMS = re.compile(r"[+-]?(?:\d+\.0|(?:\d+\.?\d*|\.\d+)[eE][+-]?\d{1,4})")
_SENTENCE_END = re.compile(
    r"(?:[A-Za-z]{2}|(?<=.)\d|[)\]}$])(?<!\bMr)(?<!\bDr)(?<!\bMs)(?<!\bSt)(?<!\bMrs)(?:[.?!]\s+[A-Z][a-z]|[.?]\s+[$\\])"
)
HASHES = "####"
"""Announces the answer in GSM8K, whose larger numbers have commas that its solutions lack."""
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_CALCULATION = "<<"
"""Starts a calculator annotation of GSM8K: `3*4=<<3*4=12>>12`."""

MOST_READ = 1_000
FEWEST, FEWEST_WRONG = 3, 5
"""Answers below which nothing is said: of all solutions, and of wrong ones."""
FEWEST_RIGHT = 0.02
LONGEST_DOUBTED = 40
ADVICE = "check which field has the gold answer (`--map gold_answer=FIELD`), and how both are written"
ALL_WRONG = (
    "if they are all wrong indeed, add right ones: labels are judged by how they tell right solutions from wrong ones"
)
_KINDS = {
    "letters": re.compile(r"\W*[A-Za-z]\W*"),
    "numbers": re.compile(r"[^\w\\]*[+-]?\$?\d[\d,.\s]*%?[^\w\\]*"),
}


def is_missing(value: Any) -> bool:
    """Whether a value is null, or NaN as Parquet and pandas write null."""
    return value is None or (isinstance(value, float) and isnan(value))


def read_gold_answer(value: Any) -> str | None:
    """The answer in a gold-answer field; None for a missing value and blank text.

    Args:
        value: a text, or a number of Python, numpy or `decimal`.

    Raises:
        ValueError: the value is a placeholder for a missing value, a solution without an announced answer, or neither
            text nor a number.
    """
    if is_missing(value):
        return None
    if isinstance(text := answer_text(value), str):
        return _read_text(text.strip())
    raise ValueError(f"an answer of the wrong kind, {type(value).__name__}; write text or a number")


def gsm8k_answer(solution: str) -> str | None:
    """The answer behind the `####` of a published solution; None without any."""
    _, mark, rest = solution.rpartition(HASHES)
    try:
        return read_gold_answer(f"{mark}{rest}") if mark and rest.strip() else None
    except ValueError:
        return None


def answer_text(value: Any) -> Any:
    """Write a number, or each number in a list, as text; other values are returned unchanged."""
    if isinstance(value, list):
        return [answer_text(item) for item in value]
    is_number = isinstance(value, Number) and not isinstance(value, bool | complex)
    # `inf` is no answer, unlike the text `Infinity`
    return number_text(value).replace("Infinity", "inf") if is_number else encodable(value)


def _read_text(text: str) -> str | None:
    if not text:
        return None
    answer = unwrap(announced_answer(text) or text)
    if HASHES in text and _THOUSANDS.fullmatch(answer):
        answer = answer.replace(",", "")
    words = " ".join(re.findall(r"\w+", plain_text(answer).lower().replace("_", " ")))
    if _MISSING.fullmatch(answer.lower()) or _PLACEHOLDER.fullmatch(words):
        raise ValueError(
            f"`{answer}` is no answer, it stands for a missing value; write the answer, or leave it out; if it is the "
            "answer that nothing is known, write `cannot be determined`"
        )
    if _CALCULATION in answer or _SENTENCE_END.search(answer) or _has_lines(answer):
        raise ValueError(
            f"a text that announces no answer, `{cut(' '.join(answer.split()), LONGEST_SHOWN)}`; write the answer "
            "alone, behind `####`, in `\\boxed{}` or after `The answer is:`"
        )
    return (number_text(answer) if _WRITTEN_BY_PROGRAMS.fullmatch(answer) else answer) or None


def _has_lines(answer: str) -> bool:
    """Whether a text has line breaks outside a formula or matrix."""
    starts = [newline.start() for newline in re.finditer(r"(?<!\\)\n", answer)] if "\\begin" not in answer else []
    return any(answer.count("{", 0, start) <= answer.count("}", 0, start) for start in starts)


def doubt_gold_answers(answers: Iterable[tuple[str | None, str | None]]) -> str | None:
    """A sentence if (nearly) no solution states its gold answer, or all wrong ones state answers of another kind.

    Args:
        answers: gold answer and final answer of each solution; pairs that lack one do not count.
    """
    pairs = list(islice(((gold, final) for gold, final in answers if gold and final), MOST_READ))
    verdicts = [decide(*pair) for pair in pairs]
    others = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if not verdict]
    wrong = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is False]
    count = len(pairs)
    if not others or count < FEWEST:
        return None
    right = count - len(others)
    gold, final = (cut(text, LONGEST_DOUBTED) for text in others[0])
    if right <= FEWEST_RIGHT * count:
        who = f"{f'only {right}' if right else 'none'} of {count:,} final answers equal the gold answer"
        return f"{who}: the first is `{final}`, for `{gold}`; {ADVICE}; {ALL_WRONG}"
    golds, finals = {_kind(gold) for gold, _ in wrong}, {_kind(final) for _, final in wrong}
    if len(wrong) >= FEWEST_WRONG and len(golds) == len(finals) == 1 and golds != finals:
        [theirs], [meant] = finals, golds
        return f"all {len(wrong):,} wrong final answers are {theirs}, where the gold answers are {meant}; {ADVICE}"
    return None


def _kind(answer: str) -> str:
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(answer)), "other texts")
