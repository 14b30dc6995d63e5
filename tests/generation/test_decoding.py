"""The decoder beside a plain forward pass: the same tokens, however rows are shared, refilled and cut off."""

import pytest
import torch
from transformers import MambaModel, MistralConfig, MistralForCausalLM

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation import decoding
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.token_sampling import uniform_numbers

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
