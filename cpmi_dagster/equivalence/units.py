r"""Units behind a number, brought to one spelling.

"5225 cubic inches"  -> ("5225", "cubic inch")        "2400 cm^2"  -> ("2400", "square centimeter")
"25 percent"         -> ("25%", "")                   "10 x"       -> ("10 x", "")
"""

import re

_UNIT = re.compile(r"(?P<value>.*[0-9)}%]|.*\\pi)\s*(?<![A-Za-z\\])(?P<words>[A-Za-z][A-Za-z. /-]+?)\.?"
                   r"\s*(?:\^\s*\{?\s*(?P<power>[23])\s*\}?)?", re.DOTALL)  # fmt: skip
_POWERS = {"2": "square ", "3": "cubic ", None: ""}
_PERCENT = {"percent", "per cent", "percentage"}
_SPELLINGS = {
    "cm": "centimeter", "centimetre": "centimeter", "metre": "meter", "km": "kilometer", "kilometre": "kilometer",
    "mm": "millimeter", "ft": "foot", "feet": "foot", "in": "inch", "inches": "inch", "sq": "square", "cu": "cubic",
    "min": "minute", "mins": "minute", "hr": "hour", "hrs": "hour", "sec": "second", "secs": "second",
    "usd": "dollar", "lb": "pound", "lbs": "pound", "kg": "kilogram", "mph": "mile per hour", "deg": "degree",
    "am": "a.m.", "pm": "p.m.", "a.m": "a.m.", "p.m": "p.m.", "gal": "gallon", "oz": "ounce",
}  # fmt: skip


def split_unit(text: str) -> tuple[str, str]:
    """Value and unit of a plain text; the unit is empty where none follows the value.

    A single letter behind a number is a variable, not a unit.
    """
    found = _UNIT.fullmatch(text)
    if found is None or not any(character.isdigit() for character in found["value"]):
        return text, ""
    words = " ".join(_spelling(word) for word in found["words"].lower().replace("/", " per ").split())
    if words in _PERCENT:
        return f"{found['value']}%", ""
    return found["value"].strip(), _POWERS[found["power"]] + words


def _spelling(word: str) -> str:
    word = _SPELLINGS.get(word, word).rstrip(".") if word not in {"a.m.", "p.m."} else word
    singular = word.removesuffix("s") if len(word) > 3 and not word.endswith("ss") else word
    return _SPELLINGS.get(singular, singular)
