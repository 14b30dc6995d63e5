r"""Split a number from its unit; words such as `million` or `tenths` belong to the number.

"5225 cubic inches"  -> ("5225", "cubic inch")        "2400 cm^2"  -> ("2400", "square centimeter")
"25 percent"         -> ("25%", "")                   "10 x", "2xy" -> no unit: variables
"3 million dollars"  -> ("(3) \cdot 1000000", "dollar")    "3 zillion" -> no unit: unknown word
"2 h 30 min"         -> ("150", "minute")
"""

import re
from fractions import Fraction
from itertools import pairwise, takewhile

EAST_ASIAN = r"々\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Characters of a class: letters of Chinese, Japanese and Korean."""
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
    "円": "yen", "元": "yuan",
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
_UNIT = re.compile(rf"(?P<value>.*[0-9)}}%]|.*\\pi)(?P<gap>\s*)(?<![A-Za-z\\])(?P<words>[A-Za-z][A-Za-z. /-]+?"
                   rf"|[{EAST_ASIAN}]+)\.?{_EXPONENT}", re.DOTALL)  # fmt: skip
_SYMBOLS_BEHIND = re.compile(r"(?P<value>.*[0-9)}])(?P<gap>\s*)(?P<symbols>[A-Za-z][A-Za-z/^{}23\s]*)", re.DOTALL)
_SYMBOL = re.compile(rf"\s*(?P<word>[A-Za-z]+){_EXPONENT}\s*")
_MEASURE = r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)\.?"
_MEASURES = re.compile(rf"{_MEASURE}(?:\s*,?\s*(?:and\s+)?{_MEASURE})+")
_WORD = re.compile(rf"(?<![A-Za-z\\])[A-Za-z][A-Za-z.]|[{EAST_ASIAN}]")
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d))?(?::(?P<second>[0-5]\d))?(?P<exact>\s*o['’]clock)?"
    r"(?P<half>\s*(?:(?P<am>a\.?\s?m\.?|in the morning)|p\.?\s?m\.?|in the (?:afternoon|evening)))?",
    re.IGNORECASE,
)
_NOON = {"noon": "12:00 pm", "12 noon": "12:00 pm", "midnight": "12:00 am", "12 midnight": "12:00 am"}
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
    is_word = (match["gap"] and len(written) > _SHORT_WORD) or not written.isascii()
    is_known = unit in _KNOWN or written in _KNOWN or is_word
    if not is_known or _SCALE_LIKE.fullmatch(unit) or _LONE_LETTER.search(_PER_TIME.sub("", match["words"])):
        return text, ""
    return (f"{value}%", "") if unit in _PERCENT else (value, _POWERS[match["power"]] + unit)


def split_symbols(text: str) -> tuple[str, str, bool] | None:
    """Value, unit and whether it can be no variable, of a text that ends in signs of units; None for any other text.

    split_symbols("5 m/s^2")  ->  ("5", "meter per square second", True)      "5000m"  ->  ("5000", "meter", False)
    """
    if (match := _SYMBOLS_BEHIND.fullmatch(text)) is None:
        return None
    symbols = [_SYMBOL.fullmatch(symbol) for symbol in match["symbols"].split("/")]
    unit = " per ".join(_POWERS[symbol["power"]] + _name_of(symbol["word"]) for symbol in symbols if symbol)
    is_apart = bool(match["gap"]) or len(symbols) > 1
    return (match["value"], unit, is_apart) if all(symbols) and size_of(unit) else None


def add_measures(text: str) -> tuple[str, str] | None:
    """The sum of measures in ever smaller units, in the smallest: `5 feet 6 inches`; None for any other text."""
    if _MEASURES.fullmatch(text) is None:
        return None
    amounts, words = zip(*re.findall(_MEASURE, text), strict=True)
    is_time = not {"second", "hour", "day", "week"}.isdisjoint(map(_name_of, words))
    names = ["minute" if word == "m" and is_time else _name_of(word) for word in words]
    sizes = [size_of(name) for name in names]
    measures = [(Fraction(amount), *size) for amount, size in zip(amounts, sizes, strict=True) if size]
    if len(measures) < len(names) or len({kind for _, kind, _ in measures}) > 1:
        return None
    if any(amount * size >= larger for (*_, larger), (amount, _, size) in pairwise(measures)):
        return None
    return str(sum(amount * size for amount, _, size in measures) / measures[-1][-1]), names[-1]


def leading_measures(text: str) -> str | None:
    """The measures in ever smaller units that a text begins with: `5 feet 6 inches tall` has `5 feet 6 inches`."""
    match = _MEASURES.match(text)
    return match[0].rstrip(".") if match and add_measures(match[0].rstrip(".")) else None


def same_time_of_day(one: str, other: str) -> bool | None:
    """Whether two times of day are one, as `3:30 pm` and `15:30`; None unless both are, and one names its half."""
    times = [_CLOCK.fullmatch(_NOON.get(text.lower(), text)) for text in (one, other)]
    timed = [time for time in times if time and (time["minute"] or time["exact"] or time["half"])]
    if len(timed) < len(times) or not any(time["half"] or time["exact"] for time in timed):
        return None
    first, second = map(_seconds_of_day, timed)
    return not first.isdisjoint(second)


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


def _name_of(word: str) -> str:
    """The name of a unit: `min`, `mins` and `minutes` are `minute`."""
    name = _LETTERS.get(word) or _SPELLINGS.get(word.lower())
    singular = word.lower().removesuffix("s")
    return name or _SPELLINGS.get(singular, singular)


def _seconds_of_day(time: re.Match[str]) -> set[int]:
    """The seconds since midnight that a time of day may mean: two without its half."""
    hour, minute, second = (int(time[part] or 0) for part in ("hour", "minute", "second"))
    rest = 60 * minute + second
    if time["half"]:
        hours = [hour % 12 + 12 * (not time["am"])]
    else:
        hours = [hour % 12, hour % 12 + 12] if 1 <= hour <= 12 else [hour]
    return {3600 * hour + rest for hour in hours}
