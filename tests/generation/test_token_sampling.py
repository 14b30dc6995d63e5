"""Tokens are drawn as `transformers` would, from numbers that belong to seed and prompt."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import draw_tokens, uniform_numbers


def reference_distribution(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """What `transformers` samples from."""
    ids = torch.zeros((1, 1), dtype=torch.long)
    scores = TemperatureLogitsWarper(sampling.temperature)(ids, logits)
    if sampling.top_k:
        scores = TopKLogitsWarper(sampling.top_k)(ids, scores)
    if sampling.top_p < 1:
        scores = TopPLogitsWarper(sampling.top_p)(ids, scores)
    return scores.softmax(dim=-1)[0]


@settings(max_examples=25)
@given(
    width=st.integers(2, 200),
    spread=st.floats(0, 5),
    temperature=st.floats(0.3, 2),
    top_k=st.sampled_from([0, 1, 5, 20, 500]),
    top_p=st.sampled_from([0.5, 0.9, 1.0]),
    seed=st.integers(0, 1000),
)
def test_drawn_tokens_are_distributed_as_transformers_would(width, spread, temperature, top_k, top_p, seed):
    sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k, max_new_tokens=1)
    # different by more than rounding, so that both cut at the same token
    noise = torch.randn((1, width), generator=torch.Generator().manual_seed(seed)) * (spread + 0.1)
    grid = (torch.arange(20_000) + 0.5) / 20_000
    tokens = draw_tokens(noise.expand(len(grid), -1), grid, sampling)
    shares = tokens.bincount(minlength=width) / len(grid)
    assert torch.allclose(shares, reference_distribution(noise, sampling), atol=3e-4)


def test_a_token_without_probability_is_never_drawn_and_a_wide_nucleus_is_not_cut_short():
    sampling = Sampling(temperature=1, top_p=1, max_new_tokens=1)
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, -torch.inf]]).expand(3, -1)
    assert set(draw_tokens(logits, torch.tensor([1e-9, 0.5, 1.0]), sampling).tolist()) <= {1, 2}
    wide = Sampling(temperature=1, top_p=0.9, max_new_tokens=1)
    drawn = draw_tokens(torch.zeros((1000, 1000)), (torch.arange(1000) + 0.5) / 1000, wide)
    assert len(drawn.unique()) in range(895, 906)


def test_numbers_belong_to_seed_and_prompt():
    streams = [uniform_numbers(*key, samples=2, limit=3) for key in (("a", 0), ("b", 0), ("a", 1))]
    assert len({tuple(stream.flatten().tolist()) for stream in streams}) == 3
    assert torch.equal(streams[0][1:], uniform_numbers("a", 0, 1, 3, first=1))
    assert all(0 < number <= 1 for stream in streams for number in stream.flatten().tolist())
