r"""Normalize the typesetting of mathematics, before a question is cut into pieces.

    "Find $\dfrac12+x²$ \\(mod $7$).\n[asy] draw(…); [/asy]"      →     "Find  \frac{1}{2}+x^2  \\(mod 7 )."

What goes: dollars and other fences, LaTeX spacing, drawings, alignment, bullets, quotation marks. What becomes one:
Unicode signs and their commands, kinds of fractions and dots, `12^{th}` and `12-th`, `30^\circ` and `30 degrees`,
`1,\!000` and `1000`. What stays apart: rows and columns of a matrix, `(2,100)` and `2100`, primes and quotes.
"""

import re
import unicodedata

_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_SUBSCRIPTS = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋]+")
_VULGAR_FRACTION = re.compile("[¼-¾⅐-⅞]")
_ZERO_WIDTH = re.compile(r"[\u200b-\u200d\u2060\ufeff\u00ad]")
_DRAWING = re.compile(r"(?:\[asy\]|\\begin\{asy\})(.*?)(?:\[/asy\]|\\end\{asy\}|$)", re.DOTALL | re.IGNORECASE)
_WRITTEN_BREAK = re.compile(r"\\n(?!(?:eq?|eg|i|u|abla|mid|ot|otin|exists|leq|geq|ewline)(?![A-Za-z]))")
_THOUSANDS = re.compile(
    r"(?<![\d.,])(?<![^\\][(\[])(?<!^[(\[])(?<!\\\{)\d{1,3}(?:(?:,|\{,\}|\\!)+\d{3})+(?!,?\d)|\d\\!(?=\d)"
)
_MATRIX = re.compile(r"\\begin\{(\w*matrix)\}.*?\\end\{\1\}", re.DOTALL)
_LAST_ROW = re.compile(r"\\\\\s*(?=\\end)")
_BULLET = re.compile(r"(?m)^\s*[-*]\s+(?=[A-Z][a-z])|\$?\\bullet\$?|•")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{(?:align|aligned|equation|gather|eqnarray|array)\*?\}|[\^_]\{\}")
_SPACING = re.compile(r"(?<!\\)\\[,;:! ]|\\(?:quad|qquad|displaystyle|left|right|limits|[bB]igg?[lrm]?)(?![A-Za-z])|~")
_FENCES = re.compile(r"\\?\$|(?<!\\)\\[()\[\]]|(?<!\\)\\(?=[%{}#&])")
_DOTS = re.compile(r"\.\s?\.\s?\.")
_QUOTED = re.compile(r"(?:``|\")([^\"`']*)(?:''|\")|(?<![\w)}\]'])'(?=\S)([^'\n]*)'(?!\w)")
_PRIME = re.compile(r"\^\s*(?:\{\s*\\prime\s*\}|\\prime(?![A-Za-z]))|\\prime(?![A-Za-z])")
_TEXT_MACRO = re.compile(r"\\(?:text(?:bf|it|rm|sf|normal)?|mbox|mathrm|operatorname|emph)\s*\{([^{}]*)\}")
_DEGREES = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|(?<=\d)\s*\\?degrees?(?![A-Za-z])")
_MODULUS = re.compile(r"\(?\s*\\pmod\s*(?:\{([^{}]*)\}|(\d))\s*\)?|\\b?mod(?![A-Za-z])")
_ORDINAL = re.compile(r"(?<![A-Za-z\d])([A-Za-z]|\d+)\s*(?:\^|-)?\s*\{?\s*-?\s*(th|st|nd|rd)(?![A-Za-z])\s*\}?")
_BRACED_CHARACTER = re.compile(r"(?<=[\^_])\{\s*(\w)\s*\}")
_FRACTION_NAME = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_BINOMIAL_NAME = re.compile(r"\\[dt]binom(?![A-Za-z])")
_BARE_ROOT = re.compile(r"\\sqrt\s*(\d|[A-Za-z])")
_BARE_FRACTION = re.compile(r"\\frac\s*(\{[^{}]*\}|\d|[A-Za-z])\s*(\{[^{}]*\}|\d|[A-Za-z])")
_BRACED_FRACTION = re.compile(r"(?<!\\frac)(?<!\})\{\s*(\\frac\{[^{}]*\}\{[^{}]*\})\s*\}(?!\{)")

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


def one_unicode_form(text: str) -> str:
    """Compatible characters as one (NFKC), without those of no width; `x²` becomes `x^2`, `½` becomes a fraction."""
    if text.isascii():
        return text
    text = _SUPERSCRIPTS.sub(lambda found: _script("^", found[0]), text)
    text = _SUBSCRIPTS.sub(lambda found: _script("_", found[0]), text)
    text = unicodedata.normalize("NFKC", _VULGAR_FRACTION.sub(_fraction_of_character, text))
    return _ZERO_WIDTH.sub("", text)


def plain(question: str) -> str:
    """The question with its typesetting normalized and its drawings left out."""
    text = _DRAWING.sub(" ", one_unicode_form(question))
    text = text if text.isascii() else text.translate(_WRITTEN_OUT)
    text = _THOUSANDS.sub(_digits_only, _WRITTEN_BREAK.sub("\n", text))
    text = _ENVIRONMENT.sub(" ", _MATRIX.sub(_rows_and_columns, _BULLET.sub(" ", text)))
    text = _FENCES.sub(" ", _SPACING.sub(" ", text))
    text = _PRIME.sub("'", _QUOTED.sub(r" \1\2 ", _DOTS.sub(r"\\dots ", text)))
    text = _DEGREES.sub("° ", _TEXT_MACRO.sub(r"\1", text))
    text = _ORDINAL.sub(r"\1\2 ", _MODULUS.sub(_written_modulus, text))
    text = _BINOMIAL_NAME.sub(r"\\binom", _FRACTION_NAME.sub(r"\\frac", _BRACED_CHARACTER.sub(r"\1", text)))
    text = _BARE_ROOT.sub(r"\\sqrt{\1}", _BARE_FRACTION.sub(_braced_fraction, text))
    return _BRACED_FRACTION.sub(r"\1", text)


def drawn(question: str) -> str:
    """The Asymptote code in a question, with normalized labels; empty if there is none."""
    return " ".join(plain(code) for code in _DRAWING.findall(question))


def _script(mark: str, characters: str) -> str:
    return f"{mark}{{{characters}}}" if len(characters) > 1 else mark + characters


def _fraction_of_character(found: re.Match[str]) -> str:
    top, bottom = unicodedata.normalize("NFKC", found[0]).split("\u2044")
    return f"\\frac{{{top}}}{{{bottom}}}"


def _digits_only(number: re.Match[str]) -> str:
    return "".join(character for character in number[0] if character.isdecimal())


def _rows_and_columns(matrix: re.Match[str]) -> str:
    return _LAST_ROW.sub("", matrix[0]).replace("\\\\", " \\row ").replace("&", " \\column ")


def _written_modulus(modulus: re.Match[str]) -> str:
    number = modulus[1] or modulus[2]
    return f" (mod {number})" if number else " mod "


def _braced_fraction(fraction: re.Match[str]) -> str:
    return "\\frac" + "".join(part if part.startswith("{") else f"{{{part}}}" for part in fraction.groups())
