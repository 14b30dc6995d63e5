r"""Plain text of an answer: typesetting is removed, meaning stays.

"$\dfrac43$"                            -> "\frac{4}{3}"
"\$1,\!234.50", "€5 \text{ each}"       -> "1234.50 dollars", "5 euros"    (but "\$5x" -> "5x")
"5225 \text{ cubic inches}"             -> "5225 cubic inches"
"\left( 3, \frac{\pi}{2} \right)"       -> "( 3, \frac{\pi}{2} )"
"120^{\circ}", "30'"                    -> "120 degrees", "30 arcminutes"   (but "x^\circ" -> "x", "\sin 30°" stays)
"58\,500", "\langle 1, 2 \rangle"       -> "58500", "( 1, 2 )"
"\[ \boxed{60} \]"                       -> "60"
"{6 \choose 3}", "10 sqrt(21)"          -> "\binom{6}{3}", "10 \sqrt(21)"
"Rs. 20", "US$5", "20 EUR"              -> "20 rupees", "5 dollars", "20 euros"
"option (B)", "３／４", "A、C"           -> "B", "3/4", "A, C"

What encloses an answer is removed first: boxes, math delimiters, bold, code ticks.

boxed_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")  -> "\frac{2}{3}"
unwrap(r"**$\boxed{\frac{1}{2}}$**."), unwrap("`7`")   -> "\frac{1}{2}", "7"
unwrap(r"$5"), unwrap(r"\(a\), \(b\)")                 -> unchanged
"""

import re
from collections.abc import Callable
from functools import lru_cache

from cpmi_dagster.answers.units import SCALES
from cpmi_dagster.answers.values import FUNCTIONS, TRIGONOMETRIC

CACHED_TEXTS = 1 << 16
FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: " "}
"""For `str.translate`: full-width letters, digits and signs of East Asian texts to those of ASCII."""
SPACES_IN_NUMBERS = r"\u00a0\u2002-\u200a\u202f\u205f"
"""Characters of a class: no-break and thin spaces, which separate thousands."""
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_UNBRACED = re.compile(r"(?:\\[A-Za-z]+|[^\s{}$\\])*")
_FENCED = re.compile(
    r"(?P<dollars>\$\$?)(?P<math>(?:\\.|[^$\\])+)(?P=dollars)|\\\((?P<inline>(?:(?!\\\)).)*)\\\)"
    r"|\\\[(?P<displayed>(?:(?!\\\]).)*)\\\]|(?P<stars>\*{1,3})(?P<bold>[^*]+)(?P=stars)"
    r"|(?P<ticks>`+)(?:\w*\n)?(?P<code>[^`]+)(?P=ticks)",
    re.DOTALL,
)
_INSIDE = ("math", "inline", "displayed", "bold", "code")
_STOPS = ".,; "
_FORMULA = re.compile(r"(?<!\\)(?:\$\$?|\\\(|\\\[)(?P<inside>(?:\\\$|[^$])*?)(?:\$\$?|\\\)|\\\])", re.DOTALL)
_SYMBOLS = FULL_WIDTH | str.maketrans({
    "、": ", ", "￥": "¥", "万": "\\cdot 10000 ", "萬": "\\cdot 10000 ", "亿": "\\cdot 10^8 ", "億": "\\cdot 10^8 ",
    "−": "-", "–": "-", "—": "-", "×": "\\times ", "·": "\\cdot ", "÷": "/", "⁄": "/", "π": "\\pi ",
    "∞": "\\infty ", "≤": "\\le ", "≥": "\\ge ", "∪": "\\cup ", "±": "\\pm ", "≠": "\\ne ", "∩": "\\cap ", "∈": "\\in ",
    "ℝ": "\\mathbb{R}", "½": "\\frac{1}{2}", "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}",
    "⅓": "\\frac{1}{3}", "⅔": "\\frac{2}{3}", "√": "\\sqrt ",
})  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_COMMANDS = {
    "lvert": "|", "rvert": "|", "vert": "|", "lt": "<", "gt": ">", "to": " to ", "degree": "^\\circ ",
    "leq": "\\le ", "leqslant": "\\le ", "geq": "\\ge ", "geqslant": "\\ge ", "neq": "\\ne ", "approx": "",
    "varnothing": "\\emptyset ", "ldots": "\\dots ", "lbrace": "\\{", "rbrace": "\\}", "langle": "(", "rangle": ")",
    "colon": ":", "lbrack": "[", "rbrack": "]", "dfrac": "\\frac", "tfrac": "\\frac", "cfrac": "\\frac",
    "dbinom": "\\binom", "tbinom": "\\binom",
}  # fmt: skip
_UNIT_LETTERS = {"m": "meter", "g": "gram", "s": "second", "h": "hour", "L": "liter"}
_UNIT_LETTER = re.compile(rf"(?<![A-Za-z.])[{''.join(_UNIT_LETTERS)}](?![A-Za-z.])")
_CURRENCIES = {
    "$": "dollars", "€": "euros", "£": "pounds", "¥": "yen", "¢": "cents", "₹": "rupees", "₩": "won", "₽": "rubles",
    "USD": "dollars", "EUR": "euros", "GBP": "pounds", "JPY": "yen", "CNY": "yuan", "RMB": "yuan", "INR": "rupees",
    "RS": "rupees",
}  # fmt: skip
_PART = r"\{(?:[^{}]|\{[^{}]*\})*\}|\d|[A-Za-z]|\\pi(?![A-Za-z])"
_FRACTION = re.compile(rf"\\(frac|binom)\s*({_PART})\s*({_PART})")
_NAME = rf"(?:(?:sqrt|{'|'.join(FUNCTIONS)})(?=\s*(?:[(0-9^]|[A-Za-z](?![A-Za-z])))|pi(?![A-Za-z]))"
_TRIGONOMETRIC = re.compile(rf"\\(?:{'|'.join(TRIGONOMETRIC)})")
_FONTS = "text(?:bf|it|rm|normal|tt|sf)?|[mh]box|math(?:rm|bf|it)|operatorname"
_AMOUNT = rf"(?P<amount>-?(?:\d+\.?\d*|\.\d+)(?:\s+(?:{'|'.join(SCALES)})s?\b)*)"
_RATE = r"(?P<per>\s+per(?:\s+[A-Za-z]{2,})+)?"
_CODE = r"(?<![A-Za-z\\])(?:Rs|(?i:USD|EUR|GBP|JPY|CNY|RMB|INR))(?![A-Za-z])\.?"
_MONEY = rf"(?:\bUS(?=\\?\$))?(?P<money>\\?\$|[€£¥¢₹₩₽]|{_CODE})"
_ITEM_ENDS = r"(?:/-)?(?=\s*(?:$|[,;]|(?:and|or)\b))"
_DEGREES = r"(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|°)(?:\s*[CF](?![A-Za-z0-9]))?"
_BUILDER = r"\s*[A-Za-z]\s*(?:\\in\s*\(-\\infty,\\infty\)\s*)?(?:\\mid|\||:)"
_BRACKETS = set("([{")
_BEGUN = r"(?<![\d.,])\d{1,3}"


def _without_marks(number: re.Match[str]) -> str:
    return re.sub(r"\D", "", number[0])


def _without_commas(number: re.Match[str]) -> str:
    """Remove the commas of a number, except in brackets, where they separate entries."""
    return _without_marks(number) if _BRACKETS.isdisjoint(number.string) else number[0]


def _macro_content(macro: re.Match[str]) -> str:
    """The content of a text macro; a letter after a number is a unit there, not a variable."""
    content, before = macro[1].strip(), macro.string[: macro.start()].rstrip()
    if content in FUNCTIONS:
        return f"\\{content} "
    if before[-1:].isdigit() or before.endswith(("}", ")", "\\pi")):
        content = _UNIT_LETTER.sub(lambda letter: _UNIT_LETTERS[letter[0]], content)
    return f" {content} "


def _with_braces(fraction: re.Match[str]) -> str:
    name, *parts = fraction.groups()
    inner = (_FRACTION.sub(_with_braces, part) for part in parts)
    return f"\\{name}" + "".join(part if part.startswith("{") else f"{{{part}}}" for part in inner)


def _amount(price: re.Match[str]) -> str:
    parts = price.groupdict("")
    currency = _CURRENCIES[parts["money"].strip("\\.").upper()]
    return f"{parts.get('amount', '')} {currency}{parts.get('per', '')}"


_RULES: tuple[tuple[str, str, str | Callable[[re.Match[str]], str]], ...] = (
    ("", r"(?<![\w\\.])(\d+\.?\d*|\.\d+)[eE]\+?(-?\d{1,4})(?![\w.]|\s*_)", r"\1 \\cdot 10^{\2}"),
    ("10", r"(?<=\d)\s*[xX*]\s*10\s*(?:\^|\*\*)\s*\{?\s*\+?(-?\d+)\s*\}?", r" \\cdot 10^{\1}"),
    ("", rf"(?<![\\A-Za-z]){_NAME}", r"\\\g<0>"),
    ("", rf"{_BEGUN}(?:(?:\\[,; ]|~|[{SPACES_IN_NUMBERS}])\d{{3}})+(?!\d)|^\d{{1,3}}(?: \d{{3}})+$", _without_marks),
    ("mod", r"\(?\s*\\?[pb]?mod(?![A-Za-z])\s*\{?\s*(\w+)\s*\}?\s*\)?", r"\\pmod{\1}"),
    (",", r"(?:,\s*\\!\s*|\{,\})(?=\d{3})", ""),
    ("\\!", r"\\!", ""),
    ("\\", r"(?<!\\)\\[,;: ]|\\(?:quad|qquad|thinspace|displaystyle)(?![A-Za-z])|\\phantom\s*(?:\{[^{}]*\}|[^{])", " "),
    ("~", "~", " "),
    ("\\", r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])", ""),
    ("\\", rf"\\(?:{_FONTS})\s*\{{([^{{}}]*)\}}", _macro_content),
    ("\\%", r"\\%", "%"),
    ("\\", rf"\\({'|'.join(_COMMANDS)})(?![A-Za-z])", lambda command: _COMMANDS[command[1]]),
    ("\\", r"\\(?:over(?:line|rightarrow|leftrightarrow)|triangle|angle)\s*\{?\s*([A-Z]+)\s*\}?", r" \1 "),
    ("^", r"(?<=[0-9])\s*\^\s*\{?\s*(st|nd|rd|th)(?![A-Za-z])\s*\}?", r"\1"),
    ("\\mathbb", r"\\mathbb\{R\}", r"(-\\infty,\\infty)"),
    ("\\choose", r"\{([^{}]*)\\choose(?![A-Za-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
    ("\\", _FRACTION.pattern, _with_braces),
    ("\\sqrt", r"\\sqrt\s*(?:\(([^()]*)\)|(\d|[A-Za-z]))", r"\\sqrt{\1\2}"),
    ("<=", "<=", r"\\le "),
    (">=", ">=", r"\\ge "),
    ("\\{", rf"^\s*\\\{{(?:{_BUILDER})?([^,;{{}}]*(?:[<>]|\\(?:le|ge|ne)(?![A-Za-z]))[^,;{{}}]*)\\\}}\s*$", r"\1"),
    (",", rf"{_BEGUN}(?:,\d{{3}})+(?![\d,])", _without_commas),
    ("", rf"^\s*(-?\d+(?:\.\d+)?)\s*{_DEGREES}\s*$", r"\1 degrees"),
    ("", r"^\s*(-?\d+(?:\.\d+)?)\s*(?:''|″|\^\s*\{\s*\\prime\s*\\prime\s*\})\s*$", r"\1 arcseconds"),
    ("", r"^\s*(-?\d+(?:\.\d+)?)\s*(?:'|′|\^\s*(?:\{\s*\\prime\s*\}|\\prime))\s*$", r"\1 arcminutes"),
    ("", _DEGREES, lambda sign: "°" if _TRIGONOMETRIC.search(sign.string) else ""),
    ("", rf"{_MONEY}\s*{_AMOUNT}(?:\s+(?!(?:per|and|or)\b)[A-Za-z]{{2,}})*{_RATE}{_ITEM_ENDS}", _amount),
    ("", rf"(?<=\d)\s*{_MONEY}{_ITEM_ENDS}", _amount),
    ("", r"\\?\$|[€£¥¢₹₩₽]", ""),
    ("`", "`", ""),
    ("", r"^\s*(?i:(?:the )?(?:option|choice|answer)s?|选项|選項)\s*(?=\(?[A-J](?![\w']))", ""),
    ("", r"[\s\u200b-\u200d\u2060\ufeff]+", " "),
)
_COMPILED = tuple((needle, re.compile(pattern), replacement) for needle, pattern, replacement in _RULES)


@lru_cache(maxsize=CACHED_TEXTS)
def plain_text(answer: str) -> str:
    """Remove delimiters, spacing, sizing, fonts, degrees and thousands separators; brace fractions."""
    if not answer.isascii():
        answer = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda power: f"^{{{power[0].translate(_SUPERSCRIPTS)}}}", answer)
        answer = re.sub(r"√\s*([0-9]+)", r"\\sqrt{\1}", answer).translate(_SYMBOLS)
    text = _BOX.sub("", unwrap(answer))
    if (text.count("$") > 1 and "\\$" not in text) or "\\(" in text or "\\[" in text:
        text = _FORMULA.sub(r" \g<inside> ", text)
    for needle, pattern, replacement in _COMPILED:
        if needle in text:
            text = pattern.sub(replacement, text)
    return strip_stops(text)


def boxed_answer(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` or `\fbox{…}`, braces optional; None without a box."""
    boxes = list(_BOX.finditer(text))
    return _boxed(text, boxes[-1].end())[0] if boxes else None


def unwrap(answer: str) -> str:
    """Remove boxes, math delimiters, bold, code ticks and final stops around the whole answer, in any order."""
    while True:
        answer = strip_stops(answer)
        if fenced := _FENCED.fullmatch(answer):
            answer = next(text for text in fenced.group(*_INSIDE) if text is not None)
        elif box := _BOX.match(answer):
            content, end = _boxed(answer, box.end())
            if end != len(answer):
                return answer
            answer = content
        else:
            return answer


def strip_stops(text: str) -> str:
    """Strip white space, and stops at the end."""
    return text.strip().rstrip(_STOPS).strip()


def closing_brace(text: str, start: int) -> int:
    """Position of the brace that closes the one before `start`, or the length of the text."""
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


def _boxed(text: str, start: int) -> tuple[str, int]:
    """The content of a box that starts at `start`, and the position after the box."""
    if text[start : start + 1] == "{":
        end = closing_brace(text, start + 1)
        return text[start + 1 : end].strip(), end + 1
    # a run without white space, including its groups in braces
    position = start
    while True:
        run = _UNBRACED.match(text, position)
        position = run.end() if run else position
        if text[position : position + 1] != "{":
            return strip_stops(text[start:position]), position
        position = min(closing_brace(text, position + 1) + 1, len(text))
