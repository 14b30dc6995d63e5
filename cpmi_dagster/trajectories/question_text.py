r"""Normal forms of a question, from the strictest to the loosest: questions that share a form are the same.

    question      "Find $\dfrac12 +\! x$ if  $x=3$ .\n[asy] draw(...); [/asy]"
    compact       "Find$\dfrac12+\!x$if$x=3$.[asy]draw(...);[/asy]"        no whitespace, one Unicode form
    pieces        find \frac { 1 } { 2 } + x if x = 3                      one typesetting, no sentence marks
    normal key    "find\frac{1}{2}+xifx=3", ("1", "2", "3")                the pieces joined, and the numbers in order
    drawing       "draw(...);"

Signs, digits, letters, units, primes and LaTeX commands stay in all forms, so a changed sign or number gives another
form. Commas and colons go beside words ("…, where x") and stay between symbols, where `f(x, y)` is not `f(xy)`.
"""

import re
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple

from cpmi_dagster.trajectories.typesetting import drawn, one_unicode_form, plain

_BLANKS = re.compile(r"(?<=\d)(\s)\s*(?=\d)|\s+")
_PIECE = re.compile(
    r"\\\\|\\[A-Za-z]+|\\\||[^\W\d_]+|\d+(?:\.\d+)?|(?<![A-Za-z])\.\d+|\.(?=\s*\\(?:overline|bar|dot))"
    r"|(?<=[\w)}\]'])'|[^\s\w.']|_"
)
_NEVER_COUNT = {";", "?", '"', "`", "\\", "\\\\", "&"}
_LISTING = {",", "and"}
_AFTER_APOSTROPHE = {"s", "t", "re", "ve", "ll", "d", "m"}
_FUNCTIONS = ["sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "log", "ln", "gcd", "max", "min"]
_SAME_PIECE = {
    "\\le": "\\leq", "\\leqslant": "\\leq", "\\ge": "\\geq", "\\geqslant": "\\geq", "\\ne": "\\neq",
    "\\ldots": "\\dots", "\\cdots": "\\dots", "\\dotsc": "\\dots", "\\dotsb": "\\dots", "\\dotsm": "\\dots",
    "\\rightarrow": "\\to", "\\vert": "|", "\\lvert": "|", "\\rvert": "|", "\\mid": "|", "\\lbrace": "{",
    "\\rbrace": "}", "\\colon": ":", **{f"\\{name}": name for name in _FUNCTIONS},
}  # fmt: skip
_SHORT_WORDS = {
    "all", "and", "are", "as", "at", "be", "but", "by", "can", "do", "for", "had", "has", "he", "her", "him", "his",
    "how", "if", "in", "is", "it", "its", "let", "not", "of", "on", "one", "or", "per", "she", "six", "ten", "the",
    "to", "two", "was", "we", "who", "you",
}  # fmt: skip
_SHORTEST_WORD = 4
QUESTION_ID_BYTES = 8
CACHED_KEYS = 1 << 15


class NormalKey(NamedTuple):
    """What two questions share that differ only in how they are set; the numbers tell `3 4` from `34`."""

    text: str
    numbers: tuple[str, ...]


def compact(question: str) -> str:
    """The question in one Unicode form without whitespace and zero-width characters; one blank parts two numbers."""
    return _BLANKS.sub(lambda blanks: " " if blanks[1] else "", one_unicode_form(question).strip())


@lru_cache(maxsize=CACHED_KEYS)
def normal_key(question: str) -> NormalKey:
    """The question without what only sets type: dollars, LaTeX spacing, drawings, sentence marks, capitals of words."""
    found = pieces(question)
    return NormalKey("".join(found), tuple(piece for piece in found if piece[-1].isdecimal()))


def pieces(question: str) -> list[str]:
    """Words, numbers, LaTeX commands and signs that make up a question's meaning, in order."""
    found = [_one_name(piece) for piece in _PIECE.findall(plain(question))]
    listed = _with_lists([piece for piece in found if piece not in _NEVER_COUNT])
    around = zip(["", *listed], listed, [*listed[1:], ""], strict=False)
    return [piece for left, piece, right in around if _counts(left, piece, right)]


def drawing(question: str) -> str:
    """The Asymptote code in a question, compact; empty if there is none."""
    return compact(drawn(question))


def question_id(question: str) -> str:
    """Short hash of a question's compact form: the same in every run, on every machine."""
    return blake2b(compact(question).encode("utf-8", "surrogatepass"), digest_size=QUESTION_ID_BYTES).hexdigest()


def is_word(piece: str) -> bool:
    """Whether a piece is a word of the sentence, and not a variable, a product of variables, a number or a sign."""
    return piece.isalpha() and not piece.isupper() and (len(piece) >= _SHORTEST_WORD or piece in _SHORT_WORDS)


def _one_name(piece: str) -> str:
    """Capitals are kept where they may tell variables apart: `A` from `a`, `ABC` from `abc`."""
    return piece.lower() if piece[1:].islower() and piece[0] != "\\" else _SAME_PIECE.get(piece, piece)


def _with_lists(found: list[str]) -> list[str]:
    """`x, y, and z` and `x, y and z` list the same; between words a comma says nothing, `and` does."""
    runs = [(is_list, list(run)) for is_list, run in groupby(found, key=_LISTING.__contains__)]
    listed: list[str] = []
    for place, (is_list, run) in enumerate(runs):
        after = runs[place + 1][1][0] if place + 1 < len(runs) else ""
        if not is_list:
            listed += run
        elif not listed or not after or is_word(listed[-1]) or is_word(after):
            listed += ["and"] if "and" in run else []
        else:
            listed.append(",")
    return listed


def _counts(left: str, piece: str, right: str) -> bool:
    if piece == "'":
        return not is_word(left) or right in _AFTER_APOSTROPHE
    if piece == "!":
        return not is_word(left)
    return piece != ":" or not (is_word(left) or is_word(right) or not left or not right)
