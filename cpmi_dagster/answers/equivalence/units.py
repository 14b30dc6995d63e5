r"""Units behind a number, brought to one spelling.

"5225 cubic inches"  -> ("5225", "cubic inch")        "2400 cm^2"  -> ("2400", "square centimeter")
"25 percent"         -> ("25%", "")                   "10 x", "2xy" -> themselves: letters, not units
"""

import re

_UNIT = re.compile(r"(?P<value>.*[0-9)}%]|.*\\pi)(?P<gap>\s*)(?<![A-Za-z\\])(?P<words>[A-Za-z][A-Za-z. /-]+?)\.?"
                   r"\s*(?:\^\s*\{?\s*(?P<power>[23])\s*\}?)?", re.DOTALL)  # fmt: skip
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z][A-Za-z.]")
_LONE_LETTER = re.compile(r"(?<![A-Za-z.])[A-Za-z](?![A-Za-z.])")
_PER_TIME = re.compile(r"(?<=[A-Za-z]{2})/[hs]$")
_POWERS = {"2": "square ", "3": "cubic ", None: ""}
_PERCENT = {"percent", "per cent", "percentage"}
_SHORT_WORD = 2
_SPELLINGS = {
    "cm": "centimeter", "centimetre": "centimeter", "metre": "meter", "km": "kilometer", "kilometre": "kilometer",
    "mm": "millimeter", "ft": "foot", "feet": "foot", "in": "inch", "inches": "inch", "sq": "square", "cu": "cubic",
    "min": "minute", "mins": "minute", "hr": "hour", "hrs": "hour", "sec": "second", "secs": "second",
    "usd": "dollar", "lb": "pound", "lbs": "pound", "kg": "kilogram", "mph": "mile per hour", "deg": "degree",
    "am": "a.m.", "pm": "p.m.", "a.m": "a.m.", "p.m": "p.m.", "gal": "gallon", "oz": "ounce", "ml": "milliliter",
    "h": "hour", "s": "second", "litre": "liter", "mg": "milligram", "yd": "yard", "mi": "mile",
}  # fmt: skip
_ORDINALS = {"st", "nd", "rd", "th"}
_KNOWN = {*_SPELLINGS, *_SPELLINGS.values(), *_ORDINALS, *_PERCENT}


def split_unit(text: str) -> tuple[str, str]:
    """Value and unit of a plain text; the unit is empty where none follows the value.

    Single letters behind a number are variables, and so are several without a space, unless they are a known unit.
    """
    found = _UNIT.fullmatch(text) if _WORD.search(text) else None
    if found is None or not any(character.isdigit() for character in found["value"]):
        return text, ""
    words = " ".join(_spelling(word) for word in found["words"].lower().replace("/", " per ").split())
    if not _is_unit(found["words"], words, bool(found["gap"])):
        return text, ""
    if words in _PERCENT:
        return f"{found['value']}%", ""
    return found["value"].strip(), _POWERS[found["power"]] + words


def _is_unit(written: str, spelled: str, is_apart: bool) -> bool:
    return not _LONE_LETTER.search(_PER_TIME.sub("", written)) and (
        spelled in _KNOWN or written.lower() in _KNOWN or (is_apart and len(written) > _SHORT_WORD)
    )


def _spelling(word: str) -> str:
    word = _SPELLINGS.get(word, word).rstrip(".") if word not in {"a.m.", "p.m."} else word
    singular = word.removesuffix("s") if len(word) > 3 and not word.endswith("ss") else word
    return _SPELLINGS.get(singular, singular)
