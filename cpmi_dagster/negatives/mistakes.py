r"""Wrong answers a student might give: the gold answer with one thing changed (section 5.1).

18            19 (plus_minus_1), 16 (plus_minus_2)       180           198 (plus_minus_10_percent)
\frac{2}{3}   \frac{1}{3} (fraction_parts)              \frac{2}{3}   \frac{3}{2} (fraction_swap)
2\sqrt{5}     2\sqrt{6} (root)                          0.25          0.26 (last_digit)
x^2-3x        x^2+3x (operator_substitution)            x^2-3x        x^2-4x (inner_number)
[2, 5)        (2, 5) (bracket)                          (3, -2)       (-2, 3) (entry_swap)
1, 2, 5       1, 5 (missing_entry)                      \pi           2\pi (multiple)
\text{(B)}    \text{(C)} (letter)                       \text{odd}    \text{even} (word)

Edits with a fault of form that the gold answer does not have, such as a fraction that can be reduced, come last.
"""

import math
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice, pairwise, permutations, zip_longest
from string import ascii_uppercase
from typing import NamedTuple

from cpmi_dagster.negatives import parts

LONGEST_ANSWER = 400
CACHED_GOLDS = 1 << 14
LIKELY, LESS_LIKELY, LAST_RESORT, FAULTY = range(4)
_PROBABILITY = re.compile(r"\b(?:probabilit(?:y|ies)|chances?|likelihood)\b", re.IGNORECASE)

Edit = tuple[int, str, str]
"""How unlikely an edit is, the edited answer, the name of the heuristic."""


class HardNegative(NamedTuple):
    """A wrong answer and where it comes from: `model`, or the heuristic's name."""

    answer: str
    source: str


def propose(gold: str, seed: int, question: str = "") -> Iterator[HardNegative]:
    """Edits of a gold answer: likely ones first, the heuristics in turn, in an order that the seed decides.

    Each text comes once, the gold answer never. Whether an edit differs from the gold answer in value is for the
    caller to check.

    Args:
        gold: Without edits if it is longer than `LONGEST_ANSWER` characters.
        question: If it asks for a probability, edits outside [0, 1] come last.
    """
    answer = gold.strip()
    if len(answer) > LONGEST_ANSWER:
        return
    rng = random.Random(f"{seed}:{gold}".encode("utf-8", "surrogatepass"))
    for tier in _tiers(answer, bool(_PROBABILITY.search(question))):
        queues = [rng.sample(edits, len(edits)) for edits in rng.sample(tier, len(tier))]
        for turn in zip_longest(*queues):
            yield from (negative for negative in turn if negative and negative.answer != gold)


@lru_cache(maxsize=CACHED_GOLDS)
def _tiers(answer: str, is_probability: bool) -> list[list[list[HardNegative]]]:
    """The edits of an answer, the likely ones first; in each tier those of one heuristic stand together."""
    faults = parts.find_faults(answer, is_probability)
    tiers: dict[int, dict[str, list[HardNegative]]] = defaultdict(lambda: defaultdict(list))
    seen = {answer}
    for rank, edited, heuristic in sorted(_edits(answer), key=lambda edit: edit[0]):
        if edited not in seen:
            seen.add(edited)
            own = parts.find_faults(edited, is_probability)
            more = sum(count > golds for count, golds in zip(own, faults, strict=True))
            tiers[rank + FAULTY * more][heuristic].append(HardNegative(edited, heuristic))
    return [list(tiers[rank].values()) for rank in sorted(tiers)]


def _edits(answer: str) -> Iterator[Edit]:
    if (found := _IN_BASE.search(answer)) and all(digit in _DIGITS[: int(found[3])] for digit in found[1]):
        yield from chain(_digit_changes(answer, found), _sign_changes(answer))
        return
    heuristics = (_number_changes, _sign_changes, _fraction_swaps, _operator_changes, _interval_changes,
                  _entry_changes, _multiples, _letter_changes, _word_changes)  # fmt: skip
    yield from chain.from_iterable(heuristic(answer) for heuristic in heuristics)


_WITH_COMMAS = r"[0-9]{1,3}(?:(?:,\\!|\{,\}|,)[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]*\.[0-9]+|[0-9]+"
_NUMBER = re.compile(_WITH_COMMAS.replace(r"|,)", ")"))
_NUMBER_WITH_COMMAS = re.compile(_WITH_COMMAS)
_NO_ANSWER_PART = re.compile(r"(?:_\{?|\\sqrt\s*\[|\\(?:text|mbox|mathrm)\{[^{}]*\}\s*\^\{?)$")
_BARE_ARGUMENT = re.compile(rf"(?:\\[dtc]?frac\s*(?:{parts.ARGUMENT}\s*)?|\\sqrt\s*|\^)$")
_BEFORE = [
    ("exponent", re.compile(r"\^\{?-?$")),
    ("root", re.compile(r"\\sqrt(?:\s*\[[^\[\]]*\])?\s*\{?$")),
    ("bottom", re.compile(rf"(?:\\[dtc]?frac\s*{parts.ARGUMENT}\s*\{{?|/\s*)$")),
    ("fraction", re.compile(r"\\[dtc]?frac\s*\{?-?$")),
]
_FACTOR = re.compile(rf"\s*(?:{parts.SYMBOL}|[A-Z](?![A-Za-z]))")
_EXPONENT = re.compile(r"[eE][-+]?[0-9]")
_SCIENTIFIC = re.compile(r"(?:\\times|\\cdot|[*×·xX])\s*10\s*(?=\^|\*\*|[⁰¹²³⁴-⁹⁻])")
_MORE_OF_TERM = re.compile(rf"\s*(?:[-+:/]|\\[dtc]?frac)|{_FACTOR.pattern}")


class _Number(NamedTuple):
    """A number at a place of an answer, its role there, and the smallest number that one would write there.

    Its role is `whole` (the answer is this number), `fraction` (the top of one), `bottom`, `root`, `exponent` or
    `inner`. `scaled` counts units of its last place, of which 1 has `unit`.
    """

    start: int
    text: str
    role: str
    least: int

    @property
    def unit(self) -> int:
        return 10 ** len(self.text.partition(".")[2])

    @property
    def scaled(self) -> int:
        return int(re.sub(r"[^0-9]", "", self.text))

    def write(self, scaled: int) -> str:
        """Another number with as many decimals, leading zeros and thousands separators."""
        separator = re.search(r"[^0-9.]+", self.text)
        whole, decimals = divmod(scaled, self.unit)
        text = f"{whole:,}".replace(",", separator.group()) if separator else str(whole)
        if self.unit > 1:
            return f"{text.lstrip('0') if self.text[0] == '.' else text}.{str(decimals).zfill(len(str(self.unit)) - 1)}"
        return text.zfill(len(self.text)) if self.text[0] == "0" else text


def _number_changes(answer: str) -> Iterator[Edit]:
    """One number changed; in lists and unions, and where it has two digits or a root, wherever it stands."""
    is_several = len(parts.entries_of(answer)) > 1 or "\\cup" in answer
    groups: dict[tuple[str, str, int], list[_Number]] = defaultdict(list)
    for number in _numbers(answer):
        is_linked = is_several or number.role == "root" or len(number.text) > 1
        groups[number.text, number.role, -1 if is_linked else number.start].append(number)
    for numbers in groups.values():
        power_in_sum = numbers[0].role == "exponent" and bool(re.search(r"[-+=]", answer))
        for rank, offset, heuristic in _offsets(numbers[0]):
            if (edited := _moved(answer, numbers, offset)) is not None:
                yield rank + power_in_sum, edited, heuristic


def _offsets(number: _Number) -> Iterator[tuple[int, int, str]]:
    """How unlikely a change is, the change in units of the last place, the heuristic."""
    is_part = number.role in {"fraction", "bottom", "exponent"}
    is_small_decimal = number.unit > 1 and number.scaled < 2 * number.unit
    unit = 1 if is_small_decimal else number.unit
    names = {"fraction": "fraction_parts", "bottom": "fraction_parts", "root": "root", "whole": ""}
    name = names.get(number.role, "inner_number") or ("last_digit" if is_small_decimal else "")
    tenth = (number.scaled + 5) // 10
    for sign in (1, -1):
        for step in (1, 2):
            yield LESS_LIKELY if is_part and step > 1 else LIKELY, sign * step * unit, name or f"plus_minus_{step}"
        if number.role in {"whole", "inner"} and tenth > 2:
            yield LIKELY, sign * tenth, name or "plus_minus_10_percent"
        for step in (3, 5, 10):
            yield LAST_RESORT, sign * step * unit, name or f"plus_minus_{step}"


def _moved(answer: str, numbers: list[_Number], offset: int) -> str | None:
    """The answer with the numbers, which are the same number, moved; None where one would not write the result."""
    for number in reversed(numbers):
        scaled = number.scaled + offset
        if scaled < number.least:
            return None
        text, before, after = number.write(scaled), answer[: number.start], answer[number.start + len(number.text) :]
        if text == "1" and number.role == "inner" and _FACTOR.match(after) and not _EXPONENT.match(after):
            text, after = "", after.lstrip()
        elif len(text) > 1 and _BARE_ARGUMENT.search(before):
            text = f"{{{text}}}"
        answer = before + text + after
    return answer


def _numbers(answer: str) -> Iterator[_Number]:
    r"""The numbers of an answer, without subscripts, degrees of roots, powers of units and the 10 of `\times 10^3`."""
    pattern = _NUMBER if re.search(r"[(\[]|\\\{", answer) else _NUMBER_WITH_COMMAS
    end, bases = 0, {found.end() for found in _SCIENTIFIC.finditer(answer)}
    while found := pattern.search(answer, end):
        before = answer[: found.start()]
        is_argument = found[0][0] != "." and _BARE_ARGUMENT.search(before) is not None
        end = found.start() + 1 if is_argument else found.end()
        if not _NO_ANSWER_PART.search(before) and found.end() not in bases:
            role, least = _role(before, answer[end:], is_argument)
            yield _Number(found.start(), answer[found.start() : end], role, least)


def _role(before: str, after: str, is_argument: bool) -> tuple[str, int]:
    """The role of a number, and the smallest that one would write: no denominator or power of 1, no factor of 0."""
    if not parts.UNIT.sub("", before + after).strip(".-"):
        return "whole", int(before.rstrip().endswith("-"))
    role = next((role for role, pattern in _BEFORE if pattern.search(before)), "inner")
    least = 2 if role in {"exponent", "root", "bottom"} or re.match(r"\s*(?:\^(?!\{?\\circ)|\()", after) else 0
    is_whole_argument = is_argument or after.startswith("}") or before.rstrip().endswith("/")
    if re.match(r"\s*/\s*[0-9]", after):
        role = "fraction"
    elif not is_whole_argument and role != "exponent":
        role = "inner"
    is_term = role == "fraction" or before.rstrip().endswith(("-", "+", ":")) or _MORE_OF_TERM.match(after)
    return role, least or int(bool(is_term))


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_IN_BASE = re.compile(r"([0-9A-Z]+)(\}?\s*_\{?([0-9]{1,2})\}?\.?)$")


def _digit_changes(answer: str, found: re.Match[str]) -> Iterator[Edit]:
    """A number in a base with one digit changed or a digit more."""
    before, digits, after = answer[: found.start()], found[1], found[2]
    allowed = _DIGITS[: int(found[3])]
    for place, digit in enumerate(digits):
        for step in (1, -1, 2, -2, 3, -3):
            value = allowed.index(digit) + step
            if 0 <= value < len(allowed) and (value or place or digits[0] == "0"):
                changed = digits[:place] + allowed[value] + digits[place + 1 :]
                yield LIKELY if abs(step) == 1 else LESS_LIKELY, before + changed + after, "inner_number"
    yield from ((LESS_LIKELY, before + digits + digit + after, "inner_number") for digit in allowed[:2])


_ENTRY = re.compile(
    r"(?:^|(?<=[(\[,&=])|(?<=\\\{)|(?<=matrix\})|(?<=\\\\))(?:\s|\\[,; ])*(?:\\[dtc]?frac\s*\{(?=-))?"
    rf"(?P<sign>-?)\s*(?!0(?![.0-9]))(?=\.?[0-9]|\\[dtc]?frac|{parts.SYMBOL})"
)
_SIGNED = re.compile(r"[-+=&(]|(?<!\\),(?!\\!|\}|[0-9]{3}(?![0-9]))|(?<![A-Za-z\\])[a-z](?![A-Za-z])")
_BINARY = re.compile(r"(?<=[0-9A-Za-z)}\]])\s*([+-])(?=\s*[0-9A-Za-z\\({.])")
_NO_OPERAND = re.compile(
    r"(?:matrix\}|\\(?!pi|theta|alpha|circ|infty)[A-Za-z]+|(?<![A-Za-z])(?:or|and)\s*\}?|\{[lcr|]+\})\s*$"
)
_RELATION = re.compile(r"[<>]|\\(?:le|ge)q?(?![A-Za-z])")
_EXCHANGES = {
    "\\sin": ["\\cos"], "\\cos": ["\\sin"], "\\tan": ["\\cot"], "\\cot": ["\\tan"], "\\sec": ["\\csc"],
    "\\csc": ["\\sec"], "\\log": ["\\ln"], "\\ln": ["\\log"], "<": [">", "\\le"], ">": ["<", "\\ge"],
    "\\le": ["\\ge", "<"], "\\ge": ["\\le", ">"], "\\leq": ["\\geq", "<"], "\\geq": ["\\leq", ">"],
}  # fmt: skip
_EXCHANGED = re.compile(rf"{parts.FUNCTION}|{_RELATION.pattern}")


def _sign_changes(answer: str) -> Iterator[Edit]:
    """The sign of the answer, or of one entry of a tuple, list or matrix, turned."""
    rank = LIKELY if _SIGNED.search(answer) else FAULTY
    for found in _ENTRY.finditer(answer) if ":" not in answer else ():
        before, after = answer[: found.start("sign")], answer[found.end() :]
        is_side = re.match(r"[A-Za-z()]+\s*=", after) or (not before and re.search(rf"=|{_RELATION.pattern}", answer))
        is_factor = before.rstrip().endswith(("(", "[")) and ("," not in answer or re.match(r"[^(),]*\)", after))
        if not (is_side or is_factor):
            yield rank, before + ("" if found["sign"] else "-") + after, "sign_inversion"


def _operator_changes(answer: str) -> Iterator[Edit]:
    """One `+` for `-`, one function or relation for its counterpart; in a chain relations keep their direction."""
    for found in _BINARY.finditer(answer):
        before, after = answer[: found.start(1)], answer[found.end() :]
        if not _NO_OPERAND.search(before):
            yield LIKELY, before + ("-" if found[1] == "+" else "+") + after, "operator_substitution"
    is_chain = len(_RELATION.findall(answer)) > 1
    for found in _EXCHANGED.finditer(answer):
        others, after = _EXCHANGES[found[0]], answer[found.end() :]
        for other in others[1:] if is_chain and _RELATION.match(found[0]) else others:
            gap = " " if other[-1].isalpha() and after[:1].isalnum() else ""
            yield LIKELY, answer[: found.start()] + other + gap + after, "operator_substitution"


def _fraction_swaps(answer: str) -> Iterator[Edit]:
    """One fraction upside down; mixed numbers and fractions with 1 on top are left alone."""
    for found in parts.FRACTION.finditer(answer):
        before, after = answer[: found.start()], answer[found.end() :]
        *command, top, between, bottom = (part for part in found.groups() if part is not None)
        if top.strip("{}") not in {"", "1"} and "-" not in top[:2] and not before.rstrip()[-1:].isdecimal():
            bottom = f"{{{bottom}}}" if command and bottom.isalpha() else bottom
            swapped = "".join([before, *command, bottom, between, top, after])
            yield LESS_LIKELY if "\\" in top else LIKELY, swapped, "fraction_swap"


_OTHER_BRACKET = str.maketrans("([)]", "[(])")
_POINT = re.compile(r"((?:\\left\s*)?\(\s*)(.*?)(\s*(?:\\right\s*)?\))", re.DOTALL)
_TERM = re.compile(rf"(?:^|(?<=[-+=(\[,&{{]))\s*(?={parts.SYMBOL})(?!\w+(?:\(\w\))?\s*=)")
_NO_TERM = re.compile(rf"(?:\\(?:text|mbox|mathrm)|matrix|array|(?:\w|{parts.FUNCTION})\s*(?:\\left\s*)?\($)")


def _interval_changes(answer: str) -> Iterator[Edit]:
    """One end of an interval open instead of closed or the reverse; of the whole line, a half."""
    if answer.replace(" ", "") == "(-\\infty,\\infty)":
        halves = ("(-\\infty,0)", "(0,\\infty)", "(-\\infty,0)\\cup(0,\\infty)", "[0,\\infty)")
        yield from ((LIKELY, half, "half_line") for half in halves)
    for found in parts.INTERVAL.finditer(answer) if parts.is_interval(answer) else ():
        for group, end in ((1, found[2]), (4, found[3])):
            if "infty" not in end:
                start, stop = found.span(group)
                yield LIKELY, answer[:start] + found[group].translate(_OTHER_BRACKET) + answer[stop:], "bracket"


def _entry_changes(answer: str) -> Iterator[Edit]:
    """A list or set of three or more without some entries; a pair of coordinates or a ratio in reverse order."""
    opening, inside, closing = parts.set_parts(answer)
    entries = parts.entries_of(inside)
    if len(entries) > 2 and inside.count(",") == len(entries) - 1:
        for place, entry in enumerate(entries):
            rest = ",".join(entries[:place] + entries[place + 1 :]).strip()
            yield LESS_LIKELY, opening + rest + closing, "missing_entry"
            yield LAST_RESORT, opening + entry.strip() + closing, "missing_entry"
    if point := _POINT.fullmatch(answer):
        pair = parts.entries_of(point[2])
        if len(pair) == 2 and not re.search(r"\\(?:pi|circ|infty)|\]", answer):
            gap = " " if pair[1].startswith(" ") else ""
            yield LIKELY, f"{point[1]}{pair[1].strip()},{gap}{pair[0].strip()}{point[3]}", "entry_swap"
    ratio = parts.RATIO.fullmatch(answer)
    if ratio and math.gcd(int(ratio[1]), int(ratio[3])) == 1:
        yield LIKELY, ratio[3] + ratio[2] + ratio[1], "entry_swap"


def _multiples(answer: str) -> Iterator[Edit]:
    """A factor before a term that has none; in a list before every such term."""
    if _NO_TERM.search(answer) or answer.lower() in _GROUP_OF:
        return
    places = [found.end() for found in _TERM.finditer(answer) if not _NO_TERM.search(answer[: found.end()])]
    for some in [places] if len(parts.entries_of(answer)) > 1 else [[place] for place in places]:
        pieces = [answer[start:end] for start, end in pairwise([0, *some, len(answer)])]
        for factor in "2345":
            yield LESS_LIKELY if factor < "4" else LAST_RESORT, factor.join(pieces), "multiple"


_LETTER = re.compile(r"(?<![a-z\\])[A-Z](?![a-z])")
_WORD = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")
_TEXT = re.compile(r"\\(?:text\w*|mbox|mathrm|mathbf)\{([^{}]*)\}")
_GROUP_OF = {word.lower(): group for group in reversed(parts.WORDS) for word in group}
NAMES = ("Alice", "Ben", "Carla", "David", "Evelyn", "Frank", "Maria", "Sam", "Angela", "Briana")
PHRASES = ("none", "all of them", "cannot be determined", "no solution", "undefined")


def _letter_changes(answer: str) -> Iterator[Edit]:
    """One letter for another option, in alphabetical order where they were; of a word another order."""
    if re.search(r"[0-9a-z+=^_-]", re.sub(r"\\[A-Za-z]+", "", answer)):
        return
    places = [found.start() for found in _LETTER.finditer(answer)]
    letters = [answer[place] for place in places]
    if re.search(r"\\text\{[A-Z]{4}", answer):
        changes = [list(order) for order in islice(permutations(letters), 24)]
    else:
        last = ascii_uppercase.index(max(letters, default="A"))
        options = [option for option in ascii_uppercase[max(0, last - 4) : max(5, last + 1)] if option not in letters]
        changes = [[*letters[:number], option, *letters[number + 1 :]]
                   for number in range(len(letters)) for option in options]  # fmt: skip
        changes = map(sorted, changes) if "," in answer and letters == sorted(letters) else changes
    for changed in changes:
        characters = list(answer)
        for place, letter in zip(places, changed, strict=True):
            characters[place] = letter
        yield LIKELY, "".join(characters), "letter"


def _word_changes(answer: str) -> Iterator[Edit]:
    """One word for another of its group; another name for a name, another phrase for a text that is in no group."""
    spans = [found.span(1) for found in _TEXT.finditer(answer)] or ([] if "\\" in answer else [(0, len(answer))])
    for found in (found for start, end in spans for found in _WORD.finditer(answer, start, end)):
        word, before, after = found[0], answer[: found.start()], answer[found.end() :]
        others = [other for other in _GROUP_OF.get(word.lower(), ()) if other.lower() != word.lower()]
        for other in others:
            yield LIKELY, before + (other.capitalize() if word[0].isupper() else other) + after, "word"
        if not others and len(word) > 2 and not word.isupper() and not re.search(r"[0-9,]", answer):
            phrases = NAMES if word[0].isupper() and " " not in word else PHRASES
            yield from ((LESS_LIKELY, before + phrase + after, "phrase") for phrase in phrases if phrase != word)
