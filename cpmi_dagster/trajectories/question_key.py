r"""The id of a question and its normal forms, from strict to loose; questions with equal forms are the same problem.

    question      "Find $\dfrac12 +\! x$ if  $x=3$ .\n[asy] draw(...); [/asy]"
    compact       "Find$\dfrac12+\!x$if$x=3$.[asy]draw(...);[/asy]"        no whitespace, one Unicode form
    question_id   16 hexadecimal digits, the hash of the compact form
    text_hash     these, and 16 of the compact forms of a solution's steps
    normal key    "find\frac{1}{2}+xifx=3", ("1", "2", "3")                one typesetting, and the numbers in order
    drawing       "draw(...);"

The normal key drops dollars, LaTeX spacing, drawings, punctuation and capitals of words; Unicode signs become commands,
and variants of fractions and dots, `12^{th}` and `12-th`, `30^\circ` and `30 degrees`, `1,\!000` and `1000` become one.
Signs, digits, letters, units, primes and LaTeX commands stay in all forms, so a changed sign or number changes the
form. Commas and colons are dropped beside words and kept between symbols: `f(x, y)` is not `f(xy)`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import NamedTuple

QUESTION_ID_BYTES = 8
CACHED_KEYS = 1 << 15

_BLANKS = re.compile(r"(?<=\d)(\s)\s*(?=\d)|\s+")
_ZERO_WIDTH = re.compile(r"[\u200b-\u200d\u2060\ufeff\u00ad]")
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_SUBSCRIPTS = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋]+")
_VULGAR_FRACTION = re.compile("[¼-¾⅐-⅞]")
_DRAWING = re.compile(r"(?:\[asy\]|\\begin\{asy\})(.*?)(?:\[/asy\]|\\end\{asy\}|$)", re.DOTALL | re.IGNORECASE)

_CHARACTERS = "αβγδεζηθκλμνξπρστφχψωΓΔΘΛΞΠΣΦΨΩϕ×·⋅÷±≡≈≠≤≥∞√∠△⊥∥∈∪∩→∑∏⌊⌋⌈⌉♠♥♦♣"
_COMMANDS = """
    alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega
    Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega phi
    times cdot cdot div pm equiv approx neq leq geq infty sqrt angle triangle perp parallel in cup cap to sum prod
    lfloor rfloor lceil rceil spadesuit heartsuit diamondsuit clubsuit
"""
_WRITTEN_OUT = str.maketrans(
    {character: f"\\{name} " for character, name in zip(_CHARACTERS, _COMMANDS.split(), strict=True)}
    | dict.fromkeys("−–—‐‑", "-")
    | dict.fromkeys("’‘′", "'")
    | dict.fromkeys("“”", '"')
)


def _digits_only(number: re.Match[str]) -> str:
    return "".join(character for character in number[0] if character.isdecimal())


def _rows_and_columns(matrix: re.Match[str]) -> str:
    return re.sub(r"\\\\\s*(?=\\end)", "", matrix[0]).replace("\\\\", " \\row ").replace("&", " \\column ")


def _written_modulus(modulus: re.Match[str]) -> str:
    number = modulus[1] or modulus[2]
    return f" (mod {number})" if number else " mod "


def _braced_fraction(fraction: re.Match[str]) -> str:
    return "\\frac" + "".join(part if part.startswith("{") else f"{{{part}}}" for part in fraction.groups())


_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\n(?!(?:eq?|eg|i|u|abla|mid|ot|otin|exists|leq|geq|ewline)(?![A-Za-z]))", "\n"),  # a written-out line break
        # thousands
        (
            r"(?<![\d.,])(?<![^\\][(\[])(?<!^[(\[])(?<!\\\{)\d{1,3}(?:(?:,|\{,\}|\\!)+\d{3})+(?!,?\d)|\d\\!(?=\d)",
            _digits_only,
        ),
        (r"(?m)^\s*[-*]\s+(?=[A-Z][a-z])|\$?\\bullet\$?|•", " "),
        (r"(?s)\\begin\{(\w*matrix)\}.*?\\end\{\1\}", _rows_and_columns),
        (r"\\(?:begin|end)\{(?:align|aligned|equation|gather|eqnarray|array)\*?\}|[\^_]\{\}", " "),
        # spacing, fences, dots, quotes, primes
        (r"(?<!\\)\\[,;:! ]|\\(?:quad|qquad|displaystyle|left|right|limits|[bB]igg?[lrm]?)(?![A-Za-z])|~", " "),
        (r"\\?\$|(?<!\\)\\[()\[\]]|(?<!\\)\\(?=[%{}#&])", " "),
        (r"\.\s?\.\s?\.", r"\\dots "),
        (r"(?:``|\")([^\"`']*)(?:''|\")|(?<![\w)}\]'])'(?=\S)([^'\n]*)'(?!\w)", r" \1\2 "),
        (r"\^\s*(?:\{\s*\\prime\s*\}|\\prime(?![A-Za-z]))|\\prime(?![A-Za-z])", "'"),
        # words
        (r"\\(?:text(?:bf|it|rm|sf|normal)?|mbox|mathrm|operatorname|emph)\s*\{([^{}]*)\}", r"\1"),
        (r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|(?<=\d)\s*\\?degrees?(?![A-Za-z])", "° "),
        (r"\(?\s*\\pmod\s*(?:\{([^{}]*)\}|(\d))\s*\)?|\\b?mod(?![A-Za-z])", _written_modulus),
        (r"(?<![A-Za-z\d])([A-Za-z]|\d+)\s*(?:\^|-)?\s*\{?\s*-?\s*(th|st|nd|rd)(?![A-Za-z])\s*\}?", r"\1\2 "),
        # fractions, binomials and roots
        (r"(?<=[\^_])\{\s*(\w)\s*\}", r"\1"),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\\frac\s*(\{[^{}]*\}|\d|[A-Za-z])\s*(\{[^{}]*\}|\d|[A-Za-z])", _braced_fraction),
        (r"\\sqrt\s*(\d|[A-Za-z])", r"\\sqrt{\1}"),
        (r"(?<!\\frac)(?<!\})\{\s*(\\frac\{[^{}]*\}\{[^{}]*\})\s*\}(?!\{)", r"\1"),
    )
)
"""Substitutions that normalise typesetting, in order."""

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
_SHORTEST_WORD = 4
_SHORT_WORDS = {
    "all", "and", "are", "as", "at", "be", "but", "by", "can", "do", "for", "had", "has", "he", "her", "him", "his",
    "how", "if", "in", "is", "it", "its", "let", "not", "of", "on", "one", "or", "per", "she", "six", "ten", "the",
    "to", "two", "was", "we", "who", "you",
}  # fmt: skip


class NormalKey(NamedTuple):
    """The normal form of a question; its numbers distinguish `3 4` from `34`."""

    text: str
    numbers: tuple[str, ...]


def question_id(question: str) -> str:
    """Hash of the compact form of a question, the same on every machine."""
    return _hash(compact(question))


def text_hash(question: str, steps: Iterable[str]) -> str:
    """Hash of the compact forms of a question and a solution's steps; it begins with the question's id."""
    return question_id(question) + _hash("\n".join(map(compact, steps)))


def question_of(text_hash: str) -> str:
    """The question's id in a `text_hash`."""
    return text_hash[: 2 * QUESTION_ID_BYTES]


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=QUESTION_ID_BYTES).hexdigest()


def compact(question: str) -> str:
    """Normalise Unicode and remove white space and zero-width characters, except a space between numbers."""
    return _BLANKS.sub(lambda blanks: " " if blanks[1] else "", _one_unicode_form(question).strip())


@lru_cache(maxsize=CACHED_KEYS)
def normal_key(question: str) -> NormalKey:
    """The normal form of a question, without typesetting."""
    named = [_one_name(piece) for piece in _PIECE.findall(_plain(question))]
    listed = _with_lists([piece for piece in named if piece not in _NEVER_COUNT])
    around = zip(["", *listed], listed, [*listed[1:], ""], strict=False)
    pieces = [piece for left, piece, right in around if _counts(left, piece, right)]
    return NormalKey("".join(pieces), tuple(piece for piece in pieces if piece[-1].isdecimal()))


def drawing(question: str) -> str:
    """The normalised Asymptote code of a question, or an empty text."""
    return compact(" ".join(_plain(code) for code in _DRAWING.findall(question)))


def _one_unicode_form(text: str) -> str:
    """NFKC without zero-width characters; `x²` becomes `x^2`, `½` a fraction."""
    if text.isascii():
        return text
    text = _SUPERSCRIPTS.sub(lambda match: _script("^", match[0]), text)
    text = _SUBSCRIPTS.sub(lambda match: _script("_", match[0]), text)
    text = unicodedata.normalize("NFKC", _VULGAR_FRACTION.sub(_fraction_of_character, text))
    return _ZERO_WIDTH.sub("", text)


def _script(mark: str, characters: str) -> str:
    return f"{mark}{{{characters}}}" if len(characters) > 1 else mark + characters


def _fraction_of_character(match: re.Match[str]) -> str:
    top, bottom = unicodedata.normalize("NFKC", match[0]).split("\u2044")
    return f"\\frac{{{top}}}{{{bottom}}}"


def _plain(question: str) -> str:
    """Normalise the typesetting of a question and drop its drawings."""
    text = _DRAWING.sub(" ", _one_unicode_form(question))
    text = text if text.isascii() else text.translate(_WRITTEN_OUT)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def _one_name(piece: str) -> str:
    """Lower the case of words; capitals that may distinguish variables stay: `A`, `ABC`."""
    return piece.lower() if piece[1:].islower() and piece[0] != "\\" else _SAME_PIECE.get(piece, piece)


def _is_word(piece: str) -> bool:
    """Whether a piece is a word, not a variable, a product of variables, a number or a sign."""
    return piece.isalpha() and not piece.isupper() and (len(piece) >= _SHORTEST_WORD or piece in _SHORT_WORDS)


def _with_lists(pieces: list[str]) -> list[str]:
    """Normalise lists: `x, y, and z` equals `x, y and z`; commas between words are dropped."""
    runs = [(is_list, list(run)) for is_list, run in groupby(pieces, key=_LISTING.__contains__)]
    listed: list[str] = []
    for place, (is_list, run) in enumerate(runs):
        after = runs[place + 1][1][0] if place + 1 < len(runs) else ""
        if not is_list:
            listed += run
        elif not listed or not after or _is_word(listed[-1]) or _is_word(after):
            listed += ["and"] if "and" in run else []
        else:
            listed.append(",")
    return listed


def _counts(left: str, piece: str, right: str) -> bool:
    """Whether a piece has a meaning between its neighbours."""
    if piece == "'":
        return not _is_word(left) or right in _AFTER_APOSTROPHE
    if piece == "!":
        return not _is_word(left)
    return piece != ":" or not (_is_word(left) or _is_word(right) or not left or not right)
