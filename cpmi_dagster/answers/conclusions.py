r"""The value in the last sentence of a text that announces no answer.

concluded_value("… Therefore, she ran **108** meters.")                        -> "108"
concluded_value(r"Thus, the value of \(a\) is \(\frac{5}{3}\).")               -> "\frac{5}{3}"
concluded_value("# Answer\n\n29")                                              -> "29"
concluded_value("She has 12 hats. So she needs 3")                             -> None: not finished
concluded_value("If she has 12 hats, she needs 3.")                            -> None: a condition
concluded_value("So f(x) is 3x + 2.")                                          -> None: 2 is only a part of the value

A value in bold comes first, then the value after the last verb. Values joined by `and` or `or` are a list.
"""

import re
from itertools import pairwise

from cpmi_dagster.answers.fences import SPACES_IN_NUMBERS, unwrap
from cpmi_dagster.answers.units import SCALES

LONGEST_CONCLUSION = 1_000
_HEADING = re.compile(
    r"^[#*\s]*(?:final\s+)?answer\s*:?[*\s]*$|\*\*\s*(?:final\s+)?answer\s*:\s*(?:\*\*)?", re.IGNORECASE | re.MULTILINE
)
_FINISHED = re.compile(r"(?:[.!][\"')*}$`]*|\\\]|\\\)|\$|\*\*|`)\s*$")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])\**|(?<=\\\]))\s+(?=[A-Z*#\\$(])|\n\s*\n")
_DOUBT = re.compile(r"\b(?:if|cannot|can't|not|however|without|unless|assuming|suppose)\b", re.IGNORECASE)
_VERB = re.compile(r"\b(?:is|are|was|were|be|equals?|has|have|costs?)\b|[=≈:](?=\s)", re.IGNORECASE)
_FORMULA = r"\\\[.*?\\\]|\$\$.*?\$\$|\\\(.*?\\\)|(?<!\\)\$(?!\s)[^$\n]*[^$\s\\]\$(?!\d)"
_NUMBER = rf"-?(?:\\?[$€£₹])?-?\d+(?:[,{SPACES_IN_NUMBERS}]\d{{3}})*(?:\.\d+)?(?::\d+)*(?:\s?/\s?\d+)?(?:\s?\\?%)?"
_SCALE = rf"(?:{'|'.join(SCALES)})s?\b"
_VALUE = re.compile(
    rf"\*\*(?P<bold>[A-Za-z]+|[^*\n]*[\d\\][^*\n]*?)[.,]?\*\*|{_FORMULA}"
    rf"|(?<!\w)[(\[]{_NUMBER}(?:,\s*{_NUMBER})+[)\]]|(?<![\w\\^_{{.,-]){_NUMBER}(?:\s+{_SCALE})*(?!\w)",
    re.DOTALL,
)
_JOINT = re.compile(r"\s*(?:,|,?\s*(?:and|or))\s*")
_ASSIGNED = rf"(?<![\w\\])(?:[A-Za-z](?:_\w)?|\\[a-z]+)\s*=\s*{_NUMBER}"
_ASSIGNMENTS = re.compile(rf"{_ASSIGNED}(?:{_JOINT.pattern}{_ASSIGNED})+")
_OTHERWISE = re.compile(r"\bor\b")
_LETTER = r"[(\[*`\"'$]*[A-HJ](?!\w)[)\]*`\"'$]*"
_OPTION = re.compile(
    rf"\b(?i:options?|choices?)\s+(?P<named>{_LETTER}(?:{_JOINT.pattern}{_LETTER})*)"
    rf"|(?<![\w.])(?P<right>{_LETTER})\s+is\s+(?:the\s+)?(?:only\s+)?(?:correct|right|best)\b(?!\s+(?!answer|option|choice)\w)"
)
_WRONG = re.compile(r"\s+(?:is|are)\s+(?:also\s+)?(?:incorrect|wrong|false)\b")
_OPERATOR, _OPERAND = "[-−+±*/×·÷]", r"[\w$\\(\[]"
_PART_BEFORE = re.compile(rf"(?:[\w$)\]}}][ \t]*{_OPERATOR}|[\d$)\]}}][ \t]*(?::|to\b)|[<>≤≥^√(\[]|\bbetween\b)[ \t]*$")
_PART_BEHIND = re.compile(
    rf"[)\](\[]|[ \t]*(?:(?:{_OPERATOR}|[\^:<>=≤≥])[ \t]*{_OPERAND}|(?:to|in|out of)\b[ \t]*[\d$\\(]"
    rf"|(?:and[ \t]+)?(?:an?[ \t]+)?{_SCALE}|[b-fi-kn-rt-z]\b(?!['’]|\.\w))"
)
_SIMPLE_SIDE = re.compile(r"\(?\\?\w+(?:_\{?\w+\}?)?(?:\(\w+\))?(?:,\s*\w+)*\)?")


def concluded_value(text: str) -> str | None:
    """The value of the last sentence, unwrapped; None if it is cut off, doubtful, conditional or without value."""
    end = text[-LONGEST_CONCLUSION:].rstrip()
    headings = list(_HEADING.finditer(end))
    if headings and (rest := end[headings[-1].end() :].strip()):
        return _value(rest) or _bare(rest.split("\n", 1)[0])
    if not _FINISHED.search(end):
        return None
    sentence = next((part for part in reversed(_SENTENCE_END.split(end)) if part.strip()), "")
    return None if _DOUBT.search(sentence) else _option(sentence) or _value(sentence)


def _option(sentence: str) -> str | None:
    """The only choice that a sentence names as right: `option (B) is correct` -> `B`; None if it names others too."""
    named = [option for option in _OPTION.finditer(sentence) if not _WRONG.match(sentence, option.end())]
    letters = {", ".join(re.findall(r"\b[A-J]\b", option["named"] or option["right"])) for option in named}
    return letters.pop() if len(letters) == 1 else None


def _value(sentence: str) -> str | None:
    """The value in bold, else the first value after the last verb; None if it is part of a longer value."""
    candidates = list(_VALUE.finditer(sentence))
    masked = _VALUE.sub(lambda value: " " * len(value.group()), sentence)
    chosen = [value for value in candidates if value["bold"]][-1:]
    for start in [*(verb.end() for verb in reversed(list(_VERB.finditer(masked)))), 0]:
        if chosen:
            break
        # a letter is an answer only right after the verb
        behind = [value for value in candidates if value.start() >= start
                  and (re.search(r"\d", value.group()) or not sentence[start : value.start()].strip())]  # fmt: skip
        chosen = behind[:1]
        for value, following in pairwise(behind):
            if not _JOINT.fullmatch(sentence[value.end() : following.start()]):
                break
            chosen.append(following)
    if not chosen:
        return None
    start, end = chosen[0].start(), chosen[-1].end()
    values = [_bare(value["bold"] or value.group()) for value in chosen]
    for run in _ASSIGNMENTS.finditer(sentence):
        if run.end() == end:
            start, values = run.start(), re.findall(_ASSIGNED, run.group())
    if _OTHERWISE.search(masked[:start] + masked[end:]):
        return None
    if _PART_BEFORE.search(sentence[:start]) or _PART_BEHIND.match(sentence, end):
        return None
    joint = " or " if _OTHERWISE.search(masked[start:end]) else ", "
    return joint.join(value for value in values if value) if all(values) else None


def _bare(value: str) -> str | None:
    r"""Unwrap a value; `x + y = 4` becomes its last side, `x = 4` stays."""
    bare = unwrap(value).removeprefix("$")
    first, *others = bare.split("=")
    if others and "," not in bare and not _SIMPLE_SIDE.fullmatch(first.strip()):
        bare = others[-1].strip()
    return bare if bare and "\\boxed" not in bare else None
