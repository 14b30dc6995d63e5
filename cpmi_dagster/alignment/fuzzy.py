r"""Match a question to a reference worded almost the same: articles, plurals, a request for the answer's form.

    "… measured in units of distance per unit of time."   ~   "… measured in unit of distance per unit of time."   0.99
    "Is $f(x)$ even, odd, or neither?"                     ~   "…, or neither? Enter "odd", "even", or "neither"." 0.76
    "… minus one. How many are red?"                      ≁   "… minus one. How many are blue?"     another word
    "… buys 3 pens and 2 pads …"                          ≁   "… buys 2 pens and 3 pads …"          other numbers

Only references with the same numbers in the same order are looked at, every difference must be one that cannot change
the problem, and the next best reference with another answer must be clearly worse.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Levenshtein

from cpmi_dagster.trajectories.question_text import is_word, normal_key, pieces

MIN_SCORE = 85.0
CLEAR_LEAD = 5.0

_ARTICLES = {"a", "an", "the"}
_FILLERS = {"that", "then", "please"}
_AMOUNTS = {
    "half", "third", "thirds", "fourth", "fourths", "quarter", "fifth", "fifths", "sixth", "seventh", "eighth", "ninth",
    "tenth", "tens", "hundred", "thousand", "million", "billion", "dozen", "couple", "pair", "score", "few", "little",
    "bit", "lot", "single", "only", "number", "first", "second", "next", "last", "one", "ones",
}  # fmt: skip
_SHORTEST_SINGULAR = 4
_FORM_REQUEST = re.compile(
    r"(?:(?<=[.?!\])$])|\n)\s*(?:Enter|Write|Give|List|Express|Answer)\b"
    r"(?![^.?!]*\b(?:sum|product|number|smallest|largest|least|greatest|total|real|positive|negative|only|integers?)\b)"
    r"(?=[^.?!]*(?:separated by commas|interval notation|in the form|simplest form|[\"'](?:,| or\b)))"
    r"[^.?!\d]*[.?!]?[\"']?\s*$"
)


class _Wording(NamedTuple):
    """A reference in full (`is_cut` false), or without its request for the answer's form."""

    row: int
    question: str
    is_cut: bool


class FuzzyIndex:
    """References by their numbers, for questions that no exact form finds."""

    def __init__(self, references: Sequence[str], same_answer: Callable[[int, int], bool]) -> None:
        """Index questions; of two that are equally near, the earlier one is found.

        `same_answer` says whether two of them, by index, have the same answer.
        """
        self._same_answer = same_answer
        self._whole = [normal_key(reference).text for reference in references]
        self._by_numbers: dict[tuple[str, ...], dict[_Wording, str]] = defaultdict(dict)
        for row, reference in enumerate(references):
            for wording in _wordings(row, reference):
                text, numbers = normal_key(wording.question)
                self._by_numbers[numbers][wording] = text

    def find(self, question: str) -> tuple[int, float] | None:
        """The reference a question is a variant of, and their similarity in [0, 1]; None if none clearly is."""
        found: list[tuple[float, _Wording, str]] = []
        for wording in _wordings(-1, question):
            text, numbers = normal_key(wording.question)
            references = self._by_numbers.get(numbers, {})
            near = process.extract(text, references, scorer=fuzz.ratio, score_cutoff=MIN_SCORE, limit=None)
            found += [
                (score, reference, wording.question)
                for _, score, reference in near
                if not (wording.is_cut and reference.is_cut)
            ]
        if not found:
            return None
        best_score, best, asked = min(found, key=lambda each: (-each[0], each[1]))
        rivals = [reference.row for score, reference, _ in found if best_score - score < CLEAR_LEAD]
        if not all(self._same_answer(best.row, rival) for rival in rivals if rival != best.row):
            return None
        if not differ_harmlessly(asked, best.question):
            return None
        return best.row, fuzz.ratio(normal_key(question).text, self._whole[best.row]) / 100


def differ_harmlessly(question: str, reference: str) -> bool:
    """Whether every difference between two questions is an article, a word like `please`, or a plural."""
    left, right = pieces(question), pieces(reference)
    for edit in Levenshtein.opcodes(left, right):
        if edit.tag != "equal":
            removed = _essential(left, edit.src_start, edit.src_end)
            added = _essential(right, edit.dest_start, edit.dest_end)
            if len(removed) != len(added) or not all(map(_is_same_word, removed, added)):
                return False
    return True


def _wordings(row: int, question: str) -> list[_Wording]:
    """The question, and what is left of it without a last sentence that asks for nothing but a form of the answer.

    `Enter "odd", "even", or "neither".` goes; `Enter the sum of the roots, …` stays, since it asks for something else.
    Two questions may match with the request in one of them left out, never with both left out.
    """
    cut = _FORM_REQUEST.sub("", question)
    return [_Wording(row, question, False)] + ([_Wording(row, cut, True)] if cut != question and cut.strip() else [])


def _essential(words: list[str], start: int, end: int) -> list[str]:
    """The pieces from `start` to `end` without those that have no meaning in their place."""
    around = zip(["", *words], words, [*words[1:], ""], strict=False)
    kept = []
    for before, word, after in list(around)[start:end]:
        # an article before an amount is significant (`a few`, `a half`), and beside symbols `a` is a variable
        is_variable = word == "a" and not (is_word(after) and (is_word(before) or not before))
        if is_variable or not (word in _FILLERS or (word in _ARTICLES and after not in _AMOUNTS)):
            kept.append(word)
    return kept


def _is_same_word(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    is_plural = short + "s" == long and len(short) >= _SHORTEST_SINGULAR and is_word(short) and short not in _AMOUNTS
    return short == long or is_plural
