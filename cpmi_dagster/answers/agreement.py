"""Whether the solutions of a source state their gold answers: asked before a model is, since labels rest on it.

golds 2, 0, 1, 3    finals C, A, B, C    -> none of 4 solutions state their gold answer: the first states `C`, for `2`
golds 5, 7, 9, …    finals 5, C, A, …    -> all 6 wrong final answers are letters, where the gold answers are numbers
"""

import re
from collections.abc import Iterable
from itertools import islice

from cpmi_dagster.answers.verdicts import decide
from cpmi_dagster.files.text import cut

MOST_READ = 1_000
FEWEST, FEWEST_WRONG = 3, 5
"""Answers below which nothing is said: of all solutions, and of wrong ones."""
FEWEST_RIGHT = 0.02
LONGEST_SHOWN = 40
ADVICE = "check which field has the gold answer (`--map gold_answer=FIELD`), and how both are written"
ALL_WRONG = "if they are all wrong indeed, add right ones: nothing can be told apart among these"
_KINDS = {
    "letters": re.compile(r"\W*[A-Za-z]\W*"),
    "numbers": re.compile(r"[^\w\\]*[+-]?\$?\d[\d,.\s]*%?[^\w\\]*"),
}


def doubt_gold_answers(answers: Iterable[tuple[str | None, str | None]]) -> str | None:
    """A sentence if (nearly) no solution states its gold answer, or all wrong ones state answers of another kind.

    Args:
        answers: gold answer and final answer of each solution; pairs that lack one do not count.
    """
    pairs = list(islice(((gold, final) for gold, final in answers if gold and final), MOST_READ))
    verdicts = [decide(*pair) for pair in pairs]
    others = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if not verdict]
    wrong = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is False]
    count = len(pairs)
    if not others or count < FEWEST:
        return None
    right = count - len(others)
    gold, final = (cut(text, LONGEST_SHOWN) for text in others[0])
    if right <= FEWEST_RIGHT * count:
        who = f"{f'only {right}' if right else 'none'} of {count:,} solutions state their gold answer"
        return f"{who}: the first states `{final}`, for `{gold}`; {ADVICE}; {ALL_WRONG}"
    golds, finals = {_kind(gold) for gold, _ in wrong}, {_kind(final) for _, final in wrong}
    if len(wrong) >= FEWEST_WRONG and len(golds) == len(finals) == 1 and golds != finals:
        [theirs], [meant] = finals, golds
        return f"all {len(wrong):,} wrong final answers are {theirs}, where the gold answers are {meant}; {ADVICE}"
    return None


def _kind(answer: str) -> str:
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(answer)), "other texts")
