r"""Change one sign, operator, function or relation of an answer.

3x^{2}-x+1      -> 3x^{2}+x+1 (operator_substitution)          -4     -> 4 (sign_inversion)
\sin^{2} x      -> \cos^{2} x (operator_substitution)          (3,-1) -> (-3,-1) (sign_inversion)
x \le 5         -> x \ge 5, x < 5 (operator_substitution)      \frac{-3}{2} -> \frac{3}{2} (sign_inversion)
"""

import re
from collections.abc import Iterator

from cpmi_dagster.negatives.mistakes.proposal import Proposal

_BINARY_SIGN = re.compile(r"(?<=[\w)}\]!])(\s*)([+-])(?=\s*[\w\\({.])")
_NO_OPERAND = re.compile(
    r"(?:(?:matrix|array)\}(?:\{[lcr|]*\})?|(?<![A-Za-z])(?:or|and)\s*\}?"
    r"|\\(?:le|leq|ge|geq|cup|cap|in|cdot|times|approx|to|pm|mp|phantom|quad|qquad))\s*$"
)
_ENTRY = re.compile(
    r"(?:^|(?<=[(\[,&=:])|(?<=\\\{)|(?<=matrix\})|(?<=\\\\))((?:\s|\\[,;! ])*)(-?)(\s*)"
    r"(?=[\d.]|\\[dtc]?frac|\\sqrt|\\pi|\\infty|[a-z](?![A-Za-z]))"
)
_APPLIED = re.compile(r"(?:[A-Za-z)]|\\(?:log|ln|sin|cos|tan|cot|sec|csc)(?:\^\{[^{}]*\})?)\s*(?:\\left\s*)?\($")
_NEGATIVE_TOP = re.compile(r"(\\[dtc]?frac\{)-")
_ZERO_OR_INFINITY = re.compile(r"0(?![.\d])|\\infty")
_RELATION = re.compile(r"[<>]|\\(?:le|ge|leq|geq)(?![A-Za-z])")
_RATIO_OR_TIME = re.compile(r"\d\s*(?:\\!)?:")
_COUNTERPARTS = {
    "\\sin": ("\\cos",), "\\cos": ("\\sin",), "\\tan": ("\\cot",), "\\cot": ("\\tan",), "\\sec": ("\\csc",),
    "\\csc": ("\\sec",), "\\cap": ("\\cup",), "\\pm": ("\\mp",), "\\log": ("\\ln",), "\\ln": ("\\log",),
}  # fmt: skip
_RELATIONS = {
    "\\le": ("\\ge", "<"), "\\ge": ("\\le", ">"), "\\leq": ("\\geq", "<"), "\\geq": ("\\leq", ">"),
    "<": (">", "\\le "), ">": ("<", "\\ge "),
}  # fmt: skip
_EITHER = {**_COUNTERPARTS, **_RELATIONS}
_COUNTERPART = re.compile("|".join(re.escape(name) + (r"(?![A-Za-z])" if name[0] == "\\" else "") for name in _EITHER))


def propose_operator_changes(answer: str) -> Iterator[Proposal]:
    """The answer with one `+` for `-`, one function or relation for a counterpart.

    Relations in a chain are not reversed, only made strict or not.
    """
    for found in _BINARY_SIGN.finditer(answer):
        if not _NO_OPERAND.search(answer[: found.start(2)]):
            other = "-" if found.group(2) == "+" else "+"
            yield _replaced(answer, found.start(2), found.end(2), other, "operator_substitution")
    is_chain = len(_RELATION.findall(answer)) > 1
    for found in _COUNTERPART.finditer(answer):
        others = _EITHER[found.group()]
        for other in others[1:] if is_chain and found.group() in _RELATIONS else others:
            yield _replaced(answer, found.start(), found.end(), other, "operator_substitution")


def propose_sign_changes(answer: str) -> Iterator[Proposal]:
    """The answer with the sign of the whole, or of one entry of a tuple, list or matrix, turned."""
    if _RATIO_OR_TIME.search(answer):
        return
    for found in _ENTRY.finditer(answer):
        if _is_signed_entry(answer, found):
            yield _with_sign_turned(answer, found)


def _is_signed_entry(answer: str, entry: re.Match[str]) -> bool:
    """Not a left side, the argument of a function, the first term of a factor, zero, or an end at infinity."""
    before, after = answer[: entry.start(2)], answer[entry.end() :]
    is_left_side = before.strip() == "" and (("=" in answer and "," not in answer) or _RELATION.search(answer))
    if is_left_side and not (_RELATION.search(answer) and re.match(r"[\d.\\]", after)):
        return False
    if re.match(r"[A-Z]+\s*=|[a-z]\s*=", after) or _APPLIED.search(before) or _ZERO_OR_INFINITY.match(after):
        return False
    if before.endswith("\\sqrt["):
        return False
    return not (before.rstrip().endswith("(") and re.match(r"[^(),]*\)", after))


def _with_sign_turned(answer: str, entry: re.Match[str]) -> Proposal:
    after = answer[entry.end() :]
    if not entry.group(2) and (top := _NEGATIVE_TOP.match(after)):
        return Proposal(answer[: entry.end()] + top.group(1) + after[top.end() :], "sign_inversion")
    sign = "" if entry.group(2) else "-"
    return _replaced(answer, entry.start(2), entry.end(3), sign, "sign_inversion")


def _replaced(answer: str, start: int, end: int, new: str, heuristic: str) -> Proposal:
    gap = "" if not new.endswith(" ") or not answer[end : end + 1].isspace() else " "
    return Proposal(answer[:start] + (new.rstrip() if gap else new) + answer[end:], heuristic)
