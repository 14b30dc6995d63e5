r"""Plain text of an answer: what is only typesetting goes, what carries meaning stays.

"$\dfrac43$"                            -> "\frac{4}{3}"
"\$1,\!234.50", "€5 \text{ each}"       -> "1234.50 dollars", "5 euros"    (but "\$5x" -> "5x")
"5225 \text{ cubic inches}"             -> "5225 cubic inches"
"\left( 3, \frac{\pi}{2} \right)"       -> "( 3, \frac{\pi}{2} )"
"120^{\circ}", "30'"                    -> "120 degrees", "30 arcminutes"   (but "x^\circ" -> "x", "\sin 30°" stays)
"58\,500", "\langle 1, 2 \rangle"       -> "58500", "( 1, 2 )"
"\[ \boxed{60} \]"                       -> "60"
"{6 \choose 3}", "10 sqrt(21)"          -> "\binom{6}{3}", "10 \sqrt(21)"
"""

import re
from functools import lru_cache

from cpmi_dagster.answers.equivalence.expressions import FUNCTIONS, TRIGONOMETRIC
from cpmi_dagster.answers.equivalence.units import SCALES
from cpmi_dagster.answers.fences import unwrapped, without_stops

CACHED_TEXTS = 1 << 16
_FENCED = re.compile(r"(?<!\\)(?:\$\$?|\\\(|\\\[)(?P<inside>(?:\\\$|[^$])*?)(?:\$\$?|\\\)|\\\])", re.DOTALL)
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_UNBREAKABLE_COMMA = re.compile(r",\s*\\!\s*|\{,\}")
_UNIT_LETTERS = {"m": "meter", "g": "gram", "s": "second", "h": "hour", "L": "liter"}
_UNIT_LETTER = re.compile(rf"(?<![A-Za-z.])[{''.join(_UNIT_LETTERS)}](?![A-Za-z.])")
_SPACING = re.compile(
    r"(?<!\\)\\[,;: ]|\\(?:quad|qquad|thinspace|displaystyle)(?![A-Za-z])|\\phantom\s*(?:\{[^{}]*\}|[^{])|~"
)
_FIGURE = re.compile(r"\\(?:over(?:line|rightarrow|leftrightarrow)|triangle|angle)\s*\{?\s*([A-Z]+)\s*\}?")
_SIZING = re.compile(r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])")
_TEXT_MACRO = re.compile(
    r"\\(?:text(?:bf|it|rm|normal|tt|sf)?|mbox|hbox|mathrm|mathbf|mathit|operatorname)\s*\{([^{}]*)\}"
)
_FRACTION_NAME = re.compile(r"\\[dtc](frac|binom)(?![A-Za-z])")
_PART = r"\{(?:[^{}]|\{[^{}]*\})*\}|\d|[A-Za-z]|\\pi(?![A-Za-z])"
_FRACTION = re.compile(rf"\\(frac|binom)\s*({_PART})\s*({_PART})")
_CHOOSE = re.compile(r"\{([^{}]*)\\choose(?![A-Za-z])([^{}]*)\}")
_ORDINAL = re.compile(r"(?<=[0-9])\s*\^\s*\{?\s*(st|nd|rd|th)(?![A-Za-z])\s*\}?")
_TRIGONOMETRIC = re.compile(rf"\\(?:{'|'.join(TRIGONOMETRIC)})")
_BARE_NAME = re.compile(
    rf"(?<![\\A-Za-z])(?:(?:sqrt|{'|'.join(FUNCTIONS)})(?=\s*(?:[(0-9^]|[A-Za-z](?![A-Za-z])))|pi(?![A-Za-z]))"
)
_BARE_ROOT = re.compile(r"\\sqrt\s*(\d|[A-Za-z])")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:\\[,; ]|~|[\u2009\u202f])\d{3})+(?!\d)|^\d{1,3}(?: \d{3})+$")
_NOT_A_DIGIT = re.compile(r"\D")
_DEGREES = re.compile(r"(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|°)(?:\s*[CF](?![A-Za-z0-9]))?")
_ARC = (
    (_DEGREES, " degrees"),
    (re.compile(r"(?:''|″|\^\s*\{\s*\\prime\s*\\prime\s*\})"), " arcseconds"),
    (re.compile(r"(?:'|′|\^\s*(?:\{\s*\\prime\s*\}|\\prime))"), " arcminutes"),
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MODULUS = re.compile(r"\(?\s*\\?[pb]?mod(?![A-Za-z])\s*\{?\s*(\w+)\s*\}?\s*\)?")
_MONEY = re.compile(r"\\?\$|[€£¥¢]")
_CURRENCIES = {"$": "dollars", "€": "euros", "£": "pounds", "¥": "yen", "¢": "cents"}
_ITEM_ENDS = r"(?=\s*(?:$|[,;]|(?:and|or)\b))"
_PRICE = re.compile(
    rf"(?P<money>{_MONEY.pattern})\s*(?P<amount>-?(?:\d+\.?\d*|\.\d+)(?:\s+(?:{'|'.join(SCALES)})s?\b)*)"
    rf"(?:\s+(?!(?:per|and|or)\b)[A-Za-z]{{2,}})*(?P<per>\s+per(?:\s+[A-Za-z]{{2,}})+)?{_ITEM_ENDS}"
)
_COINS = re.compile(rf"(?<=\d)\s*(?P<money>{_MONEY.pattern}){_ITEM_ENDS}")
_BLANKS = re.compile(r"[\s\u200b-\u200d\u2060\ufeff]+")
_COMMANDS = {
    "lvert": "|", "rvert": "|", "vert": "|", "lt": "<", "gt": ">", "to": " to ", "degree": "^\\circ ",
    "leq": "\\le ", "leqslant": "\\le ", "geq": "\\ge ", "geqslant": "\\ge ", "neq": "\\ne ", "approx": "",
    "varnothing": "\\emptyset ", "ldots": "\\dots ", "lbrace": "\\{", "rbrace": "\\}", "langle": "(", "rangle": ")",
    "colon": ":", "lbrack": "[", "rbrack": "]",
}  # fmt: skip
_SYNONYM = re.compile(rf"\\({'|'.join(_COMMANDS)})(?![A-Za-z])")
_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "×": "\\times ", "·": "\\cdot ", "÷": "/", "⁄": "/", "π": "\\pi ",
    "∞": "\\infty ", "≤": "\\le ", "≥": "\\ge ", "∪": "\\cup ", "±": "\\pm ", "≠": "\\ne ", "∩": "\\cap ", "∈": "\\in ",
    "ℝ": "\\mathbb{R}", "²": "^2", "³": "^3",
    "½": "\\frac{1}{2}", "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}", "⅓": "\\frac{1}{3}", "⅔": "\\frac{2}{3}",
}  # fmt: skip
_SYMBOL_TABLE = str.maketrans(_SYMBOLS)
_ROOT_SIGN = re.compile(r"√\s*([0-9]+)")
_REAL_NUMBERS = "(-\\infty,\\infty)"
_BRACKETS = set("([{")


@lru_cache(maxsize=CACHED_TEXTS)
def plain_text(answer: str) -> str:
    """The answer without fences, spacing, sizing, fonts, degrees and thousands commas; fractions braced."""
    text = _unfence(
        answer
        if answer.isascii()
        else _ROOT_SIGN.sub(r"\\sqrt{\1}", answer.translate(_SYMBOL_TABLE)).replace("√", "\\sqrt ")
    )
    text = _SPACED_THOUSANDS.sub(lambda number: _NOT_A_DIGIT.sub("", number.group()), _BARE_NAME.sub(r"\\\g<0>", text))
    if "mod" in text:
        text = _MODULUS.sub(r"\\pmod{\1}", text)
    if "\\" in text or "{,}" in text:
        text = _plain_latex(text)
    if "=" in text:
        text = text.replace("<=", "\\le ").replace(">=", "\\ge ")
    if "," in text and _BRACKETS.isdisjoint(text):
        text = _THOUSANDS.sub(lambda number: number.group().replace(",", ""), text)
    text = _with_unit_of_arc(text)
    if "\\" in text or not text.isascii():
        text = _DEGREES.sub("°" if _TRIGONOMETRIC.search(text) else "", text)
    return without_stops(_BLANKS.sub(" ", _with_currency(text)))


def _with_currency(text: str) -> str:
    """Amounts that stand alone with their currency as a word, in place of what else follows; other signs go."""
    if not _MONEY.search(text):
        return text
    text = _PRICE.sub(lambda price: f"{price['amount']} {_currency(price)}{price['per'] or ''}", text)
    return _MONEY.sub("", _COINS.sub(lambda coins: f" {_currency(coins)}", text))


def _currency(price: re.Match[str]) -> str:
    return _CURRENCIES[price["money"][-1]]


def _with_unit_of_arc(text: str) -> str:
    """A number alone with its degrees, minutes or seconds as a word."""
    number = _NUMBER.match(text)
    rest = text[number.end() :].strip() if number else ""
    unit = next((unit for sign, unit in _ARC if rest and sign.fullmatch(rest)), None)
    return number.group() + unit if number and unit else text


def _plain_latex(text: str) -> str:
    text = _SPACING.sub(" ", _join_unbreakable(text).replace("\\!", ""))
    text = _TEXT_MACRO.sub(_macro_content, _SIZING.sub("", text)).replace("\\%", "%")
    text = _SYNONYM.sub(lambda command: _COMMANDS[command.group(1)], text)
    text = _FIGURE.sub(r" \1 ", text)
    text = _CHOOSE.sub(r"\\binom{\1}{\2}", _ORDINAL.sub(r"\1", text).replace("\\mathbb{R}", _REAL_NUMBERS))
    text = _FRACTION.sub(_with_braces, _FRACTION_NAME.sub(r"\\\1", text))
    return _BARE_ROOT.sub(r"\\sqrt{\1}", text)


def _join_unbreakable(text: str) -> str:
    r"""`1,\!234` and `1{,}234` are one number, wherever they stand."""
    return _UNBREAKABLE_COMMA.sub(lambda comma: "" if text[comma.end() : comma.end() + 3].isdigit() else ",", text)


def _macro_content(macro: re.Match[str]) -> str:
    """Upright text; behind a number, a letter of it is a unit, not a variable."""
    content, before = macro.group(1).strip(), macro.string[: macro.start()].rstrip()
    if content in FUNCTIONS:
        return f"\\{content} "
    if before[-1:].isdigit() or before.endswith(("}", ")", "\\pi")):
        content = _UNIT_LETTER.sub(lambda letter: _UNIT_LETTERS[letter.group()], content)
    return f" {content} "


def _with_braces(fraction: re.Match[str]) -> str:
    name, *parts = fraction.groups()
    inner = (_FRACTION.sub(_with_braces, part) for part in parts)
    return f"\\{name}" + "".join(part if part.startswith("{") else f"{{{part}}}" for part in inner)


def _unfence(text: str) -> str:
    text = _BOX.sub("", unwrapped(text))
    has_fences = text.count("$") > 1 and "\\$" not in text
    return _FENCED.sub(r" \g<inside> ", text) if has_fences or "\\(" in text or "\\[" in text else text
