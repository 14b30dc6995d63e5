"""Every gold answer of GSM8K train and MATH train has four negatives; math-verify agrees that they are wrong."""

import gzip
import json
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import pytest

from cpmi_dagster.alignment import read_references
from cpmi_dagster.answers import math_verify_pool as math_verify
from cpmi_dagster.negatives import heuristic_negatives

SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
GOLDS = 14_973
WANTED = 4
SAMPLED = 150
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
    """The gold answers of GSM8K train and MATH train, in order; two of MATH are empty."""
    golds: list[str] = []
    for source in ("gsm8k", "math"):
        with gzip.open(SHARED_DATA / source / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
            golds += read_references([json.loads(line) for line in lines], source, "train")["answer"].to_list()
    return golds


def answers_of(gold: str) -> list[str]:
    """A gold answer and its negatives."""
    return [gold, *(negative.answer for negative in heuristic_negatives(gold, WANTED, 0))]


def test_every_gold_answer_but_the_two_empty_ones_has_four(golds: list[str], monkeypatch: pytest.MonkeyPatch):
    assert len(golds) == GOLDS and TIMES_OUT in golds
    distinct = [gold for gold in dict.fromkeys(golds) if gold != TIMES_OUT]
    assert [gold for gold in distinct if len(answers_of(gold)) <= WANTED] == [""]
    assert golds.count("") == 2
    monkeypatch.setattr(math_verify, "verify", lambda *_: False)
    assert len(set(answers_of(TIMES_OUT))) == 1 + WANTED


def test_math_verify_finds_no_two_alike_in_a_sample(golds: list[str]):
    hard = sorted({gold for gold in golds if not gold.isdecimal()} - {"", TIMES_OUT, OF_NUMBERS})
    pairs = [pair for gold in random.Random(0).sample(hard, SAMPLED) for pair in combinations(answers_of(gold), 2)]
    with ThreadPoolExecutor(math_verify.MAX_WORKERS) as threads:
        found = threads.map(lambda pair: math_verify.verify(*pair), pairs)
    assert [pair for pair, is_alike in zip(pairs, found, strict=True) if is_alike] == []
