"""`make bench`: every contestant computes the reference scorer's numbers, and tokens are those that a model reads."""

import sys
from pathlib import Path

import polars as pl
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "performance"))

from scoring import compare, largest_difference, matrix_rate, operations
from scoring_contestants import Harness, TokenMeter, distinct_tokens, released, requests_of, tree
from scoring_workload import byte_level_bpe, negatives_of, random_model, read_trajectories, representative

from cpmi_dagster.scoring.settings import Scoring

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4
SCORING = Scoring(templates=2, conditionings=("marginal", "incremental", "prefix", "leave_one_out"))


@pytest.fixture(scope="module")
def model():
    _, texts = read_trajectories(None)
    tokenizer = byte_level_bpe(texts, 600, "tests")
    return random_model("tiny", tokenizer, len(tokenizer))


@pytest.fixture(scope="module")
def trajectories(model) -> pl.DataFrame:
    """One problem of each subset of the embedded world."""
    return representative(read_trajectories(None)[0], model.tokenizer, 2, seed=0)


@pytest.mark.parametrize("scorer", ["tree", "released", "harness"])
def test_every_contestant_gives_the_reference_values(scorer, model, trajectories):
    negatives = negatives_of(trajectories, 2, seed=0)
    requests = requests_of(trajectories, negatives, model.tokenizer, SCORING)
    reference = tree(model, trajectories, negatives, SCORING.model_copy(update={"scorer": "reference"}))
    run = {
        "tree": lambda: tree(model, trajectories, negatives, SCORING),
        "released": lambda: released(model, requests),
        "harness": lambda: Harness(model, 4)(requests),
    }
    measured = compare(model, {scorer: run[scorer]}, repeats=1, clock="wall")[scorer]
    assert measured.logprobs.keys() == reference.keys()
    assert largest_difference(measured.logprobs, reference) < TOLERANCE
    distinct = distinct_tokens(requests)
    assert (measured.meter.tokens < 1.3 * distinct) == (scorer == "tree")
    assert measured.meter.tokens >= distinct and measured.meter.projected


def test_the_throughput_report_counts_operations(model, trajectories):
    with TokenMeter(model.model) as meter:
        tree(model, trajectories, negatives_of(trajectories, 2, seed=0), SCORING)
    assert operations(model, meter) > 2 * meter.tokens * 64 * 64 and matrix_rate(model) > 0
