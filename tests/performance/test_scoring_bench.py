"""`make bench`: every contestant computes the same numbers, and the tokens it is charged with are those it reads."""

import sys
from functools import cache
from pathlib import Path

import polars as pl
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "performance"))

from scoring_cached import cached_prefix
from scoring_comparison import QUICK_REPEATS, compare, largest_difference
from scoring_contestants import Harness, dense, harness_tokens, released, released_tokens, tree
from scoring_growth import GrowthPoint, plot, variations
from scoring_meter import ForwardMeter
from scoring_models import byte_level_bpe, random_model
from scoring_sample import representative
from scoring_sequences import Request, distinct_tokens, padded_tokens, pieces_of, requests_of
from scoring_throughput import matrix_rate, measure
from scoring_workload import negatives_of, read_trajectories, reference_texts, several_a_question, with_step_count

from cpmi_dagster.contracts.contexts import Conditioning
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.scoring.settings import Scoring

pytestmark = pytest.mark.slow

ALL: tuple[Conditioning, ...] = ("marginal", "incremental", "prefix", "leave_one_out")
TOLERANCE = 1e-4


@cache
def tiny_model() -> LoadedModel:
    """A random model of two layers with a tokenizer of the embedded world."""
    tokenizer = byte_level_bpe(reference_texts(None), 600, "tests")
    return random_model("tiny", tokenizer, len(tokenizer))


@cache
def world_trajectories() -> pl.DataFrame:
    """Some problems of the embedded world."""
    world = read_trajectories(None)
    return pl.concat([rows.head(8) for _, rows in world.group_by("subset", maintain_order=True)])


@pytest.fixture(scope="module")
def trajectories() -> pl.DataFrame:
    """A question with two attempts, and one of the other subset."""
    world = world_trajectories()
    pair = several_a_question(world.filter(pl.col("subset") == "gsm8k").head(1), 2, seed=0)
    return with_step_count(pl.concat([pair, world.filter(pl.col("subset") == "math").head(1)]), 3)


@pytest.fixture(scope="module")
def negatives(trajectories: pl.DataFrame) -> pl.DataFrame:
    """Two hard negatives each."""
    return negatives_of(trajectories, 2, seed=0)


@pytest.fixture(scope="module")
def scoring() -> Scoring:
    """Two templates, all contexts."""
    return Scoring(templates=2, conditionings=ALL)


@pytest.fixture(scope="module")
def pieces(trajectories: pl.DataFrame, negatives: pl.DataFrame, scoring: Scoring) -> list:
    """Their token ids."""
    return pieces_of(trajectories, negatives, tiny_model().tokenizer, scoring.templates, scoring.conditionings)


@pytest.fixture(scope="module")
def reference(trajectories: pl.DataFrame, negatives: pl.DataFrame, scoring: Scoring) -> dict:
    """Values of the reference scorer."""
    return dict(tree(tiny_model(), trajectories, negatives, scoring.model_copy(update={"scorer": "reference"})))


def test_the_released_procedure_computes_the_reference_values_in_the_tokens_charged(pieces: list, reference: dict):
    requests = requests_of(pieces)
    with ForwardMeter(tiny_model().model) as meter:
        values = released(tiny_model(), requests)
    assert values.keys() == reference.keys()
    assert largest_difference(values, reference) < TOLERANCE
    assert meter.tokens == released_tokens(requests) == meter.projected


@pytest.mark.parametrize("contexts", [1, 3, 100])
def test_cached_prefixes_give_the_reference_values_whatever_the_batch(contexts: int, pieces: list, reference: dict):
    values = cached_prefix(tiny_model(), pieces, contexts)
    assert values.keys() == reference.keys()
    assert largest_difference(values, reference) < TOLERANCE


@pytest.mark.parametrize("batch", [1, 12])
def test_the_harness_gives_the_reference_values_in_the_tokens_charged(batch: int, pieces: list, reference: dict):
    pytest.importorskip("lm_eval")
    requests = requests_of(pieces)
    with ForwardMeter(tiny_model().model) as meter:
        values = Harness(tiny_model(), batch)(requests)
    assert largest_difference(values, reference) < TOLERANCE
    assert meter.tokens == harness_tokens(requests, batch)


def test_the_tree_reads_no_fewer_tokens_than_the_forest_has(
    trajectories: pl.DataFrame, negatives: pl.DataFrame, scoring: Scoring, pieces: list, reference: dict
):
    run = {"tree": lambda: tree(tiny_model(), trajectories, negatives, scoring)}
    measured = compare(tiny_model(), run, repeats=2, clock="wall")["tree"]
    assert len(measured.seconds) == 2 + QUICK_REPEATS
    assert largest_difference(measured.logprobs or {}, reference) < TOLERANCE
    distinct = distinct_tokens(requests_of(pieces))
    assert distinct <= measured.meter.tokens < 1.3 * distinct
    with ForwardMeter(tiny_model().model) as meter:
        dense(tiny_model(), measured.meter, longest=100)
    assert meter.tokens == measured.meter.tokens


def test_distinct_tokens_are_prefixes_without_the_last_token_of_a_target():
    """q0 q1 a, q0 q1 s a: five prefixes, of six sequences."""
    requests = [
        Request(("t", 0, kind, index, rank), context, target)
        for kind, index, context in (("question", -1, (1, 2)), ("step", 0, (1, 2, 3)), ("prefix", 0, (1, 2, 3)))
        for rank, target in enumerate(((7, 8), (7, 9)))
    ]
    assert distinct_tokens(requests) == 5
    assert harness_tokens(requests, 2) == 8
    assert released_tokens(requests, 4) == 4 * 5 + 2 * 5


def test_padding_follows_the_order_of_the_sequences():
    assert padded_tokens([3, 5, 4, 1, 2], 2) == 10 + 8 + 2


def test_other_attempts_at_a_question_share_nothing_but_its_first_steps():
    one = world_trajectories().head(1)
    attempts = several_a_question(one, 6, seed=1)
    original = set(one["steps"][0])
    for steps in attempts["steps"][1:]:
        shared = [step in original for step in steps]
        assert shared == sorted(shared, reverse=True) and not shared[-1]
    assert attempts["question"].n_unique() == 1 and attempts["trajectory_id"].is_unique().all()


def test_the_sample_is_half_of_each_subset_and_the_same_for_the_same_seed():
    tokenizer = tiny_model().tokenizer
    drawn = representative(world_trajectories(), tokenizer, 4, seed=3)
    assert sorted(drawn["subset"]) == ["gsm8k", "gsm8k", "math", "math"]
    assert drawn.equals(representative(world_trajectories(), tokenizer, 4, seed=3))


def test_the_throughput_report_counts_operations_of_both_ways(trajectories: pl.DataFrame, scoring: Scoring):
    model = tiny_model()
    one = trajectories.head(1)
    ours, theirs = (measure(model, one, scoring, 0, tree_way=way) for way in (True, False))
    assert largest_difference(ours.logprobs, theirs.logprobs) < TOLERANCE
    assert theirs.operations > 2 * ours.operations > 0
    assert ours.full_set_hours > 0 and matrix_rate(model.device, model.model.dtype) > 0


def test_every_axis_of_growth_changes_one_thing(trajectories: pl.DataFrame):
    made = list(variations(trajectories.head(1), seed=0))
    assert {one.axis for one in made} == {
        "steps", "negatives", "templates", "trajectories a question", "step length (x real)"
    }  # fmt: skip
    assert [one.trajectories["steps"].list.len()[0] for one in made if one.axis == "steps"] == [2, 4, 8, 16]


def test_the_plot_shows_every_axis(tmp_path: Path):
    points = [
        GrowthPoint(axis, value, {"tree": 10.0 * value, "released": 99.0 * value}, {"tree": 0.1, "released": 1.0})
        for axis in ("steps", "negatives")
        for value in (1, 2)
    ]
    plot(points, tmp_path / "docs" / "cost.svg", "Cost")
    drawn = (tmp_path / "docs" / "cost.svg").read_text()
    assert drawn.startswith("<?xml") and len(drawn) > 10_000
