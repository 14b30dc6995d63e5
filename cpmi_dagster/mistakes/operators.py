r"""Change one sign, operator, function or bracket of an answer, or make a multiple of it.

3x^2-x+1              -> 3x^2+x+1 (operator_substitution)      -4     -> 4 (sign_inversion)
[2, 5)                -> (2, 5) (bracket)                      \pi    -> 2\pi (multiple)
\sin^2 x              -> \cos^2 x (operator_substitution)      (3,-1) -> (-3,-1) (sign_inversion)
"""

import re
from collections.abc import Iterator

from cpmi_dagster.mistakes.proposal import Proposal

_BINARY_SIGN = re.compile(r"(?<=[\w)}\]!])(?<!or)(?<!and)(?<!or \})(?<!or\})(\s*)([+-])(?=\s*[\w\\({.])")
_ENTRY = re.compile(
    r"(?:^|(?<=[(\[,&=])|(?<=\\\{)|(?<=pmatrix\})|(?<=\\\\))(\s*)(-?)(\s*)(?=[\d.]|\\[dtc]?frac|\\sqrt|\\pi|[a-z](?![A-Za-z]))"
)
_TIME = re.compile(r"\d(?:\\!)?:")
_COUNTERPARTS = {
    "\\sin": "\\cos", "\\cos": "\\sin", "\\tan": "\\cot", "\\cot": "\\tan", "\\sec": "\\csc", "\\csc": "\\sec",
    "\\cup": "\\cap", "\\cap": "\\cup", "\\le": "\\ge", "\\ge": "\\le", "\\leq": "\\geq", "\\geq": "\\leq",
    "<": ">", ">": "<", "\\pm": "\\mp", "\\log": "\\ln", "\\ln": "\\log",
}  # fmt: skip
_COUNTERPART = re.compile(
    "|".join(re.escape(name) + (r"(?![A-Za-z])" if name[0] == "\\" else "") for name in _COUNTERPARTS)
)
_OTHER_BRACKET = {"(": "[", "[": "(", ")": "]", "]": ")"}
_INTERVAL = re.compile(r"([(\[])([^()\[\]]*,[^()\[\]]*)([)\]])")
_PREFIX = re.compile(r"\s*(?:[A-Za-z](?:\([a-z]\))?\s*=\s*)?-?\s*")
_SYMBOL = re.compile(r"[A-Za-z]")
_RATIONAL_START = re.compile(r"[\d.]|\\\$")


def propose_operator_changes(answer: str) -> Iterator[Proposal]:
    """The answer with one `+` for `-`, one function, relation or set operator for its counterpart."""
    for found in _BINARY_SIGN.finditer(answer):
        other = "-" if found.group(2) == "+" else "+"
        yield _replaced(answer, found.start(2), found.end(2), other, "operator_substitution")
    for found in _COUNTERPART.finditer(answer):
        yield _replaced(answer, found.start(), found.end(), _COUNTERPARTS[found.group()], "operator_substitution")


def propose_sign_changes(answer: str) -> Iterator[Proposal]:
    """The answer with the sign of the whole, or of one entry of a tuple, list or matrix, turned."""
    if _TIME.search(answer):
        return
    for found in _ENTRY.finditer(answer):
        if found.start() == 0 and "=" in answer:
            continue
        sign = "" if found.group(2) else "-"
        if not sign or answer[found.end() : found.end() + 1] != "0":
            yield _replaced(answer, found.start(2), found.end(3), sign, "sign_inversion")


def propose_bracket_changes(answer: str) -> Iterator[Proposal]:
    """An interval with one end open instead of closed, or the other way round; infinite ends stay open."""
    is_interval = "infty" in answer or any(bracket in answer.replace("\\sqrt[", "") for bracket in "[]")
    if not is_interval or "matrix" in answer:
        return
    for found in _INTERVAL.finditer(answer):
        left, _, right = found.group(2).partition(",")
        for group, end in ((1, left), (3, right)):
            if "infty" not in end:
                other = _OTHER_BRACKET[found.group(group)]
                yield _replaced(answer, found.start(group), found.end(group), other, "bracket")


def propose_finite_ends(answer: str) -> Iterator[Proposal]:
    """The whole line cut at zero."""
    if answer.replace(" ", "") in {"(-\\infty,\\infty)", "\\mathbb{R}"}:
        for half in ("(-\\infty,0)", "(0,\\infty)", "(-\\infty,0)\\cup(0,\\infty)", "[0,\\infty)"):
            yield Proposal(half, "bracket")


def propose_multiples(answer: str) -> Iterator[Proposal]:
    """Twice, three times or half of an answer that starts with no number, and one more or less than it."""
    prefix = _PREFIX.match(answer)
    start = prefix.end() if prefix else 0
    head, rest = answer[:start], answer[start:].strip()
    if (
        not _SYMBOL.search(rest)
        or _RATIONAL_START.match(rest)
        or any(sign in rest for sign in "-+(,[&:<>=")
        or "text" in rest
    ):
        return
    for multiple in (f"2{rest}", f"\\frac{{{rest}}}{{2}}", f"{rest}+1", f"{rest}-1", f"3{rest}"):
        yield Proposal(head + multiple, "multiple")


def _replaced(answer: str, start: int, end: int, new: str, heuristic: str) -> Proposal:
    return Proposal(answer[:start] + new + answer[end:], heuristic)
