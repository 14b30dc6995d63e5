"""Rows that read their prompts together: the same logits, fewer columns, and only where the model allows it."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.generation import fitting_batches, shared_prompts
from cpmi_dagster.generation.decoding import Decoder
from cpmi_dagster.generation.kv_cache import CopiedPrompts
from cpmi_dagster.generation.prompt_reading import PromptReader
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.shared_prompts import LONG_PROMPT, SharedPrompts, by_text, worth_sharing
from cpmi_dagster.generation.transformers_engine import TransformersEngine

SAMPLING = Sampling(temperature=1.0, top_p=0.95, top_k=20, max_new_tokens=40)
# the second begins the first; the third begins as the first does, and then differs
PROMPTS = [(*range(10, 90),), (*range(10, 60),), (*range(10, 45), 7), (*range(40, 47),)]


def rows_behind(model, prompts: list[tuple[int, ...]], rows: list[int]) -> SharedPrompts:
    """Rows of the prompts that `rows` names."""
    _, mask, cache = PromptReader(model, prompts, [None] * len(prompts)).read(range(len(prompts)))
    return SharedPrompts.of(cache, mask, prompts, torch.tensor(rows))


def read(states: SharedPrompts, model, texts: list[list[int]], token: int) -> torch.Tensor:
    """Append a token to every text; the logits behind it."""
    positions = torch.tensor([[len(text)] for text in texts])
    for text in texts:
        text.append(token)
    return states.read(model, torch.full((len(texts), 1), token), positions)


def assert_as_written_out(logits: torch.Tensor, model, texts: list[list[int]]) -> None:
    for row, text in enumerate(texts):
        expected = model(torch.tensor([text])).logits[0, -1]
        assert torch.allclose(logits[row], expected, atol=1e-4), row


@given(rows=st.lists(st.integers(0, 3), min_size=1, max_size=7))
@settings(max_examples=15)
@torch.inference_mode()
def test_logits_are_those_of_each_text_written_out_whatever_rows_share_a_prompt(tiny_model, rows):
    states = rows_behind(tiny_model.model, PROMPTS, rows)
    texts = [list(PROMPTS[row]) for row in rows]
    for token in (5, 6, 7):
        logits = read(states, tiny_model.model, texts, token)
    assert_as_written_out(logits, tiny_model.model, texts)


@torch.inference_mode()
def test_rows_that_have_ended_give_their_places_and_slots_to_new_prompts(tiny_model):
    model = tiny_model.model
    states = rows_behind(model, PROMPTS[:2], [0, 0, 1])
    texts = [list(PROMPTS[0]), list(PROMPTS[0]), list(PROMPTS[1])]
    read(states, model, texts, 5)
    active = torch.tensor([False, True, False])
    states.overwrite(torch.tensor([0, 2]), rows_behind(model, PROMPTS[2:], [0, 1]), active)
    texts = [list(PROMPTS[2]), texts[1], list(PROMPTS[3])]
    logits = read(states, model, texts, 6)
    assert_as_written_out(logits, model, texts)
    assert states.texts == [PROMPTS[0], PROMPTS[2], PROMPTS[3]]


@torch.inference_mode()
def test_prompts_and_columns_that_no_active_row_uses_are_dropped(tiny_model):
    model = tiny_model.model
    states = rows_behind(model, PROMPTS[:3], [0, 1, 2, 2])
    texts = [list(PROMPTS[row]) for row in (0, 1, 2, 2)]
    read(states, model, texts, 5)
    kept = states.kept(torch.tensor([1, 3]), torch.tensor([False, True, False, True]))
    assert kept.texts == [PROMPTS[1], PROMPTS[2]]
    assert kept.prompts[0][0].shape[2] == len(PROMPTS[1])
    texts = [texts[1], texts[3]]
    assert_as_written_out(read(kept, model, texts, 6), model, texts)


@torch.inference_mode()
def test_a_prompt_that_begins_a_text_in_a_slot_is_not_kept_again(tiny_model):
    states = rows_behind(tiny_model.model, PROMPTS[:2], [0, 1])
    assert states.texts == [PROMPTS[0]]
    states.overwrite(
        torch.tensor([1]), rows_behind(tiny_model.model, [PROMPTS[0][:20]], [0]), torch.tensor([True, False])
    )
    assert states.texts == [PROMPTS[0]]
    texts = [list(PROMPTS[0]), list(PROMPTS[0][:20])]
    assert_as_written_out(read(states, tiny_model.model, texts, 5), tiny_model.model, texts)


def test_prompts_that_begin_the_same_text_stand_side_by_side_the_longest_text_first():
    assert by_text([(1, 2), (3, 4, 5), (1,), (6,), (3, 4, 5, 6), (1, 2)]) == [4, 1, 0, 5, 2, 3]


def test_long_prompts_are_shared_and_continue_as_copied_ones_do(tiny_model, monkeypatch):
    used = []

    def recording(*arguments):
        used.append(arguments[-1])
        return Decoder(*arguments)

    monkeypatch.setattr(fitting_batches, "Decoder", recording)
    prompts = ["x" * 60 + "\n", "y" * 50 + "\n"]
    copied = TransformersEngine(replace(tiny_model), 8).generate(prompts, SAMPLING, 3, 0)
    monkeypatch.setattr(shared_prompts, "LONG_PROMPT", 10)
    assert TransformersEngine(replace(tiny_model), 8).generate(prompts, SAMPLING, 3, 0) == copied
    assert used == [CopiedPrompts, SharedPrompts]


def test_short_prompts_are_copied(tiny_model):
    long = [5] * LONG_PROMPT
    assert worth_sharing(tiny_model, [long])
    assert not worth_sharing(tiny_model, [long[1:]])


@pytest.fixture
def windowed(tiny_model):
    """The model with a window of 8 tokens in its configuration."""
    config = tiny_model.model.config
    before = dict(config.__dict__)
    config.layer_types, config.sliding_window = ["sliding_attention"] * 2, 8
    yield replace(tiny_model)
    config.__dict__.clear()
    config.__dict__.update(before)


def test_prompts_of_a_model_with_windows_are_copied(windowed):
    assert not worth_sharing(windowed, [[5] * LONG_PROMPT])


def test_a_model_that_reads_shared_prompts_otherwise_gets_copies(tiny_model, monkeypatch):
    attended = shared_prompts.shared_attention

    def without_prompts(*arguments, **terms):
        output, weights = attended(*arguments, **terms)
        return output * 0.5, weights

    monkeypatch.setattr(shared_prompts, "shared_attention", without_prompts)
    assert not worth_sharing(replace(tiny_model), [[5] * LONG_PROMPT])


def test_a_model_that_passes_nothing_on_to_its_layers_gets_copies(tiny_model, monkeypatch):
    forward = tiny_model.model.model.forward

    def without_terms(*arguments, shared_prompts=None, **terms):
        return forward(*arguments, **terms)

    monkeypatch.setattr(tiny_model.model.model, "forward", without_terms)
    assert not worth_sharing(replace(tiny_model), [[5] * LONG_PROMPT])
