"""Prompts that begin alike: what is shared, that texts stay the same, and that the tokens reported are those read."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.generation import prompt_reading
from cpmi_dagster.generation.decoding import Decoder, Start
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.shared_beginnings import LEAST_SHARE, Beginning, shared_beginnings
from cpmi_dagster.generation.token_sampling import uniform_numbers
from cpmi_dagster.generation.transformers_engine import TransformersEngine

SAMPLING = Sampling(temperature=1.0, top_p=0.95, top_k=20, max_new_tokens=12)
QUESTION = tuple(range(10, 90))
STEPS = [tuple(range(start, start + 25)) for start in (100, 130, 160)]
PREFIXES = [QUESTION + sum(STEPS[:length], ()) for length in (3, 2, 1, 0)]
PROMPTS = sorted([*PREFIXES, QUESTION + STEPS[2], (5, 6, 7), (8,), PREFIXES[1]], key=len, reverse=True)
ENOUGH = 10_000


class NeverStops:
    """A stop rule that leaves every continuation to its limit."""

    def ended(self, tokens, counts, active):
        return torch.zeros_like(active)


def test_the_prefixes_of_a_trajectory_take_all_but_their_last_token_from_the_longest():
    assert shared_beginnings(PREFIXES, ENOUGH) == [None, *(Beginning(0, len(prompt) - 1) for prompt in PREFIXES[1:])]


def test_trajectories_of_one_question_share_it():
    branches = [QUESTION + STEPS[0], QUESTION + STEPS[1]]
    assert shared_beginnings(branches, ENOUGH) == [None, Beginning(0, len(QUESTION))]


def test_no_more_is_kept_than_was_allowed():
    assert shared_beginnings(PREFIXES, len(QUESTION) - 1) == [None] * 4
    others = [tuple(token + 200 for token in prompt) for prompt in PREFIXES]
    kept = shared_beginnings([*PREFIXES, *others], len(PREFIXES[0]))
    assert [beginning is not None for beginning in kept] == [False, True, True, True, False, False, False, False]


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), max_size=20))
def test_a_beginning_is_that_of_an_earlier_prompt_and_the_longest_there_is(prompts):
    for number, beginning in enumerate(shared_beginnings(prompts, ENOUGH)):
        prompt = prompts[number]
        alike = [sum(1 for n in range(len(prompt) - 1) if prompt[: n + 1] == other[: n + 1]) for other in prompts]
        longest = max(alike[:number], default=0)
        if beginning is None:
            assert not longest or longest < LEAST_SHARE * len(prompt)
        else:
            assert beginning.donor < number
            assert beginning.length == alike[beginning.donor] == longest


def starts_of(prompts: list[tuple[int, ...]], samples: int = 2) -> list[Start]:
    return [
        Start(prompt, range(samples * n, samples * (n + 1)), uniform_numbers(str(n), 0, samples, 12))
        for n, prompt in enumerate(prompts)
    ]


def decode(model, prompts, beginnings, batch_sequences: int) -> tuple[dict[int, list[int]], int]:
    """Continuations, and the tokens that went through the model, counted by a hook on it."""
    read = 0

    def count(_, __, kwargs):
        nonlocal read
        columns = kwargs["input_ids"].shape[1]
        read += int(kwargs["attention_mask"][:, -columns:].sum()) if reading else 0

    reading = True
    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    original = Decoder._forward

    def forward(self, batch, cache):
        nonlocal reading
        reading = False
        original(self, batch, cache)
        reading = True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Decoder, "_forward", forward)
        decoder = Decoder(model, SAMPLING, NeverStops(), batch_sequences)
        drawn = {one.owner: one.tokens for one in decoder.run(starts_of(prompts), beginnings)}
    hook.remove()
    return drawn, read


@pytest.mark.parametrize("batch_sequences", [2, 5, 64])
def test_sharing_changes_no_continuation_and_reads_what_it_says(tiny_model, batch_sequences):
    beginnings = shared_beginnings(PROMPTS, ENOUGH)
    alone, read_alone = decode(tiny_model.model, PROMPTS, (), batch_sequences)
    shared, read_shared = decode(tiny_model.model, PROMPTS, beginnings, batch_sequences)
    assert shared == alone
    assert read_alone == sum(map(len, PROMPTS))
    assert read_shared == read_alone - sum(beginning.length for beginning in beginnings if beginning)
    distinct = {prompt[: end + 1] for prompt in PROMPTS for end in range(len(prompt))}
    assert read_shared <= len(distinct) + len(PROMPTS)


def test_sharing_is_right_for_windows_that_slide(tokenizer):
    from transformers import MistralConfig, MistralForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = MistralConfig(
            vocab_size=258, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, sliding_window=16, initializer_range=0.3,
        )  # fmt: skip
        model = MistralForCausalLM(config).eval()
    beginnings = shared_beginnings(PROMPTS, ENOUGH)
    assert decode(model, PROMPTS, beginnings, 64)[0] == decode(model, PROMPTS, (), 64)[0]


def test_no_more_logits_are_computed_than_one_row_a_prompt(tiny_model):
    shapes: list[tuple[int, ...]] = []
    head = tiny_model.model.get_output_embeddings()
    hook = head.register_forward_hook(lambda _, __, logits: shapes.append(tuple(logits.shape)))
    decode(tiny_model.model, PROMPTS, shared_beginnings(PROMPTS, ENOUGH), 64)
    hook.remove()
    assert {columns for _, columns, _ in shapes} == {1}


def test_long_prompts_are_read_in_parts_of_bounded_size(tiny_model, monkeypatch):
    sizes: list[int] = []
    hook = tiny_model.model.register_forward_pre_hook(
        lambda _, __, kwargs: sizes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    whole = decode(tiny_model.model, PROMPTS, (), 64)[0]
    sizes.clear()
    monkeypatch.setattr(prompt_reading, "READ_TOKENS", 200)
    assert decode(tiny_model.model, PROMPTS, (), 64)[0] == whole
    hook.remove()
    assert max(sizes) <= 200


def test_an_engine_reports_a_prompts_tokens_less_what_it_shares(tiny_model):
    question, step = "Problem: 2 + 3 and so on\n", "2 + 3 = 5\n"
    generations = TransformersEngine(tiny_model, 8).generate([question, question + step], SAMPLING, 2, 0)
    assert [group[0].prompt_tokens for group in generations] == [1, len(question + step)]
