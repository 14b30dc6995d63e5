"""Every gold answer of GSM8K train and MATH train has four negatives; math-verify agrees that they are wrong."""

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest
from real_golds import SEED, SHARED_DATA, WANTED, real_golds, sample_of_each_kind

from cpmi_dagster.answers.equivalence import math_verify
from cpmi_dagster.negatives.hard_negatives import heuristic_negatives

GOLDS = 14_973
OF_A_KIND = 6
# math-verify runs into its time-out of three seconds on each pair of its negatives, and so finds none alike
TIMES_OUT = r"\tan \theta = 2\theta"
# math-verify compares equations by the difference of their sides, which is 0 in all of its negatives
OF_NUMBERS = r"0.56 = 56\%"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository"),
]


@pytest.fixture(scope="module")
def golds() -> list[str]:
    return real_golds()


def answers_of(gold: str) -> list[str]:
    """A gold answer and its negatives."""
    return [gold, *(negative.answer for negative in heuristic_negatives(gold, WANTED, SEED))]


def test_every_gold_answer_but_the_two_empty_ones_has_four(golds: list[str], monkeypatch: pytest.MonkeyPatch):
    assert len(golds) == GOLDS and TIMES_OUT in golds
    distinct = [gold for gold in dict.fromkeys(golds) if gold != TIMES_OUT]
    assert [gold for gold in distinct if len(answers_of(gold)) <= WANTED] == [""]
    assert golds.count("") == 2
    monkeypatch.setattr(math_verify, "verify", lambda *_: False)
    assert len(set(answers_of(TIMES_OUT))) == 1 + WANTED


def test_math_verify_finds_no_two_alike_in_a_sample_of_every_kind(golds: list[str]):
    sample = {gold for kind in sample_of_each_kind(golds, OF_A_KIND).values() for gold in kind}
    pairs = [pair for gold in sample - {"", TIMES_OUT, OF_NUMBERS} for pair in combinations(answers_of(gold), 2)]
    assert len(pairs) > 1_300
    with ThreadPoolExecutor(math_verify.MAX_WORKERS) as threads:
        found = threads.map(lambda pair: math_verify.verify(*pair), pairs)
    assert [pair for pair, is_alike in zip(pairs, found, strict=True) if is_alike] == []
