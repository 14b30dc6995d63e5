r"""The value that a text without an announced answer concludes with, in its last sentence.

concluded_value("… Therefore, she ran **108** meters.")                        -> "108"
concluded_value(r"Thus, the value of \(a\) is \(\frac{5}{3}\).")               -> "\frac{5}{3}"
concluded_value("# Answer\n\n29")                                              -> "29"
concluded_value("She has 12 hats. So she needs 3")                             -> None: not finished
concluded_value("If she has 12 hats, she needs 3.")                            -> None: a condition, no conclusion

What is in bold comes first, then what follows the last verb; several values joined by `and` are a list.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

_STOPS = " \t\r\n.,;"
LONGEST_CONCLUSION = 1_000
_HEADING = re.compile(
    r"^[#*\s]*(?:final\s+)?answer\s*:?[*\s]*$|\*\*\s*(?:final\s+)?answer\s*:\s*(?:\*\*)?", re.IGNORECASE | re.MULTILINE
)
_FINISHED = re.compile(r"(?:[.!][\"')*}$]*|\\\]|\\\)|\$|\*\*)\s*$")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])\**|(?<=\\\]))\s+(?=[A-Z*#\\$(])|\n\s*\n")
_DOUBT = re.compile(r"\b(?:if|cannot|can't|not|however|without|unless|assuming|suppose)\b", re.IGNORECASE)
_VERB = re.compile(r"\b(?:is|are|was|were|be|equals?|has|have|costs?)\b|[=≈:](?=\s)", re.IGNORECASE)
_FORMULA = r"\\\[.*?\\\]|\$\$.*?\$\$|\\\(.*?\\\)|(?<!\\)\$(?!\s)[^$\n]*[^$\s\\]\$(?!\d)"
_NUMBER = r"-?(?:\\?[$€£])?-?\d+(?:,\d{3})*(?:\.\d+)?(?::\d\d)*(?:\s?/\s?\d+)?(?:\s?\\?%)?"
_VALUE = re.compile(
    rf"\*\*(?P<bold>[A-Za-z]+|[^*\n]*[\d\\][^*\n]*?)[.,]?\*\*|(?P<formula>{_FORMULA})"
    rf"|(?<![\w\\^_{{.,-])(?P<number>{_NUMBER})(?!\w)",
    re.DOTALL,
)
_JOINT = re.compile(r"\s*(?:,|,?\s*and)\s*")
_FENCE = re.compile(r"\\[\[\]()]|\*\*|(?<!\\)\$")
_SIMPLE_SIDE = re.compile(r"\(?\\?\w+(?:_\{?\w+\}?)?(?:\(\w+\))?(?:,\s*\w+)*\)?")


def concluded_value(text: str) -> str | None:
    """The value of the last sentence, without fences.

    Returns:
        None where the sentence is cut off, states a doubt or a condition, or has no value.
    """
    end = text[-LONGEST_CONCLUSION:].rstrip()
    headings = list(_HEADING.finditer(end))
    if headings and (rest := end[headings[-1].end() :].strip()):
        return _value(rest) or _bare(rest.split("\n", 1)[0])
    if not _FINISHED.search(end):
        return None
    sentence = next((part for part in reversed(_SENTENCE_END.split(end)) if part.strip()), "")
    return None if _DOUBT.search(sentence) else _value(sentence)


def _value(sentence: str) -> str | None:
    """What is in bold, else the first value behind the last verb that has one behind it."""
    found = list(_VALUE.finditer(sentence))
    if bold := [value["bold"] for value in found if value["bold"]]:
        return _bare(bold[-1])
    verbs = [verb.end() for verb in _VERB.finditer(_VALUE.sub(lambda value: " " * len(value.group()), sentence))]
    for start in [*reversed(verbs), 0]:
        if behind := [value for value in found if value.start() >= start and _is_stated(value, start)]:
            return _bare(", ".join(_joined(behind)))
    return None


def _is_stated(value: re.Match[str], start: int) -> bool:
    """Whether a value can be an answer: a letter that is not right behind the verb is none."""
    return bool(re.search(r"\d", value.group())) or not value.string[start : value.start()].strip()


def _joined(values: list[re.Match[str]]) -> Iterator[str]:
    """The first value, and those that `and` or a comma join to it."""
    yield values[0].group().rstrip(_STOPS)
    for value, following in pairwise(values):
        if not _JOINT.fullmatch(value.string[value.end() : following.start()]):
            return
        yield following.group()


def _bare(value: str) -> str | None:
    r"""Without fences; the last side of `x + y = 4`, all of `x = 4`."""
    bare = _FENCE.sub("", value).strip(_STOPS)
    first, *others = bare.split("=")
    if others and "," not in bare and not _SIMPLE_SIDE.fullmatch(first.strip()):
        bare = others[-1].strip()
    return bare if bare and "\\boxed" not in bare else None
