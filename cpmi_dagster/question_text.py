r"""Normal forms of a question, from the strictest to the loosest: two questions with one form are taken for the same.

    question      "Find $\dfrac12 +\! x$ if  $x=3$ .\n[asy] draw(...); [/asy]"
    compact       "Find$\dfrac12+\!x$if$x=3$.[asy]draw(...);[/asy]"        no whitespace, one Unicode form
    normalized    "find\frac{1}{2}+xifx=3"                                no dollars, LaTeX spacing, drawings, case
    numbers       ("1", "2", "3")                                          in order, the drawing's left out

Operators, digits, letters and LaTeX commands stay in all forms, so a changed sign or number gives another form.
"""

import re
import unicodedata
from functools import lru_cache
from hashlib import blake2b

_ZERO_WIDTH = re.compile(r"[\u200b-\u200d\u2060\ufeff\u00ad]")
_BLANKS = re.compile(r"\s+")
_WRITTEN_BREAK = re.compile(r"\\n(?!(?:eq?|eg|i|u|abla|mid|ot|otin|exists|leq|geq|ewline)(?![A-Za-z]))")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{(?:align|aligned|equation|gather|eqnarray|array)\*?\}|[\^_]\{\}")
_DRAWING = re.compile(r"\[asy\].*?(?:\[/asy\]|$)|\\begin\{asy\}.*?(?:\\end\{asy\}|$)", re.DOTALL | re.IGNORECASE)
_SPACING = re.compile(r"(?<!\\)\\[,;:! ]|\\(?:quad|qquad|displaystyle|left|right|limits)(?![A-Za-z])|~")
_FENCES = re.compile(r"\\?\$|(?<!\\)\\[()\[\]]|(?<!\\)\\(?=[%{}#&])")
_FRACTION_NAME = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_BINOMIAL_NAME = re.compile(r"\\[dt]binom(?![A-Za-z])")
_BARE_ROOT = re.compile(r"\\sqrt\s*(\d|[A-Za-z])")
_BARE_FRACTION = re.compile(r"\\frac\s*(\{[^{}]*\}|\d|[A-Za-z])\s*(\{[^{}]*\}|\d|[A-Za-z])")
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?")
_TEXT_MACRO = re.compile(r"\\(?:text(?:bf|it|rm|sf)?|mbox|mathrm|operatorname|emph)\s*\{([^{}]*)\}")
_BRACED_CHARACTER = re.compile(r"(?<=[\^_])\{(\w)\}")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\!)+(?=\d{3}(?!\d))")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_PUNCTUATION = re.compile(r"[,;:.?\"](?!\s*\d)|(?<![A-Za-z])'|'(?![A-Za-z(])|\\\\|&")
_PIECE = re.compile(r"\\[a-z]+|[a-z]+|\d+(?:\.\d+)?|[^\s\w]")
_SYNONYMS = {"\\le ": "\\leq ", "\\ge ": "\\geq ", "\\ldots": "\\dots", "\\cdots": "\\dots", "…": "\\dots",
             "...": "\\dots", "−": "-", "–": "-", "—": "-", "×": "\\times", "·": "\\cdot", "°": "",
             "’": "'", "‘": "'", "“": '"', "”": '"', "``": '"', "''": '"'}  # fmt: skip
QUESTION_ID_BYTES = 8
CACHED_KEYS = 1 << 15


def compact(question: str) -> str:
    """The question in Unicode's composed form without whitespace and zero-width characters."""
    return _BLANKS.sub("", _ZERO_WIDTH.sub("", unicodedata.normalize("NFKC", question)))


def normalized(question: str) -> str:
    """The question without what only sets type: case, dollars, LaTeX spacing, drawings, sentence punctuation."""
    return normal_key(question)[0]


def numbers(question: str) -> tuple[str, ...]:
    """The numbers of a question in order, drawings left out and thousands joined."""
    return normal_key(question)[1]


@lru_cache(maxsize=CACHED_KEYS)
def normal_key(question: str) -> tuple[str, tuple[str, ...]]:
    """Normalized text and numbers; the numbers tell `3 4` from `34`, which the text alone does not."""
    text = _plain(question)
    return _BLANKS.sub("", _PUNCTUATION.sub("", text)).lower(), tuple(_NUMBER.findall(text))


def pieces(question: str) -> list[str]:
    """Words, numbers, LaTeX commands and signs of a question, for comparing two questions piece by piece."""
    return _PIECE.findall(_plain(question).lower())


def question_id(question: str) -> str:
    """Short hash of a question's compact form: the same in every run, on every machine."""
    return blake2b(compact(question).encode("utf-8", "surrogatepass"), digest_size=QUESTION_ID_BYTES).hexdigest()


def _plain(question: str) -> str:
    text = _DRAWING.sub(" ", _ZERO_WIDTH.sub("", unicodedata.normalize("NFKC", question)))
    text = _THOUSANDS.sub("", _WRITTEN_BREAK.sub(" ", text))
    text = _FENCES.sub(" ", _SPACING.sub(" ", _ENVIRONMENT.sub(" ", text)))
    for name, same in _SYNONYMS.items():
        text = text.replace(name, same)
    text = _DEGREES.sub("", _TEXT_MACRO.sub(r"\1", text))
    text = _BARE_FRACTION.sub(_braced_fraction, _FRACTION_NAME.sub(r"\\frac", text))
    text = _BARE_ROOT.sub(r"\\sqrt{\1}", _BINOMIAL_NAME.sub(r"\\binom", text))
    return _BRACED_CHARACTER.sub(r"\1", text)


def _braced_fraction(fraction: re.Match[str]) -> str:
    return "\\frac" + "".join(part if part.startswith("{") else f"{{{part}}}" for part in fraction.groups())
