"""Every gold answer of GSM8K train and MATH train has four negatives; math-verify agrees that they are wrong."""

from itertools import combinations

import pytest
from real_golds import SEED, SHARED_DATA, WANTED, real_golds, sample_of_each_kind

from cpmi_dagster.answers.equivalence import math_verify
from cpmi_dagster.negatives.hard_negatives import heuristic_negatives

GOLDS = 14_973
OF_A_KIND = 12
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data folder is not beside the repository"),
]


@pytest.fixture(scope="module")
def golds() -> list[str]:
    return real_golds()


def test_every_gold_answer_but_the_two_empty_ones_has_four(golds: list[str]):
    assert len(golds) == GOLDS
    short = [gold for gold in dict.fromkeys(golds) if len(heuristic_negatives(gold, WANTED, SEED)) < WANTED]
    assert short == [""]
    assert golds.count("") == 2


def test_math_verify_finds_no_two_alike_in_a_sample_of_every_kind(golds: list[str]):
    sample = [gold for kind in sample_of_each_kind(golds, OF_A_KIND).values() for gold in kind if gold]
    assert len(sample) > 250
    alike = []
    for gold in sample:
        answers = [gold, *(negative.answer for negative in heuristic_negatives(gold, WANTED, SEED))]
        alike += [pair for pair in combinations(answers, 2) if math_verify.verify(*pair)]
    assert alike == []
