"""Pairs of answers judged by hand, of every kind there is in GSM8K and MATH.

{"gold": "0.\\\\overline{3}", "candidate": "\\\\frac{1}{3}", "kind": "decimal"}
"""

import json
from pathlib import Path

from cpmi_dagster.answers.verdicts import is_equivalent

HERE = Path(__file__).parent
LEAST_ACCEPTED, LEAST_REJECTED = 198, 398


def read_pairs(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def test_equivalent_pairs_are_accepted_either_way_round():
    pairs = read_pairs("equivalent_pairs.jsonl")
    missed = [pair for pair in pairs if not is_equivalent(pair["gold"], pair["candidate"])]
    missed_in_reverse = [pair for pair in pairs if not is_equivalent(pair["candidate"], pair["gold"])]
    assert len(pairs) == 200
    assert len(pairs) - len(missed) >= LEAST_ACCEPTED, missed
    assert len(pairs) - len(missed_in_reverse) >= LEAST_ACCEPTED, missed_in_reverse


def test_different_pairs_are_rejected_either_way_round():
    pairs = read_pairs("different_pairs.jsonl")
    passed = [pair for pair in pairs if is_equivalent(pair["gold"], pair["candidate"])]
    passed_in_reverse = [pair for pair in pairs if is_equivalent(pair["candidate"], pair["gold"])]
    assert len(pairs) == 400
    assert len(pairs) - len(passed) >= LEAST_REJECTED, passed
    assert len(pairs) - len(passed_in_reverse) >= LEAST_REJECTED, passed_in_reverse


def test_no_pair_stands_in_a_list_twice_or_in_both():
    rows = read_pairs("equivalent_pairs.jsonl") + read_pairs("different_pairs.jsonl")
    assert len({frozenset((row["gold"], row["candidate"])) for row in rows}) == len(rows)
