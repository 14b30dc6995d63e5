"""Texts are tokenised piece by piece, and the end of every step is known by counting."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.prm.inputs import EncodedSolution, encode_solutions, pad_batch
from cpmi_dagster.trajectories.templates import render_question, render_step

BuildDecoder = Callable[..., LoadedModel]
QUESTION = "How many two ?"
STEPS = ["we add two", " hence five ", "so"]


def test_token_ids_are_those_of_the_pieces_in_order_and_a_step_ends_at_its_own_newline(decoder):
    pieces = [render_question(QUESTION), *map(render_step, STEPS)]
    expected = [token for piece in pieces for token in decoder.tokenizer.encode(piece, add_special_tokens=False)]
    [encoded] = encode_solutions(decoder.tokenizer, [QUESTION], [STEPS])
    newline = decoder.tokenizer.convert_tokens_to_ids("\n")
    assert encoded.token_ids == expected
    assert [encoded.token_ids[position] for position in encoded.step_positions] == [newline] * 3
    assert encoded.step_positions[-1] == len(encoded.token_ids) - 1
    assert encode_solutions(decoder.tokenizer, [], []) == []


@pytest.mark.parametrize("bos", [True, False])
def test_bos_stands_once_and_only_where_the_tokenizer_adds_one(build_decoder, bos):
    tokenizer = build_decoder("llama", bos=bos).tokenizer
    [encoded] = encode_solutions(tokenizer, [QUESTION], [STEPS])
    assert sum(token == tokenizer.bos_token_id for token in encoded.token_ids) == int(bos)
    assert (encoded.token_ids[0] == tokenizer.bos_token_id) is bos


def test_steps_past_the_token_limit_are_dropped_whole_and_counted(decoder):
    [whole] = encode_solutions(decoder.tokenizer, [QUESTION], [STEPS])
    limit = whole.step_positions[1] + 1
    [exact] = encode_solutions(decoder.tokenizer, [QUESTION], [STEPS], max_tokens=limit)
    [short] = encode_solutions(decoder.tokenizer, [QUESTION], [STEPS], max_tokens=limit - 1)
    assert (exact.step_positions, exact.dropped_steps) == (whole.step_positions[:2], 1)
    assert (short.step_positions, short.dropped_steps) == (whole.step_positions[:1], 2)
    assert short.token_ids == whole.token_ids[: whole.step_positions[0] + 1]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=9), min_size=1, max_size=4))
def test_padding_keeps_every_token_and_masks_the_rest(rows):
    inputs, step_mask = pad_batch([EncodedSolution(row, [len(row) - 1]) for row in rows])
    for index, row in enumerate(rows):
        assert inputs["input_ids"][index][inputs["attention_mask"][index].bool()].tolist() == row
    assert inputs["input_ids"][inputs["attention_mask"] == 0].sum() == 0
    assert torch.equal(inputs["step_positions"].squeeze(1), inputs["attention_mask"].sum(dim=1) - 1)
    assert step_mask.all()
