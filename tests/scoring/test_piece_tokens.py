"""Pieces are tokenised on their own; where that differs from the whole string is stated here."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scoring_examples import LLAMA_PATTERN, QWEN_PATTERN, byte_level_bpe
from tokenizers import Tokenizer, models, normalizers
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.scoring.tokens import piece_ids, start_ids
from cpmi_dagster.templates import render_context, render_question, render_step, render_target


def joined(tokenizer, question, steps, answer, template=0):
    pieces = [render_question(question, template), *map(render_step, steps), render_target(answer)]
    ids = piece_ids(tokenizer, pieces)
    return [token for piece in pieces for token in ids[piece]]


def whole(tokenizer, question, steps, answer, template=0):
    text = render_context(question, steps, template) + render_target(answer)
    return tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("pattern", [QWEN_PATTERN, LLAMA_PATTERN], ids=["qwen", "llama3"])
@pytest.mark.parametrize("template", range(4))
def test_pieces_give_the_ids_of_the_whole_string_for_byte_level_bpe(pattern, template):
    steps = ["48 / 2 = 24.", "  So: 72!!", "\nThe answer is: 72\n", "$x$", "- 5"]
    arguments = (byte_level_bpe(pattern), "Ana has 48\n\nshells.  ", steps, "72.5", template)
    assert joined(*arguments) == whole(*arguments)


@given(
    question=st.text(max_size=12),
    steps=st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=8), max_size=3),
    answer=st.text(max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_pieces_give_the_ids_of_the_whole_string_for_any_steps_with_text(question, steps, answer):
    assume(all(step.strip() and step.strip()[0].isprintable() for step in steps))
    tokenizer = byte_level_bpe()
    assert joined(tokenizer, question, steps, answer) == whole(tokenizer, question, steps, answer)


def test_a_blank_step_is_where_pieces_and_whole_string_differ():
    tokenizer = byte_level_bpe()
    assert joined(tokenizer, "q", ["a", " ", "b"], "1") != whole(tokenizer, "q", ["a", " ", "b"], "1")


def test_bos_stands_first_only_where_the_tokenizer_adds_it():
    assert start_ids(byte_level_bpe(bos=True)) == (0,)
    assert start_ids(byte_level_bpe(bos=False)) == ()


def test_pieces_carry_no_special_tokens():
    assert 0 not in piece_ids(byte_level_bpe(bos=True), ["48 / 2"])["48 / 2"]


def test_a_repeated_piece_is_tokenised_once():
    ids = piece_ids(byte_level_bpe(), ["a\n", "b\n", "a\n"])
    assert list(ids) == ["a\n", "b\n"]


def test_a_piece_may_tokenise_to_nothing():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Strip()
    assert piece_ids(PreTrainedTokenizerFast(tokenizer_object=tokenizer), ["\n"]) == {"\n": ()}
