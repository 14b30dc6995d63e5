r"""Split a number from its unit; words such as `million` or `tenths` belong to the number.

"5225 cubic inches"  -> ("5225", "cubic inch")        "2400 cm^2"  -> ("2400", "square centimeter")
"25 percent"         -> ("25%", "")                   "10 x", "2xy" -> no unit: variables
"3 million dollars"  -> ("(3) \cdot 1000000", "dollar")    "3 zillion" -> no unit: unknown word
"""

import re
from fractions import Fraction
from itertools import takewhile

_UNITS = {
    ("length", 1): "1000 kilometer km kilometre, 1 meter metre, 0.1 decimeter, 0.01 centimeter cm centimetre, "
    "0.001 millimeter mm, 0.0254 inch in inches, 0.3048 foot ft feet, 0.9144 yard yd, 1609.344 mile mi",
    ("length", 3): "0.001 liter litre, 0.000001 milliliter ml, 0.003785411784 gallon gal",
    ("mass", 1): "1000 kilogram kg, 1 gram, 0.001 milligram mg, 453.59237 pound lb lbs, 28.349523125 ounce oz",
    ("time", 1): "604800 week, 86400 day, 3600 hour h hr hrs, 60 minute min mins, 1 second s sec secs",
    ("money", 1): "100 dollar usd, 1 cent",
    ("angle", 1): "3600 degree deg, 60 arcminute, 1 arcsecond",
}
_NAMES = [(kind, entry.split()) for kind, units in _UNITS.items() for entry in units.split(",")]
_SIZES = {name: (kind, power, Fraction(size)) for (kind, power), (size, name, *_) in _NAMES}
_SPELLINGS = {
    **{spelling: name for _, (_, name, *spellings) in _NAMES for spelling in spellings},
    "sq": "square", "cu": "cubic", "mph": "mile per hour", "am": "a.m.", "pm": "p.m.", "a.m": "a.m.", "p.m": "p.m.",
}  # fmt: skip
_LETTERS = {"m": "meter", "g": "gram", "s": "second", "h": "hour", "L": "liter", "l": "liter"}
_POWERS = {"2": "square ", "3": "cubic ", None: ""}
_PERCENT, _ORDINALS = {"percent", "per cent", "percentage", "pct", "pc"}, {"st", "nd", "rd", "th"}
_KNOWN = {*_SIZES, *_SPELLINGS, *_SPELLINGS.values(), *_ORDINALS, *_PERCENT}
_PARTS = {"half": 2, "halve": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
          "tenth": 10, "hundredth": 100, "thousandth": 1000, "millionth": 10**6}  # fmt: skip
SCALES = {
    **{name: rf"\cdot {size}" for name, size in {"dozen": 12, "hundred": 100, "thousand": 1000}.items()},
    **{f"{name}illion": rf"\cdot {1000**power}" for power, name in enumerate(["m", "b", "tr", "quadr"], start=2)},
    **{name: rf"\cdot \frac{{1}}{{{parts}}}" for name, parts in _PARTS.items()},
    "squared": "^{2}", "cubed": "^{3}",
}  # fmt: skip
_SCALE_LIKE = re.compile(r"\w+illion(?:th)?\b.*|\w+(?:en|lf|ie)th|negative|positive|minus|plus")
_EXPONENT = r"(?:\s*\^\s*\{?\s*(?P<power>[23])\s*\}?)?"
_UNIT = re.compile(rf"(?P<value>.*[0-9)}}%]|.*\\pi)(?P<gap>\s*)(?<![A-Za-z\\])(?P<words>[A-Za-z][A-Za-z. /-]+?)\.?"
                   rf"{_EXPONENT}", re.DOTALL)  # fmt: skip
_LETTER_BEHIND = re.compile(rf"(?P<value>.*[0-9)}}])\s*(?P<letter>[{''.join(_LETTERS)}]){_EXPONENT}", re.DOTALL)
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z][A-Za-z.]")
_LONE_LETTER = re.compile(r"(?<![A-Za-z.])[A-Za-z](?![A-Za-z.])")
_PER_TIME = re.compile(r"(?<=[A-Za-z]{2})/[hs]$")
_SHORT_WORD = 2


def split_unit(text: str) -> tuple[str, str]:
    """Value and unit of a plain text; the unit is empty if the text has none.

    Words for factors and powers go into the value. Letters after a number are variables unless they are a known unit
    or a longer word.
    """
    match = _UNIT.fullmatch(text) if _WORD.search(text) else None
    if match is None or not any(character.isdigit() for character in match["value"]):
        return text, ""
    value, written = match["value"].strip(), match["words"].lower()
    spelled = []
    for word in written.replace("/", " per ").split():
        word = _SPELLINGS.get(word, word).rstrip(".") if word not in {"a.m.", "p.m."} else word
        singular = word.removesuffix("s") if len(word) > 3 and not word.endswith("ss") else word
        spelled.append(_SPELLINGS.get(singular, singular))
    scales = list(takewhile(SCALES.__contains__, spelled))
    for scale in scales:
        value = f"({value}) {SCALES[scale]}"
    unit = " ".join(spelled[len(scales) :])
    if not unit and not match["power"]:
        return value, ""
    is_known = unit in _KNOWN or written in _KNOWN or (match["gap"] and len(written) > _SHORT_WORD)
    if not is_known or _SCALE_LIKE.fullmatch(unit) or _LONE_LETTER.search(_PER_TIME.sub("", match["words"])):
        return text, ""
    return (f"{value}%", "") if unit in _PERCENT else (value, _POWERS[match["power"]] + unit)


def split_letter(text: str) -> tuple[str, str] | None:
    """Value and unit of a text that ends in a unit letter, as in `5000 m`; None for any other text."""
    match = _LETTER_BEHIND.fullmatch(text)
    return (match["value"], _POWERS[match["power"]] + _LETTERS[match["letter"]]) if match else None


def size_of(unit: str) -> tuple[str, Fraction] | None:
    """Dimension of a unit of `split_unit` and its size in base units; None if unknown.

    size_of("kilometer per hour")  ->  ("length1/time1", 5/18)
    """
    if " per " in unit:
        top, bottom = map(size_of, unit.split(" per ", 1))
        return (f"{top[0]}/{bottom[0]}", top[1] / bottom[1]) if top and bottom else None
    for exponent, prefix in _POWERS.items():
        if unit.startswith(prefix) and (known := _SIZES.get(unit.removeprefix(prefix))):
            kind, power, size = known
            return f"{kind}{power * int(exponent or 1)}", size ** int(exponent or 1)
    return None
