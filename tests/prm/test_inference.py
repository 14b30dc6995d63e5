"""However solutions are read, side by side or one after the other, in rows or rectangles, their scores are the same."""

import threading
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from cpmi_dagster.prm import scoring
from cpmi_dagster.prm.inputs import EncodedSolution
from cpmi_dagster.prm.model import LoadedRewardModel, RewardModel
from cpmi_dagster.prm.scoring import probabilities, reads_rows, side_by_side, step_results

pytestmark = pytest.mark.slow

BuildRewardModel = Callable[..., LoadedRewardModel]
token_lists = st.lists(st.integers(2, 6), min_size=1, max_size=30)


@st.composite
def solutions(draw: st.DrawFn) -> list[EncodedSolution]:
    """Solutions that begin alike in several ways."""
    beginnings = draw(st.lists(token_lists, min_size=1, max_size=3))
    encoded = []
    for rest in draw(st.lists(token_lists, min_size=1, max_size=8)):
        tokens = draw(st.sampled_from(beginnings)) + rest
        ends = draw(st.sets(st.integers(0, len(tokens) - 1), min_size=1, max_size=4))
        encoded.append(EncodedSolution(tokens, sorted(ends)))
    return encoded


def scores(encoded: list[EncodedSolution], model: RewardModel, batch_tokens: int) -> dict[int, list[float]]:
    """By number of the solution."""
    read = lambda ends: probabilities(model.head(ends))  # noqa: E731
    results = step_results(encoded, model.backbone, read, batch_tokens)
    return {number: values.tolist() for found in results for number, values in found}


@pytest.fixture
def two_cores():
    """Torch computes with two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("in_rows", [True, False])
@given(encoded=solutions(), batch_tokens=st.integers(1, 300))
@settings(deadline=None, max_examples=30)
def test_solutions_read_together_score_as_each_alone_in_the_model_itself(
    build_reward_model, in_rows, encoded, batch_tokens
):
    model = build_reward_model().model
    assert reads_rows(model.backbone)
    with patch.object(scoring, "reads_rows", lambda _: in_rows):
        together = scores(encoded, model, batch_tokens)
    assert sorted(together) == list(range(len(encoded)))
    for number, solution in enumerate(encoded):
        tokens, ends = torch.tensor([solution.token_ids]), torch.tensor([solution.step_positions])
        with torch.inference_mode():
            alone = model(tokens, torch.ones_like(tokens), ends).logits[0].double().sigmoid()
        torch.testing.assert_close(torch.tensor(together[number], dtype=torch.float64), alone, atol=1e-5, rtol=0)


def test_passes_side_by_side_give_the_scores_of_passes_one_after_the_other(build_reward_model, monkeypatch, two_cores):
    model = build_reward_model().model
    generator = torch.Generator().manual_seed(0)
    encoded = [EncodedSolution(torch.randint(2, 20, (40,), generator=generator).tolist(), [20, 39]) for _ in range(40)]
    monkeypatch.setattr(scoring, "ROW_TOKENS", 100)
    together, apart = scores(encoded, model, 400), scores(encoded, model, 100)
    assert [together[number] for number in range(40)] == [approx(apart[number]) for number in range(40)]
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("architecture", "in_rows"),
    [(name, True) for name in ("llama", "qwen2", "qwen3", "gpt_neox")]
    + [(name, False) for name in ("bloom", "gemma2", "mistral")],
)
def test_models_whose_attention_is_their_own_read_rectangles(build_reward_model, architecture, in_rows):
    model = build_reward_model(architecture).model
    assert reads_rows(model.backbone) == in_rows
    assert len(scores([EncodedSolution([2, 3, 4], [1, 2])], model, 100)[0]) == 2


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_frequencies_that_change_with_the_length_and_half_precision_read_rectangles(build_reward_model, rope_type):
    backbone = build_reward_model().model.backbone
    backbone.config.rope_parameters = {**backbone.config.rope_parameters, "rope_type": rope_type}
    assert not reads_rows(backbone)
    assert not reads_rows(build_reward_model().model.bfloat16().backbone)


def test_results_come_in_order_from_as_many_threads_as_there_are_passes(two_cores):
    met = threading.Barrier(2, timeout=120)

    def work(number: int) -> tuple[int, int]:
        met.wait()
        return number, torch.get_num_threads()

    assert list(side_by_side(work, range(6), 2)) == [(number, 1) for number in range(6)]
    assert torch.get_num_threads() == 2


def test_an_error_in_a_pass_is_raised_and_the_threads_are_put_back(two_cores):
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda number: 1 // number, [1, 0, 2], 2))
    assert torch.get_num_threads() == 2
