r"""Plain text of an answer: what is only typesetting goes, what carries meaning stays.

"$\dfrac43$"                            -> "\frac{4}{3}"
"\$1,\!234.50"                          -> "1234.50"
"5225 \text{ cubic inches}"             -> "5225 cubic inches"
"\left( 3, \frac{\pi}{2} \right)"       -> "( 3, \frac{\pi}{2} )"
"120^{\circ}"                           -> "120"
"""

import re

_FENCED = re.compile(r"(?:\$\$?|\\\(|\\\[)(?P<inside>[^$]*?)(?:\$\$?|\\\)|\\\])", re.DOTALL)
_UNBREAKABLE_COMMA = re.compile(r",\s*\\!\s*|\{,\}")
_SPACING = re.compile(
    r"(?<!\\)\\[,;: ]|\\(?:quad|qquad|thinspace|displaystyle)(?![A-Za-z])|\\phantom\s*(?:\{[^{}]*\}|[^{])|~"
)
_SIZING = re.compile(r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])")
_TEXT_MACRO = re.compile(
    r"\\(?:text(?:bf|it|rm|normal|tt|sf)?|mbox|hbox|mathrm|mathbf|mathit|operatorname)\s*\{([^{}]*)\}"
)
_FRACTION_NAME = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_PART = r"\{(?:[^{}]|\{[^{}]*\})*\}|\d|[A-Za-z]|\\pi(?![A-Za-z])"
_FRACTION = re.compile(rf"\\frac\s*({_PART})\s*({_PART})")
_BARE_ROOT = re.compile(r"\\sqrt\s*(\d|[A-Za-z])")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_DEGREES = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|°")
_MONEY = re.compile(r"\\?\$|[€£¥]")
_BLANKS = re.compile(r"[\s\u200b-\u200d\u2060\ufeff]+")
_COMMANDS = {
    "leq": "\\le ", "leqslant": "\\le ", "geq": "\\ge ", "geqslant": "\\ge ", "neq": "\\ne ", "approx": "",
    "varnothing": "\\emptyset ", "ldots": "\\dots ", "lbrace": "\\{", "rbrace": "\\}", "lbrack": "[", "rbrack": "]",
}  # fmt: skip
_SYNONYM = re.compile(rf"\\({'|'.join(_COMMANDS)})(?![A-Za-z])")
_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "×": "\\times ", "·": "\\cdot ", "÷": "/", "⁄": "/", "π": "\\pi ",
    "∞": "\\infty ", "≤": "\\le ", "≥": "\\ge ", "∪": "\\cup ", "±": "\\pm ", "√": "\\sqrt ", "²": "^2", "³": "^3",
    "½": "\\frac{1}{2}", "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}", "⅓": "\\frac{1}{3}", "⅔": "\\frac{2}{3}",
}  # fmt: skip
_SYMBOL_TABLE = str.maketrans(_SYMBOLS)
_STOPS = ".,;"


def plain_text(answer: str) -> str:
    """The answer without fences, spacing, sizing, fonts, currency, degrees and thousands commas; fractions braced."""
    text = _unfence(answer.translate(_SYMBOL_TABLE))
    if "\\" in text or "{,}" in text:
        text = _plain_latex(text)
    text = _DEGREES.sub("", _MONEY.sub("", text))
    if "," in text and not set("([{") & set(text):
        text = _THOUSANDS.sub(lambda number: number.group().replace(",", ""), text)
    return _trim(_BLANKS.sub(" ", text))


def _plain_latex(text: str) -> str:
    text = _SPACING.sub(" ", _join_unbreakable(text).replace("\\!", ""))
    text = _TEXT_MACRO.sub(r" \1 ", _SIZING.sub("", text)).replace("\\%", "%")
    text = _SYNONYM.sub(lambda command: _COMMANDS[command.group(1)], text)
    text = _FRACTION.sub(_braced_fraction, _FRACTION_NAME.sub(r"\\frac", text))
    return _BARE_ROOT.sub(r"\\sqrt{\1}", text)


def _join_unbreakable(text: str) -> str:
    r"""`1,\!234` and `1{,}234` are one number, wherever they stand."""
    return _UNBREAKABLE_COMMA.sub(lambda comma: "" if text[comma.end() : comma.end() + 3].isdigit() else ",", text)


def _braced_fraction(fraction: re.Match[str]) -> str:
    parts = (_FRACTION.sub(_braced_fraction, part) for part in fraction.groups())
    return "\\frac" + "".join(part if part.startswith("{") else f"{{{part}}}" for part in parts)


def _unfence(text: str) -> str:
    text = _trim(text)
    while fenced := _FENCED.fullmatch(text):
        text = _trim(fenced["inside"])
    return _FENCED.sub(r" \g<inside> ", text) if text.count("$") > 1 and "\\$" not in text else text


def _trim(text: str) -> str:
    return text.strip().rstrip(_STOPS).strip()
