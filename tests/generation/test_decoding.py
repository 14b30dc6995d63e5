"""The decoder beside a plain forward pass and beside the sampling of `transformers`: the same tokens."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import MambaModel, MistralConfig, MistralForCausalLM
from transformers.generation import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation import decoding
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import draw_tokens, uniform_numbers

GREEDY = Sampling(temperature=1e-4, top_p=1.0, max_new_tokens=24)
QUESTION = tuple(range(10, 90))
STEPS = [tuple(range(start, start + 25)) for start in (100, 130, 160)]
PREFIXES = [QUESTION + sum(STEPS[:length], ()) for length in (3, 2, 1, 0)]
PROMPTS = [*PREFIXES, QUESTION + STEPS[2], (5, 6, 7), (8,), PREFIXES[1]]


class NeverStops:
    """Leaves every continuation to its limit."""

    def ended(self, tokens, counts, active):
        return torch.zeros_like(active)


class StopsByLength:
    """Ends texts at different times."""

    def ended(self, tokens, counts, active):
        return active & (counts >= tokens[:, 0] % 30 + 1)


def decode(model, prompts, rows: int, sampling=GREEDY, rule=NeverStops) -> list[list[int]]:
    numbers = torch.cat([uniform_numbers(str(number), 0, 1, sampling.max_new_tokens) for number in range(len(prompts))])
    drawn = {one.owner: one.tokens for one in decoding.decode(model, prompts, numbers, sampling, rule(), rows)}
    return [drawn[owner] for owner in range(len(prompts))]


def greedy_by_hand(model, prompt: tuple[int, ...], count: int) -> list[int]:
    """Most likely tokens, the whole text read again for each."""
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.fixture(scope="module")
def sliding_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = MistralConfig(
            vocab_size=258, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, sliding_window=16, initializer_range=0.3,
        )  # fmt: skip
        return MistralForCausalLM(config).eval()


def test_cold_sampling_is_greedy_decoding_of_each_prompt_by_itself(tiny_model, sliding_model):
    for model in (tiny_model.model, sliding_model):
        by_hand = [greedy_by_hand(model, prompt, GREEDY.max_new_tokens) for prompt in PROMPTS]
        assert decode(model, PROMPTS, 3) == decode(model, PROMPTS, 64) == by_hand


@pytest.mark.parametrize("room", [1, 32])
def test_rows_that_end_at_different_times_make_place_without_disturbing_the_rest(tiny_model, monkeypatch, room):
    monkeypatch.setattr(decoding, "ROOM", room)
    prompts = [tuple(2 + (7 * i + j) % 200 for j in range(40 - i)) for i in range(9) for _ in range(2)]
    sampling = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=40)
    first, *others = (decode(tiny_model.model, prompts, rows, sampling, StopsByLength) for rows in (1, 5, 64))
    assert all(other == first for other in others)


def test_a_model_with_a_recurrent_state_is_refused(tiny_model):
    class Recurrent:
        _is_stateful = MambaModel._is_stateful
        config = tiny_model.model.config

    with pytest.raises(ModelError, match="recurrent layers"):
        decode(Recurrent(), PROMPTS, 2)


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
