r"""Units behind a number, brought to one spelling; words such as `million` or `tenths` are part of the number.

"5225 cubic inches"  -> ("5225", "cubic inch")        "2400 cm^2"  -> ("2400", "square centimeter")
"25 percent"         -> ("25%", "")                   "10 x", "2xy" -> themselves: letters, not units
"3 million dollars"  -> ("(3) \cdot 1000000", "dollar")    "3 zillion" -> itself: no unit, and no known factor
"""

import re
from fractions import Fraction
from itertools import takewhile

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
_PARTS = {"half": 2, "halve": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
          "tenth": 10, "hundredth": 100, "thousandth": 1000, "millionth": 10**6}  # fmt: skip
SCALES = {
    **{name: rf"\cdot {size}" for name, size in {"dozen": 12, "hundred": 100, "thousand": 1000}.items()},
    **{f"{name}illion": rf"\cdot {1000**power}" for power, name in enumerate(["m", "b", "tr", "quadr"], start=2)},
    **{name: rf"\cdot \frac{{1}}{{{parts}}}" for name, parts in _PARTS.items()},
    "squared": "^{2}", "cubed": "^{3}",
}  # fmt: skip
_SCALE_LIKE = re.compile(r"\w+illion(?:th)?\b.*|\w+(?:en|lf|ie)th|negative|positive|minus|plus")
_LENGTH, _MASS, _TIME, _MONEY = "length", "mass", "time", "money"
_SIZES: dict[str, tuple[str, int, Fraction]] = {
    name: (kind, power, Fraction(size))
    for kind, power, sizes in (
        (_LENGTH, 1, {"kilometer": 1000, "meter": 1, "decimeter": "0.1", "centimeter": "0.01", "millimeter": "0.001",
                      "inch": "0.0254", "foot": "0.3048", "yard": "0.9144", "mile": "1609.344"}),
        (_LENGTH, 3, {"liter": "0.001", "milliliter": "0.000001"}),
        (_MASS, 1, {"kilogram": 1000, "gram": 1, "milligram": "0.001", "pound": "453.59237", "ounce": "28.349523125"}),
        (_TIME, 1, {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}),
        (_MONEY, 1, {"dollar": 100, "cent": 1}),
    )
    for name, size in sizes.items()
}  # fmt: skip
_LETTERS = {"m": "meter", "g": "gram", "s": "second", "h": "hour", "L": "liter", "l": "liter"}
_LETTER_BEHIND = re.compile(rf"(?P<value>.*[0-9)}}])\s*(?P<letter>[{''.join(_LETTERS)}])"
                            r"(?:\s*\^\s*\{?\s*(?P<power>[23])\s*\}?)?", re.DOTALL)  # fmt: skip
_ORDINALS = {"st", "nd", "rd", "th"}
_KNOWN = {*_SIZES, *_SPELLINGS, *_SPELLINGS.values(), *_ORDINALS, *_PERCENT}


def split_unit(text: str) -> tuple[str, str]:
    """Value and unit of a plain text; the unit is empty where none follows the value.

    Words for factors and powers go into the value; one that is unknown leaves the text as it is. Single letters behind
    a number are variables, and so are several without a space, unless they are a known unit.
    """
    found = _UNIT.fullmatch(text) if _WORD.search(text) else None
    if found is None or not any(character.isdigit() for character in found["value"]):
        return text, ""
    value, spelled = _scaled(found["value"].strip(), found["words"].lower().replace("/", " per ").split())
    words = " ".join(spelled)
    if not words and not found["power"]:
        return value, ""
    if _SCALE_LIKE.fullmatch(words) or not _is_unit(found["words"], words, bool(found["gap"])):
        return text, ""
    if words in _PERCENT:
        return f"{value}%", ""
    return value, _POWERS[found["power"]] + words


def _scaled(value: str, words: list[str]) -> tuple[str, list[str]]:
    """A value times the scale words behind it, and the spelling of the words behind these."""
    spelled = [_spelling(word) for word in words]
    scales = list(takewhile(SCALES.__contains__, spelled))
    for scale in scales:
        value = f"({value}) {SCALES[scale]}"
    return value, spelled[len(scales) :]


def split_letter(text: str) -> tuple[str, str] | None:
    """Value and unit of a text that ends in a letter which may be a unit, as in `5000 m`; None for any other."""
    found = _LETTER_BEHIND.fullmatch(text)
    return (found["value"], _POWERS[found["power"]] + _LETTERS[found["letter"]]) if found else None


def size_of(unit: str) -> tuple[str, Fraction] | None:
    """The dimension of a unit, as `split_unit` spells it, and its size in the dimension's basic unit; None if unknown.

    size_of("kilometer per hour")  ->  ("length1/time1", 5/18)
    """
    top, _, bottom = unit.partition(" per ")
    one, other = _size_of_part(top), _size_of_part(bottom)
    if not bottom or one is None or other is None:
        return None if bottom else one
    return f"{one[0]}/{other[0]}", one[1] / other[1]


def _size_of_part(unit: str) -> tuple[str, Fraction] | None:
    prefix, power = next(((prefix, int(power or 1)) for power, prefix in _POWERS.items() if unit.startswith(prefix)))
    if (known := _SIZES.get(unit.removeprefix(prefix))) is None:
        return None
    dimension, exponent, size = known
    return f"{dimension}{exponent * power}", size**power


def _is_unit(written: str, spelled: str, is_apart: bool) -> bool:
    return not _LONE_LETTER.search(_PER_TIME.sub("", written)) and (
        spelled in _KNOWN or written.lower() in _KNOWN or (is_apart and len(written) > _SHORT_WORD)
    )


def _spelling(word: str) -> str:
    word = _SPELLINGS.get(word, word).rstrip(".") if word not in {"a.m.", "p.m."} else word
    singular = word.removesuffix("s") if len(word) > 3 and not word.endswith("ss") else word
    return _SPELLINGS.get(singular, singular)
