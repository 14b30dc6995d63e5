"""Pairs of answers judged by hand, of every kind there is in GSM8K and MATH.

{"gold": "0.\\\\overline{3}", "candidate": "\\\\frac{1}{3}", "kind": "decimal"}        a line of equivalent_pairs.jsonl
"""

import json
from pathlib import Path

import pytest

from cpmi_dagster.answers.verdicts import equivalent, is_equivalent

HERE = Path(__file__).parent


def read_pairs(name: str) -> list[tuple[str, str]]:
    rows = map(json.loads, (HERE / name).read_text(encoding="utf-8").splitlines())
    return [(row["gold"], row["candidate"]) for row in rows]


@pytest.mark.parametrize(("name", "verdict"), [("equivalent_pairs.jsonl", True), ("different_pairs.jsonl", False)])
def test_every_judged_pair_is_judged_so_either_way_round(name: str, verdict: bool):
    pairs = read_pairs(name)
    golds, candidates = zip(*pairs, strict=True)
    forth, back = equivalent(golds, candidates), equivalent(candidates, golds)
    wrong = [pair for pair, each in zip(pairs, zip(forth, back, strict=True), strict=True) if set(each) != {verdict}]
    assert wrong == []
    assert is_equivalent(*pairs[0]) is verdict
