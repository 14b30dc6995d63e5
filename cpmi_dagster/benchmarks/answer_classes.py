"""Which answers of a problem's candidates are the same answer, for votes.

    answer          18     $18$    18.0    7    7.0   null
    correct         yes    yes     yes     no   no    no
    answer_class    0      0       0       3    3     -1

A class is named after its first candidate. All right answers are equal, since each was found equal to the gold answer.
Wrong ones are equal where their text is; only their different texts are compared mathematically.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain, combinations

import polars as pl

from cpmi_dagster.answers.comparison import BUILT_IN, Comparison

NO_ANSWER = -1
WRAPPING = re.compile(r"\s+|^\$+|\$+$|\.$")


def with_answer_classes(candidates: pl.DataFrame, comparison: Comparison = BUILT_IN) -> pl.DataFrame:
    """Add `answer_class`: number of the first candidate with an equal answer, -1 without an answer.

    Args:
        candidates: benchmark, problem_id, candidate, answer, correct.
        comparison: says which wrong answers are the same.

    Returns:
        The candidates sorted by benchmark, problem and number, with `answer_class`.
    """
    ordered = candidates.sort("benchmark", "problem_id", "candidate").with_columns(
        pl.col("answer").map_elements(lambda answer: WRAPPING.sub("", answer), return_dtype=pl.String).alias("text")
    )
    problems = ordered.group_by("benchmark", "problem_id", maintain_order=True).agg("candidate", "text", "correct")
    rows = problems.select("candidate", "text", "correct").rows()
    equal = _equal_pairs((_wrong_texts(texts, correct) for _, texts, correct in rows), comparison)
    classes = chain.from_iterable(answer_classes(numbers, texts, correct, equal) for numbers, texts, correct in rows)
    return ordered.drop("text").with_columns(pl.Series("answer_class", list(classes), dtype=pl.Int64))


def answer_classes(
    candidates: Sequence[int], texts: Sequence[str | None], correct: Sequence[bool], equal: set[tuple[str, str]]
) -> list[int]:
    """Class of each answer of one problem.

    Args:
        candidates: numbers of the candidates, ascending.
        equal: pairs of wrong texts that mean the same, the earlier first.
    """
    right = next((candidate for candidate, is_right in zip(candidates, correct, strict=True) if is_right), NO_ANSWER)
    wrong: dict[str, int] = {}
    for candidate, text, is_right in zip(candidates, texts, correct, strict=True):
        if text is not None and not is_right and text not in wrong:
            wrong[text] = next((number for other, number in wrong.items() if (other, text) in equal), candidate)
    return [
        right if is_right else NO_ANSWER if text is None else wrong[text]
        for text, is_right in zip(texts, correct, strict=True)
    ]


def _wrong_texts(texts: Sequence[str | None], correct: Sequence[bool]) -> Iterable[str]:
    """The different texts of a problem's wrong answers, in their order."""
    pairs = zip(texts, correct, strict=True)
    return dict.fromkeys(text for text, is_right in pairs if text is not None and not is_right)


def _equal_pairs(distinct: Iterable[Iterable[str]], comparison: Comparison) -> set[tuple[str, str]]:
    """Pairs of different texts of the same problem that are the same answer."""
    pairs = list(dict.fromkeys(pair for texts in distinct for pair in combinations(texts, 2)))
    verdicts = comparison.each([first for first, _ in pairs], [second for _, second in pairs])
    return {pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict}
