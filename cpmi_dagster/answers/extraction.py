r"""Extract the final answer of a text: the one that it announces, else the value in its last sentence.

extract_answer("… so 6 + 6 = 12.\n#### 12")                   -> "12"
extract_answer(r"Therefore $x = \boxed{\frac{2}{3}}$.")       -> "\frac{2}{3}"
extract_answer("She has 18 - 12 = 6 left. The answer is: 6")  -> "6"
extract_answer("<think>It is 7. The answer is: 7</think>So the answer is 8.")   -> "8"
extract_answer("<think>The answer is: 7. But let me")         -> None     a thought that does not end
extract_answer("所以答案是：７。")                              -> "7"

concluded_value("… Therefore, she ran **108** meters.")                        -> "108"
concluded_value(r"Thus, the value of \(a\) is \(\frac{5}{3}\).")               -> "\frac{5}{3}"
concluded_value("# Answer\n\n29")                                              -> "29"
concluded_value("She has 12 hats. So she needs 3")                             -> None: not finished
concluded_value("If she has 12 hats, she needs 3.")                            -> None: a condition
concluded_value("So f(x) is 3x + 2.")                                          -> None: 2 is only a part of the value

In a last sentence a value in bold comes first, then the value after the last verb. Values joined by `and` or `or` are a
list.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from cpmi_dagster.answers.plain_text import FULL_WIDTH, SPACES_IN_NUMBERS, boxed_answer, unwrap
from cpmi_dagster.answers.units import EAST_ASIAN, SCALES, leading_measures

_BEST = "final|correct|best|right|only|closest|most [a-z]+"
_CHOICE = r"\b(?:correct|best|right) (?:answer )?(?:option|choice)"
_EAST_ASIAN = "答案|(?<![回解])答|答え|正解|정답|답"
_STATEMENT = re.compile(
    rf"(?P<mark>(?:\bthe (?:(?:{_BEST}) )*|\b(?:{_BEST}) |^[^\w\n]*)answer\**(?: is)?\s*\**[:=]"
    rf"|{_CHOICE}(?: is)?\s*[:=]|####|<answer>|^a\s*:"
    rf"|【答案】|(?:{_EAST_ASIAN})(?:应该?|應該?)?[是为為は은]?[*\s】」]*[:=])"
    r"|the (?:final )?answer is"
    rf"|(?:\bthe (?:{_BEST}) answer|\banswer choice|{_CHOICE})s? (?:is|are)\s+(?=[*`$(\"']*(?-i:[A-J])(?![\w']))"
    r"|(?:答案|正[确確](?:的)?(?:选项|選項))(?:应该?|應該?)?[是为為选選]|(?:答え|正解)は|(?:정답|답)은|[故应應][选選]",
    re.IGNORECASE | re.MULTILINE,
)
_CHECK = re.compile(r"\b(?:check|verify|confirm) $", re.IGNORECASE)
_ANSWER_END = re.compile(r"</answer>", re.IGNORECASE)
_ANSWER_TAG = re.compile(r"</?answer>", re.IGNORECASE)
_SENTENCE = re.compile(r"\b(?:is|are|was|were)\b")
_DISPLAYED = re.compile(r"(?:\\\[|\$\$|```\w*\n)\s*(.*?)\s*(?:\\\]|\$\$|```)", re.DOTALL)
_NEXT_SENTENCE = re.compile(r"\.\s+(?=[A-Z])|[。！？]|,?\s(?:because|since)\b")
_THOUGHT = "think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad|seed:think"
_THOUGHT_START = re.compile(
    rf"<(?:{_THOUGHT})>|\[think\]|◁think▷|<\|(?:begin_of_thought|start_thinking|think(?:ing)?)\|>"
    r"|<\|channel\|>\s*analysis",
    re.IGNORECASE,
)
_THOUGHT_END = re.compile(
    rf"</(?:{_THOUGHT})>|\[/think\]|◁/think▷|<\|(?:end_of_thought|end_thinking|/think(?:ing)?)\|>"
    r"|<\|channel\|>\s*final\s*<\|message\|>",
    re.IGNORECASE,
)
_TURN_END = re.compile(
    r"(?<=\S)\s*(?:</s>|<(?:eos|pad|end_of_(?:turn|text|utterance))>|\[eos\]|<｜end▁of▁sentence｜>"
    r"|<\|(?:eot_id|eom_id|eos|im_end|return|end|end_?of_?(?:text|turn|sentence|solution)(?:_token)?)\|>).*",
    re.IGNORECASE | re.DOTALL,
)
_EAST_ASIAN_SIGNS = f"{EAST_ASIAN}、「」『』"
_EAST_ASIAN_WORDS = re.compile(f"[{_EAST_ASIAN_SIGNS}]")
_IN_OTHER_WORDS = re.compile(r",?\s*(?:[即因]|也就是|つまり|なぜなら|즉).*", re.DOTALL)
_VALUES = re.compile(f"(?:[^{_EAST_ASIAN_SIGNS}]|[万萬亿億])+")
_COPULA = re.compile(r"(?:です|である|だ|입니다|이다)$")

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
_AND_ANOTHER = re.compile(r"\s+[a-z]+\s+and\s+\d+\s+(?!of\b)[a-z]")
"""A number of one thing, and one of another: neither is the answer."""
_SIMPLE_SIDE = re.compile(r"\(?\\?\w+(?:_\{?\w+\}?)?(?:\(\w+\))?(?:,\s*\w+)*\)?")


def extract_answer(text: str, is_complete: bool = True) -> str | None:
    """The announced answer of a solution, or the value in its last sentence; None if there is neither.

    Args:
        is_complete: False for a text that was cut off; its last sentence is then not read.
    """
    return announced_answer(text) or (concluded_value(_said(text)) if is_complete else None)


def final_answer(steps: Sequence[str]) -> str | None:
    """The answer that steps announce, or the value in their last sentence; None within a thought that does not end."""
    return extract_answer("\n\n".join(steps))


def is_thinking(texts: Sequence[str]) -> bool:
    """Whether the texts, read in order, end within a thought."""
    return _THOUGHT_START.search(_THOUGHT_END.split("\n".join(texts))[-1]) is not None


def without_thought_tags(text: str) -> str:
    """A text whose thoughts are read as the rest of it is."""
    return _THOUGHT_START.sub("", _THOUGHT_END.sub("", text))


def without_tags(text: str) -> str:
    """A text without the tags of thoughts, answers and ends of turns, which a labeler would read as text."""
    thoughts = _THOUGHT_START.sub("\n", _THOUGHT_END.sub("\n", text))
    return _ANSWER_TAG.sub("", _TURN_END.sub("", thoughts))


def announced_answer(text: str) -> str | None:
    r"""The answer that a text announces, or None.

    The last announcement wins: `####`, `The answer is:`, `Final answer:`, `\boxed{}`, `<answer></answer>` or `答：`. An
    `answer is` without a colon counts only if there is no box. Thoughts (`<think>`) announce nothing.
    """
    text = _said(text)
    boxed = boxed_answer(text)
    statements = [match for match in _STATEMENT.finditer(text) if not _CHECK.search(text[: match.start()][-10:])]
    stated = max((match.start() for match in statements if match["mark"]), default=-1)
    if boxed and stated < max(text.rfind("\\boxed"), text.rfind("\\fbox")):
        return boxed
    end = len(text)
    for statement in reversed(statements):
        # a displayed formula, or the line up to the next sentence
        rest = _ANSWER_END.split(text[statement.end() : end], maxsplit=1)[0].lstrip(" \t\r\n:=*")
        if displayed := _DISPLAYED.match(rest):
            answer = unwrap(displayed.group(1))
        else:
            line = _NEXT_SENTENCE.split(rest.split("\n", maxsplit=1)[0], maxsplit=1)[0].rstrip(" \t\r*.")
            is_sentence = not statement[0].lower().rstrip(" :=*").endswith(("is", "are")) and _SENTENCE.search(line)
            value = concluded_value(f"{line}.") if is_sentence else _east_asian_value(line)
            answer = unwrap(boxed_answer(line) or value or line)
        if answer:
            return answer
        end = statement.start()
    return boxed or None


def _said(text: str) -> str:
    """What a text says after its thoughts and before the end of its turn; empty if a thought does not end."""
    said = "" if is_thinking([text]) else _TURN_END.sub("", _THOUGHT_END.split(text)[-1])
    return said if said.isascii() else said.translate(FULL_WIDTH)


def _east_asian_value(line: str) -> str | None:
    """The values in a line of Chinese, Japanese or Korean, else its words; None for a line of another language."""
    if not _EAST_ASIAN_WORDS.search(line):
        return None
    clause = _IN_OTHER_WORDS.sub("", line)
    values = (unwrap(value) for value in _VALUES.findall(clause) if re.search(r"[A-Za-z0-9]", value))
    return ", ".join(value.strip(" ,:") for value in values) or _COPULA.sub("", clause.strip())


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
    if (measures := leading_measures(sentence[start:])) is not None:
        return measures
    if _AND_ANOTHER.match(sentence, end):
        return None
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
