r"""Match a question to a reference worded almost the same: articles, plurals, punctuation.

    "… measured in units of distance per unit of time."   ~   "… measured in unit of distance per unit of time."   0.99
    "… minus one. How many are red?"                      ≁   "… minus one. How many are blue?"     another word
    "… buys 3 pens and 2 pads …"                          ≁   "… buys 2 pens and 3 pads …"          other numbers

Only references with the same numbers in the same order are looked at, every difference must be one that cannot change
the problem, and the next best reference with another answer must be clearly worse.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Levenshtein

from cpmi_dagster.question_text import pieces

MIN_SCORE = 0.85
CLEAR_LEAD = 0.05
CANDIDATES = 4
Key = tuple[str, tuple[str, ...]]

_ARTICLES = {"a", "an", "the", "and", "that", "then", "please"}
_SIGNS = {",", ".", ";", "?", '"', "`", "\\", "\\\\", "\\bullet"}
_HARMLESS = _ARTICLES | _SIGNS


class FuzzyIndex:
    """References by their numbers, for questions that no exact form finds."""

    def __init__(self, references: Sequence[str], keys: Sequence[Key], same_answer: Callable[[int, int], bool]) -> None:
        """Index references.

        Args:
            references: Their questions.
            keys: `question_text.normal_key` of each.
            same_answer: Whether two of them, by index, have the same answer.
        """
        self._references = references
        self._same_answer = same_answer
        self._by_numbers: dict[tuple[str, ...], dict[int, str]] = defaultdict(dict)
        for index, (text, numbers) in enumerate(keys):
            self._by_numbers[numbers][index] = text

    def find(self, question: str, key: Key) -> tuple[int, float] | None:
        """The reference a question is a variant of, and their similarity in [0, 1]; None if none clearly is."""
        text, numbers = key
        nearest = process.extract(
            text, self._by_numbers.get(numbers, {}), scorer=fuzz.ratio, score_cutoff=100 * MIN_SCORE, limit=CANDIDATES
        )
        if not nearest:
            return None
        (_, best_score, best), *others = nearest
        for _, score, other in others:
            if best_score - score < 100 * CLEAR_LEAD and not self._same_answer(best, other):
                return None
        return (best, best_score / 100) if differ_harmlessly(question, self._references[best]) else None


def differ_harmlessly(question: str, reference: str) -> bool:
    """Whether every difference between two questions is an article, punctuation or a plural."""
    left, right = pieces(question), pieces(reference)
    return all(
        _is_harmless(left[edit.src_start : edit.src_end], right[edit.dest_start : edit.dest_end])
        for edit in Levenshtein.opcodes(left, right)
        if edit.tag != "equal"
    )


def _is_harmless(removed: list[str], added: list[str]) -> bool:
    removed = [piece for piece in removed if piece not in _HARMLESS]
    added = [piece for piece in added if piece not in _HARMLESS]
    return len(removed) == len(added) and all(
        _is_same_word(one, other) for one, other in zip(removed, added, strict=True)
    )


def _is_same_word(one: str, other: str) -> bool:
    return one == other or one + "s" == other or other + "s" == one
