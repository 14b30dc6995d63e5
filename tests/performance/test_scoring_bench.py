"""`make bench`: every contestant computes the reference scorer's numbers, and tokens are those that a model reads."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "performance"))

from scoring import compare, largest_difference
from scoring_contestants import Harness, distinct_tokens, released, requests_of, tree
from scoring_workload import byte_level_bpe, negatives_of, random_model, read_trajectories, representative

from cpmi_dagster.scoring.settings import Scoring

SCORING = Scoring(templates=2, conditionings=("marginal", "incremental", "prefix", "leave_one_out"))


@pytest.mark.slow
def test_every_contestant_gives_the_reference_values():
    rows, texts = read_trajectories(None)
    tokenizer = byte_level_bpe(texts, 600, "tests")
    model = random_model("tiny", tokenizer, len(tokenizer))
    trajectories = representative(rows, tokenizer, 2, seed=0)
    negatives = negatives_of(trajectories, 2, seed=0)
    requests = requests_of(trajectories, negatives, tokenizer, SCORING)
    reference = tree(model, trajectories, negatives, SCORING.model_copy(update={"scorer": "reference"}))
    contestants = {
        "tree": lambda: tree(model, trajectories, negatives, SCORING),
        "released": lambda: released(model, requests),
        "harness": lambda: Harness(model, 4)(requests),
    }
    distinct = distinct_tokens(requests)
    for name, measured in compare(model, contestants, repeats=1, clock="wall").items():
        assert measured.logprobs.keys() == reference.keys()
        assert largest_difference(measured.logprobs, reference) < 1e-4
        assert (measured.meter.tokens < 1.3 * distinct) == (name == "tree")
        assert measured.meter.tokens >= distinct and measured.meter.projected
